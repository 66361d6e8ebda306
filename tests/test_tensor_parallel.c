/* Tensor parallelism: whatever the number of ranks, they learn what one processor learns;
 * what all hold stays equal to the bit; bytes, memory and time are those of the split. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

enum { STEPS = 4 };

static const char mlp[] = "{\"preset\": \"mlp\", \"input\": [12], \"hidden\": 24, "
                          "\"depth\": 4, \"classes\": 5}";
static const char short_mlp[] = "{\"preset\": \"mlp\", \"input\": [12], \"hidden\": 24, "
                                "\"depth\": 3, \"classes\": 5}";
static const char wide_mlp[] = "{\"preset\": \"mlp\", \"input\": [512], \"hidden\": 512, "
                               "\"depth\": 5, \"classes\": 512}";
static const char lm[] =
    "{\"preset\": \"transformer_lm\", \"vocabulary\": 11, \"length\": 6, \"width\": 24, "
    "\"depth\": 2, \"heads\": 12, \"tied\": false, \"dropout\": 0.1}";
static const char late_norm_lm[] =
    "{\"preset\": \"transformer_lm\", \"vocabulary\": 11, \"length\": 6, \"width\": 24, "
    "\"depth\": 2, \"heads\": 12, \"norm_first\": false, \"tied\": false}";
static const char tied_lm[] =
    "{\"preset\": \"transformer_lm\", \"vocabulary\": 11, \"length\": 6, \"width\": 24, "
    "\"depth\": 2, \"heads\": 12}";
static const char points[] =
    "{\"kind\": \"synthetic\", \"features\": 12, \"classes\": 5, \"separation\": 2, "
    "\"train_samples\": 400, \"test_samples\": 50}";
static const char texts[] =
    "{\"kind\": \"synthetic_sequence\", \"length\": 6, \"vocabulary\": 11, \"lag\": 1, "
    "\"train_samples\": 200, \"test_samples\": 30}";

static const struct text_link plain_link = {1e9, 1e-6};

static size_t tensor_sum(const struct model *model, size_t first, size_t layer,
                         size_t tensor)
{
    size_t sum = 0;
    for (size_t i = first; i < layer; i++)
        sum += (size_t)layer_parameter_count(&model->layers[i]);
    for (size_t i = 0; i < tensor; i++)
        sum += (size_t)model->layers[layer].tensor[i].count;
    return sum;
}

static size_t same_layer(const struct model *model, uint32_t identity)
{
    size_t i = 0;
    while (i < model->layer_count && model->layers[i].identity != identity)
        i++;
    CU_ASSERT_FATAL(i < model->layer_count);
    return i;
}

static const struct model_slice *slice_of(const struct plan *plan, size_t layer,
                                          size_t tensor)
{
    for (size_t i = 0; i < plan->slice_count; i++)
        if (plan->slices[i].layer == layer && plan->slices[i].tensor == tensor)
            return &plan->slices[i];
    return NULL;
}

/* One tensor of a part, against the whole model's; notes how often each was seen. */
static void check_tensor(const struct plan *plan, const struct model *whole,
                         const struct part *part, size_t layer, size_t tensor,
                         const scalar *own, const scalar *reference, uint8_t *seen)
{
    const struct layer *l = &plan->model->layers[layer];
    const struct model_slice *s = slice_of(plan, layer, tensor);
    size_t count = (size_t)l->tensor[tensor].count;
    size_t base = s != NULL ? tensor_sum(whole, 0, s->whole_layer, s->whole_tensor)
                            : tensor_sum(whole, 0, same_layer(whole, l->identity), tensor);
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = base + i;
        if (s != NULL && !s->replicated) {
            size_t inner = (size_t)s->inner;
            at = base + i / inner * inner * plan->slice_ranks + part->rank * inner +
                 i % inner;
        }
        largest = fmax(largest, fabs((double)own[i] - (double)reference[at]));
        seen[at]++;
    }
    if (largest > 1e-5)
        printf("\n  %s tensor %zu: %g off\n", l->name, tensor, largest);
    CU_ASSERT(largest <= 1e-5);
}

