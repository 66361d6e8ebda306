/* What the pipeline schedules compute: the synchronous ones what one processor does, bit
 * for bit; PipeDream what a slow program without simulation says it should. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const struct text_link slow_link = {1e6, 1e-4}, fast_link = {1e12, 0};
static const char data[] =
    "{\"kind\": \"synthetic\", \"features\": 9, \"classes\": 5, \"separation\": 3, "
    "\"train_samples\": 70, \"test_samples\": 31}";
static const char sgd[] = "{\"kind\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9}";

/* Blocks with dropout, a residual connection, and a value that is used blocks later. */
static const char *deep_model(size_t blocks)
{
    char *text = machine_buffer();
    size_t used = (size_t)snprintf(text, 128, "{\"input\": [9], \"blocks\": [");
    for (size_t i = 0; i + 1 < blocks; i++) {
        used += (size_t)snprintf(
            text + used, 256,
            "{\"name\": \"b%zu\", \"layers\": [{\"kind\": \"linear\", \"name\": \"l\", "
            "\"out\": 9}, {\"kind\": \"gelu\"}",
            i);
        if (i % 3 == 1)
            used += (size_t)snprintf(text + used, 128, ", {\"kind\": \"dropout\", \"rate\": 0.1}");
        if (i % 2 == 1)
            used += (size_t)snprintf(text + used, 128,
                                     ", {\"kind\": \"add\", \"inputs\": [\"previous\", "
                                     "\"block_input\"]}");
        if (i == 5)
            used += (size_t)snprintf(text + used, 128,
                                     ", {\"kind\": \"add\", \"name\": \"far\", \"inputs\": "
                                     "[\"previous\", \"b2.l\"]}");
        used += (size_t)snprintf(text + used, 16, "]}, ");
    }
    snprintf(text + used, 128,
             "{\"name\": \"out\", \"layers\": [{\"kind\": \"linear\", \"out\": 5}]}]}");
    return text;
}

struct training {
    size_t processors, blocks;
    uint64_t micro_batches, steps;
    const char *optimizer;
    struct text_link link;
    bool overlap;
};

static struct simulation *train(const struct training *t, const char *methods)
{
    return simulate(
        "{\"model\": %s, \"data\": %s, \"platform\": %s, \"optimizer\": %s, "
        "\"batch\": %d, \"micro_batch\": 2, \"steps\": %d, \"seed\": 11, "
        "\"evaluate_every\": 1, \"methods\": [%s]}",
        deep_model(t->blocks), data,
        roofline_machine(t->processors, "full", t->overlap, 1 << 26, t->link), t->optimizer,
        (int)t->micro_batches * 2, (int)t->steps, methods);
}

enum { MOST = 64 };

static size_t series(const struct simulated *s, const char *name, double *values)
{
    size_t count = 0;
    for (size_t i = 0; i < s->event_count && count < MOST; i++)
        if (s->events[i].kind == EVENT_METRIC && strcmp(s->events[i].name, name) == 0)
            values[count++] = s->events[i].value;
    return count;
}