/* All weights of a copy; and those that every rank holds are the same bits. */
static void check_weights(const struct plan *plan, uint32_t copy, const struct model *whole,
                          const struct simulated *s, const struct simulated *reference)
{
    size_t total = reference->weight_first[1];
    uint8_t *seen = calloc(total, 1);
    const struct copy *c = &plan->copies[copy];
    uint32_t ranks = plan->slice_count > 0 ? plan->slice_ranks : 1;
    uint32_t stages = (c->end_part - c->first_part) / ranks;
    CU_ASSERT_FATAL(seen != NULL && total > 0);
    for (uint32_t p = c->first_part; p < c->end_part; p++) {
        const struct part *part = &plan->parts[p];
        for (size_t i = part->first_layer; i < part->end_layer; i++)
            for (size_t t = 0; t < plan->model->layers[i].tensor_count; t++) {
                size_t at = tensor_sum(plan->model, part->first_layer, i, t);
                const scalar *own = s->weights + s->weight_first[p] + at;
                const struct model_slice *slice = slice_of(plan, i, t);
                check_tensor(plan, whole, part, i, t, own, reference->weights, seen);
                if (slice == NULL || slice->replicated)
                    CU_ASSERT(
                        memcmp(own,
                               s->weights + s->weight_first[p - part->rank * stages] + at,
                               (size_t)plan->model->layers[i].tensor[t].count *
                                   sizeof *own) == 0);
            }
    }
    for (size_t i = 0; i < total; i++)
        CU_ASSERT(seen[i] == 1 || seen[i] == ranks);
    free(seen);
}

static void check_losses(const struct simulated *s, const struct simulated *reference)
{
    for (size_t step = 0; step < STEPS; step++) {
        CHECK_CLOSE(simulated_metric(s, "loss", 0, step),
                    simulated_metric(reference, "loss", 0, step), 1e-5);
    }
    size_t tests = 0;
    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *event = &s->events[i];
        if (event->kind != EVENT_METRIC || strcmp(event->name, "test loss") != 0)
            continue;
        CHECK_CLOSE(event->value, simulated_metric(reference, "test loss", 0, tests), 1e-5);
        tests++;
    }
    CU_ASSERT_EQUAL(tests, STEPS);
}

static struct simulation *train(const char *model, const char *data, const char *rest,
                                const char *methods)
{
    return simulate("{\"model\": %s, \"data\": %s, \"platform\": %s, \"seed\": 5, "
                    "\"batch\": 12, \"steps\": %d, \"evaluate_every\": 1, %s, "
                    "\"methods\": [\"backprop\", %s]}",
                    model, data, roofline_machine(8, "full", false, 1 << 26, plain_link),
                    STEPS, rest, methods);
}

static const char sgd[] = "\"micro_batch\": 3, \"optimizer\": {\"kind\": \"sgd\", "
                          "\"learning_rate\": 0.05, \"momentum\": 0.9}";
static const char adam[] = "\"micro_batch\": 6, \"optimizer\": {\"kind\": \"adam\", "
                           "\"learning_rate\": 0.0001, \"weight_decay\": 0.01}";
static const char by_message[] = "\"micro_batch\": 2, \"optimizer\": {\"kind\": \"sgd\", "
                                 "\"learning_rate\": 0.05}, \"fidelity\": \"message\"";

static void check_training(const char *model, const char *data, const char *rest)
{
    struct simulation *s =
        train(model, data, rest,
              "{\"kind\": \"tensor_parallel\", \"name\": \"1\", \"ranks\": 1},"
              "{\"kind\": \"tensor_parallel\", \"name\": \"2\"},"
              "{\"kind\": \"tensor_parallel\", \"name\": \"3\", \"ranks\": 3},"
              "{\"kind\": \"tensor_parallel\", \"name\": \"4\", \"ranks\": 4, "
              "\"all_reduce\": \"recursive_doubling\"},"
              "{\"kind\": \"data_parallel\", \"replicas\": 2, \"inner\": "
              "{\"kind\": \"tensor_parallel\", \"ranks\": 3}},"
              "{\"kind\": \"data_parallel\", \"name\": \"buckets\", \"replicas\": 2, "
              "\"buckets\": 3, \"inner\": \"tensor_parallel\"},"
              "{\"kind\": \"data_parallel\", \"name\": \"shards\", \"replicas\": 2, "
              "\"shard\": \"gradients\", \"inner\": {\"kind\": \"tensor_parallel\", "
              "\"ranks\": 4}}");
    const struct simulated *reference = s->methods[0];
    CU_ASSERT(memcmp(s->methods[1]->weights, reference->weights,
                     reference->weight_first[1] * sizeof(scalar)) == 0);
    CU_ASSERT_EQUAL(s->methods[1]->result.time_s, reference->result.time_s);
    for (size_t m = 1; m < s->count; m++) {
        const struct plan *plan = s->experiment->plans[m];
        for (uint32_t c = 0; c < plan->copy_count; c++)
            check_weights(plan, c, s->experiment->model, s->methods[m], reference);
        if (plan->copy_count == 1)
            check_losses(s->methods[m], reference);
    }
    simulation_free(s);
}

static void test_mlp(void)
{
    check_training(mlp, points, sgd);
    check_training(mlp, points, adam);
    check_training(mlp, points, by_message);
}

static void test_transformer(void)
{
    check_training(lm, texts, sgd);
    check_training(lm, texts, by_message);
    check_training(late_norm_lm, texts, sgd);
}

/* Two models that teach each other, each over two ranks, and each on one processor. */
static void test_codistillation(void)
{
    struct simulation *s =
        train(mlp, points, sgd,
              "{\"kind\": \"codistillation\", \"name\": \"one\"},"
              "{\"kind\": \"codistillation\", \"name\": \"two\", \"inner\": "
              "\"tensor_parallel\"}");
    const struct plan *plan = s->experiment->plans[2];
    for (uint32_t c = 0; c < 2; c++) {
        struct simulated *one = s->methods[1];
        size_t count = one->weight_first[1];
        memmove(one->weights, one->weights + one->weight_first[c], count * sizeof(scalar));
        check_weights(plan, c, s->experiment->model, s->methods[2], one);
        for (size_t step = 0; step < STEPS; step++) {
            CHECK_CLOSE(simulated_metric(s->methods[2], "loss", 2 * c, step),
                        simulated_metric(one, "loss", c, step), 1e-5);
        }
    }
    simulation_free(s);
}

/* Checkpoints that arrive at once, but after the step has begun: whatever the split, a
 * pupil learns from the weights of the step before the last. */
static void test_checkpoints(void)
{
    static const char exchange[] =
        "\"kind\": \"codistillation\", \"exchange\": \"checkpoints\", \"period\": 1, "
        "\"alpha\": 0.7, \"inner\":";
    const struct text_link quick = {INFINITY, 1e-9};
    struct simulation *s = simulate(
        "{\"model\": %s, \"data\": %s, \"platform\": %s, \"seed\": 5, \"batch\": 12, "
        "\"micro_batch\": 3, \"steps\": %d, \"evaluate_every\": 1, "
        "\"optimizer\": {\"kind\": \"sgd\", \"learning_rate\": 0.02}, \"methods\": "
        "[{\"name\": \"one\", %s \"backprop\"}, "
        "{\"name\": \"no\", \"kind\": \"codistillation\", \"alpha\": 0}, "
        "{\"name\": \"split\", %s {\"kind\": \"tensor_parallel\"}}, "
        "{\"name\": \"staged\", %s {\"kind\": \"tensor_parallel\", \"inner\": "
        "{\"kind\": \"pipeline\", \"stages\": 2}}}]}",
        tied_lm, texts, roofline_machine(8, "full", true, 1 << 26, quick), 2 * STEPS,
        exchange, exchange, exchange);
    for (size_t step = 0; step < 2 * STEPS; step++) {
        double one = simulated_metric(s->methods[0], "loss", 0, step);
        CHECK_CLOSE(simulated_metric(s->methods[2], "loss", 0, step), one, 1e-5);
        CHECK_CLOSE(simulated_metric(s->methods[3], "loss", 2, step), one, 1e-5);
        if (step == 2 * STEPS - 1)
            CU_ASSERT(fabs(simulated_metric(s->methods[1], "loss", 0, step) - one) >
                      1e-4 * one);
    }
    simulation_free(s);
}

/* Two sums of a pair's rows and one of its columns' input gradient, a micro-batch: a ring
 * moves 2 (T - 1) times the array in all. The first pair's input has no gradient. */
static void test_bytes(void)
{
    double time_s[2];
    for (int message = 0; message < 2; message++) {
        struct simulation *s = simulate(
            "{\"model\": %s, \"data\": %s, \"platform\": %s, \"numerics\": false, "
            "\"batch\": 12, \"micro_batch\": 4, \"steps\": 2, \"fidelity\": \"%s\", "
            "\"methods\": [{\"kind\": \"tensor_parallel\", \"ranks\": 3}]}",
            short_mlp, points, roofline_machine(8, "full", false, 1 << 26, plain_link),
            message ? "message" : "auto");
        /* pairs 12 -> 24 -> 24 and 24 -> 24 -> 5: forward 24 and 5, backward 24 */
        uint64_t values = 24 + 5 + 24;
        CU_ASSERT_EQUAL(s->methods[0]->bytes, 2 * 3 * 2 * (3 - 1) * values * 4 * 4);
        time_s[message] = s->methods[0]->result.time_s;
        simulation_free(s);
    }
    CHECK_CLOSE(time_s[0], time_s[1], 1e-9 * time_s[0]);
    struct simulation *s = simulate(
        "{\"model\": %s, \"data\": %s, \"platform\": %s, \"numerics\": false, \"batch\": "
        "6, "
        "\"micro_batch\": 2, \"steps\": 1, \"methods\": [{\"kind\": \"tensor_parallel\", "
        "\"ranks\": 4}]}",
        lm, texts, roofline_machine(8, "full", false, 1 << 26, plain_link));
    /* per layer attention and feed-forward, each two sums of [length, width] */
    CU_ASSERT_EQUAL(s->methods[0]->bytes,
                    UINT64_C(3) * 2 * (4 - 1) * (2 * 2 * 2) * (6 * 24) * 2 * 4);
    simulation_free(s);
}