static bool same(const struct simulated *a, const struct simulated *b, const char *name)
{
    double x[MOST], y[MOST];
    size_t n = series(a, name, x), m = series(b, name, y);
    return n > 0 && n == m && memcmp(x, y, n * sizeof *x) == 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of several copies, whose order within a step is a matter of time. */
static bool same_set(const struct simulated *a, const struct simulated *b, const char *name)
{
    double x[MOST], y[MOST];
    size_t n = series(a, name, x), m = series(b, name, y);
    qsort(x, n, sizeof *x, compare);
    qsort(y, m, sizeof *y, compare);
    for (size_t i = 0; i < n && n < MOST; i++)
        if (!isfinite(x[i])) /* NaNs would be alike whatever had gone wrong */
            return false;
    return n > 0 && n < MOST && n == m && memcmp(x, y, n * sizeof *x) == 0;
}

/* Every method's losses are the first one's. */
static void check_same(const struct simulation *s, bool copies)
{
    bool (*equal_by)(const struct simulated *, const struct simulated *, const char *) =
        copies ? same_set : same;
    for (size_t i = 1; i < s->count; i++) {
        bool equal = equal_by(s->methods[0], s->methods[i], "loss") &&
                     equal_by(s->methods[0], s->methods[i], "accuracy") &&
                     equal_by(s->methods[0], s->methods[i], "test loss");
        CU_ASSERT(equal);
        if (!equal)
            printf("\n  %s differs from %s\n", s->experiment->plans[i]->name,
                   s->experiment->plans[0]->name);
    }
}

static const char *const synchronous[] = {"gpipe", "1f1b", "grouped", "interleaved",
                                          "zero_bubble"};
enum { SYNCHRONOUS = sizeof synchronous / sizeof synchronous[0] };

/* A pipeline in each of the schedules; format says what is around each. */
static void add_schedules(char *methods, size_t bytes, int stages, const char *keys,
                          const char *outer)
{
    for (int k = 0; k < SYNCHRONOUS; k++) {
        size_t used = strlen(methods);
        snprintf(methods + used, bytes - used,
                 ", {\"name\": \"%s\", %s\"kind\": \"pipeline\", \"schedule\": \"%s\", "
                 "\"stages\": %d%s}%s",
                 synchronous[k], outer, synchronous[k], stages, keys,
                 outer[0] != '\0' ? "}" : "");
    }
}

static void every_size(void)
{
    static const uint64_t counts[] = {1, 2, 3, 5, 8, 16};
    for (int p = 1; p <= 9; p++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            char methods[4096] = "\"backprop\"";
            const struct training t = {9,   18,        counts[i], 3,
                                       sgd, slow_link, ((size_t)p + i) % 2 == 0};
            add_schedules(methods, sizeof methods, p, "", "");
            struct simulation *s = train(&t, methods);
            check_same(s, false);
            simulation_free(s);
        }
}

/* Backprop's losses fall, so that equality says something. */
static void learns(void)
{
    const struct training t = {1, 8, 4, 40, sgd, fast_link, true};
    double loss[MOST];
    struct simulation *s = train(&t, "\"backprop\"");
    CU_ASSERT_EQUAL(series(s->methods[0], "loss", loss), 40);
    CU_ASSERT(loss[39] < 0.7 * loss[0]);
    simulation_free(s);
}

static void recomputation(void)
{
    static const char *const ways[] = {"\"stage\"", "\"blocks\"",
                                       "[\"blocks\", \"none\", \"stage\", \"blocks\"]"};
    const struct training t = {4, 11, 5, 4, "\"adam\"", slow_link, true};
    for (size_t i = 0; i < 3; i++) {
        char methods[4096] = "\"backprop\"";
        for (int k = 0; k < SYNCHRONOUS; k++) {
            bool split = strcmp(synchronous[k], "zero_bubble") == 0;
            bool virtual = strcmp(synchronous[k], "interleaved") == 0;
            size_t used = strlen(methods);
            snprintf(methods + used, sizeof methods - used,
                     ", {\"name\": \"%s\", \"kind\": \"pipeline\", \"schedule\": \"%s\", "
                     "\"stages\": %d, \"recompute\": %s}",
                     synchronous[k], synchronous[k], virtual ? 2 : 4,
                     split ? "\"stage\"" : ways[i]);
        }
        struct simulation *s = train(&t, methods);
        CU_ASSERT_EQUAL(s->count, 1 + SYNCHRONOUS);
        check_same(s, false);
        simulation_free(s);
    }
}

/* A pipeline of any schedule may be a replica, or one of two codistilled models. */
static void combined(void)
{
    static const char *const outer[] = {
        "\"kind\": \"data_parallel\", \"replicas\": 2",
        "\"kind\": \"codistillation\", \"models\": 2, \"alpha\": 0.5, \"distance\": \"kl\""};
    const struct training t = {6, 12, 6, 4, sgd, slow_link, true};
    for (size_t i = 0; i < 2; i++) {
        char methods[4096], around[256];
        snprintf(methods, sizeof methods, "{%s}", outer[i]);
        snprintf(around, sizeof around, "%s, \"inner\": {", outer[i]);
        add_schedules(methods, sizeof methods, 3, "", around);
        struct simulation *s = train(&t, methods);
        CU_ASSERT_EQUAL(s->count, 1 + SYNCHRONOUS);
        check_same(s, true);
        simulation_free(s);
    }
}

/* Weights that the first and the last stage share. */
static void tied_weights(void)
{
    struct simulation *s = simulate(
        "{\"model\": {\"preset\": \"transformer_lm\", \"vocabulary\": 16, \"length\": 8, "
        "\"width\": 8, \"heads\": 2, \"depth\": 4}, \"data\": {\"kind\": "
        "\"synthetic_sequence\", \"length\": 8, \"vocabulary\": 16, \"train_samples\": 64, "
        "\"test_samples\": 8}, \"platform\": %s, \"batch\": 12, \"micro_batch\": 3, "
        "\"steps\": 3, \"evaluate_every\": 1, \"methods\": [\"backprop\", "
        "{\"name\": \"z\", \"kind\": \"pipeline\", \"schedule\": \"zero_bubble\", "
        "\"stages\": 3}, {\"name\": \"i\", \"kind\": \"pipeline\", \"schedule\": "
        "\"interleaved\", \"stages\": 2}, {\"name\": \"g\", \"kind\": \"pipeline\", "
        "\"schedule\": \"grouped\", \"stages\": 2, \"recompute\": \"blocks\"}]}",
        roofline_machine(3, "full", true, 1 << 28, fast_link));
    double first[MOST], other[MOST];
    size_t count = series(s->methods[0], "loss", first);
    for (size_t i = 1; i < s->count; i++) {
        CU_ASSERT_EQUAL(series(s->methods[i], "loss", other), count);
        for (size_t k = 0; k < count; k++) /* the two gradients are summed apart */
            CHECK_CLOSE(other[k], first[k], 1e-5);
    }
    simulation_free(s);
}

/* PipeDream without a machine: micro-batch after micro-batch through all stages, each on
 * the version of its weights that the paper's schedule gives it. */
enum { STAGES_MOST = 5, VERSIONS_MOST = 40 };

struct reference {
    const struct experiment *e;
    const struct plan *plan;
    struct dataset *dataset;
    size_t stages;
    struct network *network[STAGES_MOST];
    scalar *state[STAGES_MOST];
    scalar *version[STAGES_MOST][VERSIONS_MOST];
};

static void reference_open(struct reference *r, const struct experiment *e,
                           struct dataset *dataset)
{
    struct error error;
    const struct plan *plan = e->plans[0];
    *r = (struct reference){.e = e, .plan = plan, .dataset = dataset};
    r->stages = plan->part_count;
    for (size_t s = 0; s < r->stages; s++) {
        size_t count;
        const struct network_options options = {.model = plan->model,
                                                .first_layer = plan->parts[s].first_layer,
                                                .end_layer = plan->parts[s].end_layer,
                                                .batch = plan->micro_batch,
                                                .slots = 1,
                                                .input_gradient = s > 0,
                                                .training = true,
                                                .seed = e->seed};
        r->network[s] = network_create(&options, &error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(r->network[s]);
        network_parameters(r->network[s], &count);
        r->state[s] = calloc(2 * count + 1, sizeof(scalar));
    }
}

static void reference_close(struct reference *r)
{
    for (size_t s = 0; s < r->stages; s++) {
        for (size_t v = 0; v < VERSIONS_MOST; v++)
            free(r->version[s][v]);
        free(r->state[s]);
        network_free(r->network[s]);
    }
}

/* Between stage s - 1 and stage s: values forward, or gradients backward. */
static void hand_over(struct reference *r, size_t s, bool gradients)
{
    size_t values[MODEL_MAX_CROSSING];
    size_t count = model_crossing(r->plan->model, r->plan->parts[s].first_layer, values);
    for (size_t i = 0; i < count; i++) {
        struct network *before = r->network[s - 1], *after = r->network[s];
        size_t size = (size_t)shape_count(model_value_shape(r->plan->model, values[i])) *
                      (size_t)r->plan->micro_batch;
        if (gradients)
            memcpy(network_gradient(before, 0, values[i]), network_gradient(after, 0, values[i]),
                   size * sizeof(scalar));
        else
            memcpy(network_value(after, 0, values[i]), network_value(before, 0, values[i]),
                   size * sizeof(scalar));
    }
}

static uint64_t version_of(const struct reference *r, size_t s, uint64_t micro_batch)
{
    uint64_t ahead = r->stages - 1 - s;
    return micro_batch < ahead ? 0 : (micro_batch - ahead) / r->plan->micro_batches;
}

static double reference_loss(struct reference *r, const int32_t *labels)
{
    size_t last = r->stages - 1, logits = model_output_value(r->plan->model);
    scalar *gradient = network_gradient(r->network[last], 0, logits);
    memset(gradient, 0, (size_t)r->plan->micro_batch * 5 * sizeof(scalar));
    return loss_cross_entropy(network_value(r->network[last], 0, logits), labels,
                              (size_t)r->plan->micro_batch, 5, 0, 1.0 / (double)r->plan->batch,
                              gradient, NULL);
}

static double reference_micro_batch(struct reference *r, uint64_t micro_batch)
{
    const struct plan *plan = r->plan;
    uint64_t step = micro_batch / plan->micro_batches;
    uint64_t in_step = micro_batch % plan->micro_batches * plan->micro_batch;
    int32_t labels[8];
    for (size_t i = 0; i < plan->micro_batch; i++)
        dataset_training_sample(
            r->dataset, r->e->seed, step,
            dataset_order(r->dataset, r->e->seed, step * plan->batch + in_step + i),
            network_value(r->network[0], 0, 0) + i * 9, labels + i);
    for (size_t s = 0; s < r->stages; s++) {
        if (s > 0)
            hand_over(r, s, false);
        network_use_parameters(r->network[s], r->version[s][version_of(r, s, micro_batch)]);
        network_forward(r->network[s], 0, step, in_step);
    }
    double loss = reference_loss(r, labels);
    for (size_t s = r->stages; s-- > 0;) {
        size_t seeds[MODEL_MAX_CROSSING], count = 1;
        seeds[0] = model_output_value(plan->model);
        if (s + 1 < r->stages) {
            count = model_crossing(plan->model, plan->parts[s].end_layer, seeds);
            hand_over(r, s + 1, true);
        }
        network_backward(r->network[s], 0, BACKWARD_ALL, seeds, count);
    }
    return loss;
}

static double reference_step(struct reference *r, uint64_t step)
{
    double loss = 0;
    for (size_t s = 0; s < r->stages; s++) {
        size_t count;
        const scalar *now = network_parameters(r->network[s], &count);
        r->version[s][step] = malloc(count * sizeof *now);
        memcpy(r->version[s][step], now, count * sizeof *now);
    }
    for (uint64_t i = 0; i < r->plan->micro_batches; i++)
        loss += reference_micro_batch(r, step * r->plan->micro_batches + i);
    for (size_t s = 0; s < r->stages; s++) {
        size_t tensor_count;
        const struct network_tensor *tensors = network_tensors(r->network[s], &tensor_count);
        optimizer_update(&r->e->setting.optimizer, step, r->e->steps, tensors, tensor_count,
                         network_parameters(r->network[s], NULL),
                         network_parameter_gradients(r->network[s]), r->state[s]);
        network_zero_gradients(r->network[s]);
    }
    return loss / (double)r->plan->batch;
}

static void check_pipedream(const struct training *t, int stages, const char *recompute)
{
    char method[256];
    double loss[MOST];
    struct error error;
    snprintf(method, sizeof method,
             "{\"kind\": \"pipeline\", \"schedule\": \"pipedream\", \"stages\": %d, "
             "\"recompute\": \"%s\"}",
             stages, recompute);
    struct simulation *s = train(t, method);
    struct dataset *dataset = experiment_open_data(s->experiment, &error);
    struct reference r;
    CU_ASSERT_EQUAL_FATAL(series(s->methods[0], "loss", loss), t->steps);
    reference_open(&r, s->experiment, dataset);
    for (uint64_t step = 0; step < t->steps; step++)
        CU_ASSERT_EQUAL(loss[step], reference_step(&r, step));
    reference_close(&r);
    dataset_free(dataset);
    simulation_free(s);
}

static void stale_weights(void)
{
    static const char *const ways[] = {"none", "stage", "blocks"};
    for (int p = 1; p <= 5; p++)
        for (uint64_t m = 1; m <= 6; m++) {
            const struct training t = {5, 7, m, 9, m % 2 == 0 ? sgd : "\"adam\"", slow_link,
                                       p % 2 == 0};
            check_pipedream(&t, p, ways[m % 3]);
        }
}

/* One stage is backprop. Neither links nor the kind of machine change a number; staleness
 * does. */
static void pipedream_alone(void)
{
    static const char one[] = "\"backprop\", {\"kind\": \"pipeline\", \"schedule\": "
                              "\"pipedream\", \"stages\": 1}";
    static const char four[] = "{\"kind\": \"pipeline\", \"schedule\": \"pipedream\", "
                               "\"stages\": 4}, {\"name\": \"b\", \"kind\": \"backprop\"}";
    struct training t = {4, 8, 3, 6, sgd, slow_link, true};
    struct simulation *alone = train(&t, one), *slow = train(&t, four);
    check_same(alone, false);
    t.link = fast_link;
    t.overlap = false;
    struct simulation *fast = train(&t, four);
    CU_ASSERT(same(slow->methods[0], fast->methods[0], "loss"));
    CU_ASSERT(!same(slow->methods[0], slow->methods[1], "loss"));
    CU_ASSERT(fast->methods[0]->result.time_s < slow->methods[0]->result.time_s);
    simulation_free(alone);
    simulation_free(slow);
    simulation_free(fast);
}

static const struct check checks[] = {
    {"synchronous schedules compute what backprop does", every_size},
    {"which learns", learns},
    {"with recomputation too", recomputation},
    {"as replicas and as codistilled models", combined},
    {"weights tied across stages", tied_weights},
    {"PipeDream against its definition", stale_weights},
    {"PipeDream on one stage, and on other machines", pipedream_alone},
};

CHECK_MAIN("schedule numerics", checks)