static uint64_t parameters_of(const struct plan *plan, uint32_t rank)
{
    uint64_t sum = 0;
    for (uint32_t p = 0; p < plan->part_count; p++)
        sum +=
            plan->parts[p].rank == rank ? plan_part_parameters(plan, &plan->parts[p]) : 0;
    return sum;
}

/* A rank holds 1/T of what is split and all biases of sums; on free links it takes about
 * 1/T of the time. Both fidelities tell the same time. */
static void test_memory_and_time(void)
{
    const struct text_link free_link = {INFINITY, 0};
    double time_s[2];
    for (int message = 0; message < 2; message++) {
        struct simulation *s = simulate(
            "{\"model\": %s, \"data\": %s, \"platform\": %s, \"numerics\": false, "
            "\"batch\": 64, \"micro_batch\": 64, \"steps\": 2, \"fidelity\": \"%s\", "
            "\"methods\": [\"backprop\", {\"kind\": \"tensor_parallel\", \"ranks\": 4}]}",
            wide_mlp,
            "{\"kind\": \"synthetic\", \"features\": 512, \"classes\": 512, "
            "\"separation\": 2, \"train_samples\": 640, \"test_samples\": 50}",
            roofline_machine(8, "full", false, 1 << 30, free_link),
            message ? "message" : "auto");
        const struct plan *plan = s->experiment->plans[1];
        uint64_t weights = 6 * 512 * 512, biases = 3 * 512;
        for (uint32_t rank = 0; rank < 4; rank++)
            CU_ASSERT_EQUAL(parameters_of(plan, rank), weights / 4 + biases / 4 + biases);
        time_s[message] = s->methods[1]->result.time_s;
        CU_ASSERT(time_s[message] < s->methods[0]->result.time_s * 0.45);
        CU_ASSERT(time_s[message] > s->methods[0]->result.time_s * 0.24);
        simulation_free(s);
    }
    CHECK_CLOSE(time_s[0], time_s[1], 1e-9 * time_s[0]);
}

static void refused(const char *model, const char *data, const char *rest,
                    const char *method, const char *says)
{
    char *text = NULL;
    struct error error;
    CU_ASSERT_FATAL(
        asprintf(&text,
                 "{\"model\": %s, \"data\": %s, \"platform\": %s, \"batch\": 12, "
                 "\"micro_batch\": 12, \"steps\": 1, %s \"methods\": [%s]}",
                 model, data, roofline_machine(8, "full", false, 1 << 26, plain_link), rest,
                 method) >= 0);
    struct experiment *e = read_experiment(text, &error);
    CU_ASSERT_PTR_NULL(e);
    if (e != NULL || strstr(error.message, says) == NULL)
        printf("\n  \"%s\" does not say \"%s\"\n", error.message, says);
    CU_ASSERT(strstr(error.message, says) != NULL);
    experiment_free(e);
    free(text);
}

static void test_refusals(void)
{
    const char two[] = "\"tensor_parallel\"";
    const char five[] = "{\"kind\": \"tensor_parallel\", \"ranks\": 5}";
    refused(mlp, points, "", five, "cannot be split over 5 ranks");
    refused(mlp, points, "", "{\"kind\": \"tensor_parallel\", \"ranks\": 0}", "ranks");
    refused(mlp, points, "", "{\"kind\": \"tensor_parallel\", \"ranks\": 12}",
            "more than the 8 processors");
    refused(lm, texts, "", five, "cannot be split over 5 ranks");
    refused("{\"preset\": \"mlp\", \"input\": [12], \"depth\": 0, \"classes\": 5}", points,
            "", two, "nothing to split");
    refused(mlp, points, "\"optimizer\": \"lars\",", two, "lars");
    refused(mlp, points, "\"optimizer\": {\"kind\": \"sgd\", \"clip_norm\": 1},", two,
            "clip_norm");
    refused(mlp, points, "",
            "{\"kind\": \"tensor_parallel\", \"inner\": \"data_parallel\"}",
            "put it outside");
    refused(mlp, points, "",
            "{\"kind\": \"tensor_parallel\", \"inner\": \"tensor_parallel\"}",
            "cannot be inside");
}

static const struct check checks[] = {
    {"multi-layer perceptrons learn what one processor learns", test_mlp},
    {"language models likewise", test_transformer},
    {"codistilled models likewise", test_codistillation},
    {"codistilled models that exchange checkpoints", test_checkpoints},
    {"bytes", test_bytes},
    {"memory and time", test_memory_and_time},
    {"what is refused", test_refusals},
};

CHECK_MAIN("tensor parallelism", checks)
