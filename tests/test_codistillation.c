/* Codistillation: what the models learn from each other, when, and what it costs. */
#include "engine/loss.h"
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const struct text_link fast_link = {1e12, 0}, slow_link = {1e6, 1e-4};
/* A checkpoint takes less than a step; several steps. */
static const struct text_link quick_link = {1e9, 1e-7}, tardy_link = {6e6, 1e-5};

static const char model_text[] =
    "{\"input\": [12], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"linear\", \"out\": 40}, {\"kind\": "
    "\"relu\"}]},"
    "{\"name\": \"b\", \"layers\": [{\"kind\": \"linear\", \"out\": 16}, {\"kind\": "
    "\"gelu\"}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"linear\", \"out\": 4}]}]}";
static const char data_text[] =
    "{\"kind\": \"synthetic\", \"features\": 12, \"classes\": 4, "
    "\"separation\": 2, \"train_samples\": 50, \"test_samples\": 37}";
static const char sgd[] =
    "{\"learning_rate\": 0.05, \"momentum\": 0.9, \"weight_decay\": 0.001}";
enum { PARAMETERS = 12 * 40 + 40 + 40 * 16 + 16 + 16 * 4 + 4, CLASSES = 4, BATCH = 6 };

static struct simulation *train_on(size_t processors, bool overlap, struct text_link link,
                                   const char *optimizer, uint64_t micro_batch,
                                   uint64_t steps, const char *methods)
{
    return simulate("{\"model\": %s, \"data\": %s, \"platform\": %s, \"optimizer\": %s, "
                    "\"batch\": %d, \"micro_batch\": %d, \"steps\": %d, \"seed\": 5, "
                    "\"evaluate_every\": 1, \"label_smoothing\": 0.1, \"methods\": [%s]}",
                    model_text, data_text,
                    roofline_machine(processors, "full", overlap, 1 << 24, link), optimizer,
                    BATCH, (int)micro_batch, (int)steps, methods);
}

static struct simulation *train(struct text_link link, uint64_t steps, const char *methods)
{
    return train_on(8, true, link, sgd, BATCH, steps, methods);
}

/* Weights of some parts, one after the other. */
static bool same_parts(const struct simulated *a, size_t first_a, const struct simulated *b,
                       size_t first_b, size_t parts)
{
    size_t from = a->weight_first[first_a], count = a->weight_first[first_a + parts] - from;
    size_t other = b->weight_first[first_b];
    return count > 0 && b->weight_first[first_b + parts] - other == count &&
           memcmp(a->weights + from, b->weights + other, count * sizeof *a->weights) == 0;
}

static size_t series(const struct simulated *s, const char *name, uint32_t processor,
                     double values[64])
{
    size_t count = 0;
    for (size_t i = 0; i < s->event_count && count < 64; i++)
        if (s->events[i].kind == EVENT_METRIC && s->events[i].processor == processor &&
            strcmp(s->events[i].name, name) == 0)
            values[count++] = s->events[i].value;
    return count;
}

/* Steps in which two runs of a processor have told the same loss, from the first on. */
static size_t same_steps(const struct simulated *a, const struct simulated *b,
                         uint32_t processor)
{
    double x[64], y[64];
    size_t n = series(a, "loss", processor, x), m = series(b, "loss", processor, y);
    size_t same = 0;
    while (same < n && same < m && x[same] == y[same])
        same++;
    return same;
}

/* Alone, or with no weight on the others, a model trains as if they were not there. */
static void no_influence(void)
{
    struct simulation *s = train(
        quick_link, 8,
        "\"backprop\", "
        "{\"name\": \"p1\", \"kind\": \"codistillation\", \"models\": 1}, "
        "{\"name\": \"c1\", \"kind\": \"codistillation\", \"models\": 1, \"exchange\": "
        "\"checkpoints\", \"period\": 2}, "
        "{\"name\": \"p0\", \"kind\": \"codistillation\", \"models\": 3, \"alpha\": 0}, "
        "{\"name\": \"c0\", \"kind\": \"codistillation\", \"models\": 3, \"alpha\": 0, "
        "\"exchange\": \"checkpoints\", \"period\": 2}, "
        "{\"name\": \"s0\", \"kind\": \"codistillation\", \"models\": 2, \"alpha\": 0, "
        "\"initialization\": \"same\"}, "
        "{\"name\": \"o0\", \"kind\": \"codistillation\", \"models\": 2, \"alpha\": 0, "
        "\"initialization\": \"same\", \"exchange\": \"checkpoints\", \"period\": 2, "
        "\"data\": \"own\"}, "
        "{\"name\": \"p\", \"kind\": \"codistillation\", \"models\": 3}");
    struct simulated **m = s->methods;
    for (size_t i = 1; i <= 5; i++)
        CU_ASSERT(same_parts(m[0], 0, m[i], 0, 1));
    for (size_t k = 1; k < 3; k++) {
        CU_ASSERT(same_parts(m[3], k, m[4], k, 1));
        CU_ASSERT_FALSE(same_parts(m[3], k, m[3], k - 1, 1));
    }
    CU_ASSERT(same_parts(m[0], 0, m[5], 1, 1));
    CU_ASSERT_FALSE(same_parts(m[6], 0, m[6], 1, 1)); /* other samples */
    CU_ASSERT_FALSE(same_parts(m[0], 0, m[7], 0, 1));
    CU_ASSERT_EQUAL(m[1]->bytes + m[2]->bytes, 0);
    CU_ASSERT_EQUAL(same_steps(m[0], m[3], 0), 8);
    simulation_free(s);
}

/* A reference without plans, processors and messages: who taught whom with which weights
 * is taken from the run; the arithmetic is not. */
enum { MODELS = 3, STEPS = 12 };
struct reference {
    struct network *network[MODELS];
    scalar *state[MODELS];
    scalar history[MODELS][STEPS][PARAMETERS]; /* after each step */
    struct network *teacher;
    int32_t labels[BATCH];
    scalar inputs[BATCH * 12];
};

static struct network *reference_network(const struct experiment *e, uint64_t offset)
{
    struct error error = {0};
    const struct network_options options = {.model = e->model,
                                            .end_layer = e->model->layer_count,
                                            .batch = BATCH,
                                            .slots = 1,
                                            .training = true,
                                            .seed = e->seed +
                                                    offset * UINT64_C(0x9e3779b97f4a7c15)};
    struct network *network = network_create(&options, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(network);
    return network;
}

static void feed(struct network *network, const struct reference *r)
{
    memcpy(network_value(network, 0, 0), r->inputs, sizeof r->inputs);
    network_forward(network, 0, 0, 0);
}

struct pupil {
    const struct experiment *experiment;
    const struct plan *plan;
    const struct simulated *run;
    uint64_t models, step;
    uint32_t model, processor; /* which tells the ages */
    double alpha;
    bool kl;
};

/* The step after which a teacher's weights were sent that the pupil uses, from the age that
 * the pupil's first processor told; a teacher may be ahead of its pupil. -1: none. */
static int64_t told_step(const struct pupil *p, uint64_t teacher)
{
    for (size_t i = 0; i < p->run->event_count; i++) {
        const struct event *event = &p->run->events[i];
        if (event->kind != EVENT_METRIC || event->processor != p->processor ||
            event->step != p->step || strcmp(event->name, "teacher age") != 0)
            continue;
        const struct part *from = &p->plan->parts[p->plan->edges[event->edge].from_part];
        if (p->plan->copies[from->copy].model == teacher)
            return (int64_t)p->step - 1 - (int64_t)event->value;
    }
    return -1;
}

/* All that the pupil's step needs has been computed. */
static bool possible(const struct pupil *p, const uint64_t done[MODELS])
{
    for (uint64_t from = 0; from < p->models; from++)
        if (from != p->model && told_step(p, from) >= (int64_t)done[from])
            return false;
    return true;
}

static void distil(struct reference *r, const struct pupil *p, scalar *gradient)
{
    size_t output = model_output_value(p->experiment->model);
    const scalar *logits = network_value(r->network[p->model], 0, output);
    double weight = p->alpha / (double)(p->models - 1) / BATCH;
    for (uint64_t from = 0; from < p->models; from++) {
        if (from == p->model)
            continue;
        int64_t step = told_step(p, from);
        if (step < 0)
            continue;
        memcpy(network_parameters(r->teacher, NULL), r->history[from][step],
               sizeof r->history[0][0]);
        feed(r->teacher, r);
        const scalar *other = network_value(r->teacher, 0, output);
        if (p->kl)
            loss_kl(logits, other, BATCH, CLASSES, 2, weight, gradient);
        else
            loss_mean_square(logits, other, BATCH, CLASSES, weight, gradient);
    }
}

static void reference_step(struct reference *r, const struct pupil *p,
                           const struct dataset *dataset, bool own)
{
    const struct experiment *e = p->experiment;
    struct network *network = r->network[p->model];
    uint64_t first = own ? (p->step * p->models + p->model) * BATCH : p->step * BATCH;
    size_t output = model_output_value(e->model), tensors;
    for (size_t i = 0; i < BATCH; i++)
        dataset_sample(dataset, DATASET_TRAIN, dataset_order(dataset, e->seed, first + i),
                       r->inputs + 12 * i, r->labels + i);
    feed(network, r);
    scalar *gradient = network_gradient(network, 0, output);
    memset(gradient, 0, BATCH * CLASSES * sizeof *gradient);
    loss_cross_entropy(network_value(network, 0, output), r->labels, BATCH, CLASSES, 0.1,
                       1.0 / BATCH, gradient, NULL);
    distil(r, p, gradient);
    network_backward(network, 0, BACKWARD_ALL, &output, 1);
    const struct network_tensor *list = network_tensors(network, &tensors);
    optimizer_update(&e->setting.optimizer, p->step, e->steps, list, tensors,
                     network_parameters(network, NULL),
                     network_parameter_gradients(network), r->state[p->model]);
    network_zero_gradients(network);
    memcpy(r->history[p->model][p->step], network_parameters(network, NULL),
           sizeof r->history[0][0]);
}

/* The run's models, whose parts are `stages` each, against the reference. */
static void check_reference(const struct simulation *s, size_t method, uint64_t models,
                            size_t stages, bool own, bool kl)
{
    const struct experiment *e = s->experiment;
    const struct simulated *m = s->methods[method];
    struct error error = {0};
    struct reference *r = calloc(1, sizeof *r);
    struct dataset *dataset = experiment_open_data(e, &error);
    CU_ASSERT_FATAL(r != NULL && dataset != NULL);
    r->teacher = reference_network(e, 0);
    for (uint64_t i = 0; i < models; i++) {
        r->network[i] = reference_network(e, i);
        r->state[i] = calloc(PARAMETERS, sizeof *r->state[i]);
    }
    uint64_t done[MODELS] = {0};
    for (uint64_t rounds = 0; rounds < models * e->steps; rounds++)
        for (uint32_t i = 0; i < models; i++) {
            const struct pupil pupil = {
                e, s->experiment->plans[method], m,   models, done[i],
                i, i * (uint32_t)stages,         0.7, kl};
            if (done[i] < e->steps && possible(&pupil, done)) {
                reference_step(r, &pupil, dataset, own);
                done[i]++;
            }
        }
    for (uint64_t i = 0; i < models; i++) {
        CU_ASSERT_EQUAL(m->weight_first[(i + 1) * stages] - m->weight_first[i * stages],
                        PARAMETERS);
        CU_ASSERT(memcmp(m->weights + m->weight_first[i * stages],
                         network_parameters(r->network[i], NULL),
                         PARAMETERS * sizeof *m->weights) == 0);
        network_free(r->network[i]);
        free(r->state[i]);
    }
    network_free(r->teacher);
    dataset_free(dataset);
    free(r);
}

static void checkpoints(void)
{
    static const struct {
        const char *keys;
        uint64_t models;
        size_t stages;
        bool own, kl;
    } cases[] = {
        {"\"period\": 1", 2, 1, false, false},
        {"\"period\": 3", 2, 1, false, false},
        {"\"period\": 2, \"data\": \"own\"", 2, 1, true, false},
        {"\"period\": 2, \"models\": 3, \"distance\": \"kl\", \"temperature\": 2", 3, 1,
         false, true},
        {"\"period\": 2, \"inner\": {\"kind\": \"pipeline\", \"stages\": [1, 2]}", 2, 2,
         false, false},
        {"\"period\": 1, \"queue_capacity\": 1, \"inner\": {\"kind\": \"pipeline\", "
         "\"stages\": 3}",
         2, 3, false, false},
        {"\"period\": 3, \"burn_in_steps\": 7, \"inner\": {\"kind\": \"pipeline\", "
         "\"stages\": 3}",
         2, 3, false, false},
    };
    const struct text_link links[] = {quick_link, tardy_link, slow_link, fast_link};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char method[512];
        snprintf(method, sizeof method,
                 "{\"kind\": \"codistillation\", \"exchange\": \"checkpoints\", \"alpha\": "
                 "0.7, %s}",
                 cases[i].keys);
        for (size_t k = 0; k < 4; k++)
            for (int overlap = 0; overlap < 2; overlap++) {
                struct simulation *s =
                    train_on(8, overlap == 1, links[k], sgd, BATCH, STEPS, method);
                check_reference(s, 0, cases[i].models, cases[i].stages, cases[i].own,
                                cases[i].kl);
                simulation_free(s);
            }
    }
}

/* Weights arrive during the forward of the step after, and stay until the next come. */
static void ages(void)
{
    struct simulation *s = train(
        quick_link, 10,
        "{\"name\": \"b\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 3}, "
        "{\"name\": \"p\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 3, \"inner\": {\"kind\": \"pipeline\", \"stages\": 3}}");
    static const double expected[] = {0, 1, 2, 0, 1, 2, 0};
    for (size_t method = 0; method < 2; method++)
        for (uint32_t model = 0; model < 2; model++) {
            double told[64];
            uint32_t processor = method == 0 ? model : 3 * model;
            CU_ASSERT_EQUAL(series(s->methods[method], "teacher age", processor, told), 7);
            CU_ASSERT(memcmp(told, expected, sizeof expected) == 0);
        }
    simulation_free(s);
}

/* A slow link makes older teachers and other numbers, the same in every run; the exchange
 * of predictions waits instead, and its numbers stay. */
static void staleness(void)
{
    static const char methods[] =
        "{\"name\": \"c\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 1}, "
        "{\"name\": \"p\", \"kind\": \"codistillation\"}";
    struct simulation *quick = train(quick_link, STEPS, methods);
    struct simulation *tardy = train(tardy_link, STEPS, methods);
    struct simulation *again = train(tardy_link, STEPS, methods);
    double x[64], y[64], z[64];
    size_t n = series(quick->methods[0], "teacher age", 0, x);
    size_t m = series(tardy->methods[0], "teacher age", 0, y);
    CU_ASSERT_EQUAL(n, STEPS - 1);
    CU_ASSERT(m > 0 && m < n);
    for (size_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(x[i], 0);
    for (size_t i = 0; i < m; i++)
        CU_ASSERT(y[i] > 0);
    CU_ASSERT_EQUAL(series(again->methods[0], "teacher age", 0, z), m);
    CU_ASSERT(memcmp(y, z, m * sizeof *y) == 0);
    CU_ASSERT(same_parts(tardy->methods[0], 0, again->methods[0], 0, 2));
    CU_ASSERT_FALSE(same_parts(tardy->methods[0], 0, quick->methods[0], 0, 2));
    CU_ASSERT(same_parts(tardy->methods[1], 0, quick->methods[1], 0, 2));
    CU_ASSERT(tardy->methods[1]->result.time_s > quick->methods[1]->result.time_s);
    simulation_free(quick);
    simulation_free(tardy);
    simulation_free(again);
}

/* Where the processor overlaps, nobody waits for a checkpoint; those that the link cannot
 * carry in time are left out. */
static void nobody_waits(void)
{
    struct simulation *s = train(
        slow_link, STEPS,
        "{\"name\": \"c\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 1}, \"backprop\"");
    const struct simulated *m = s->methods[0];
    uint64_t messages = m->edges[0].messages;
    CU_ASSERT(messages < STEPS - 1);
    for (size_t i = 0; i < m->event_count; i++)
        CU_ASSERT(m->events[i].kind != EVENT_WAIT);
    for (uint32_t p = 0; p < 2; p++)
        CU_ASSERT_EQUAL(m->processors[p].wait_s, 0);
    simulation_free(s);
}

/* Until a teacher is there, losses are those of plain training; so is the time. */
static void before_the_first(void)
{
    static const char methods[] =
        "{\"name\": \"plain\", \"kind\": \"codistillation\", \"alpha\": 0}, "
        "{\"name\": \"c\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 4}, "
        "{\"name\": \"b\", \"kind\": \"codistillation\", \"burn_in_steps\": 5}, "
        "{\"name\": \"d\", \"kind\": \"codistillation\", \"alpha_schedule\": \"delayed\", "
        "\"delay_steps\": 3}, "
        "{\"name\": \"r\", \"kind\": \"codistillation\", \"alpha_schedule\": \"ramp\", "
        "\"ramp_steps\": 6}, "
        "{\"name\": \"f\", \"kind\": \"codistillation\"}, "
        "{\"name\": \"1\", \"kind\": \"codistillation\", \"alpha_schedule\": \"ramp\", "
        "\"ramp_steps\": 1}, "
        "{\"name\": \"e\", \"kind\": \"codistillation\", \"period\": 3}";
    struct simulation *s = train(quick_link, STEPS, methods);
    struct simulated **m = s->methods;
    /* The loss of a step is told before its update. */
    CU_ASSERT_EQUAL(same_steps(m[0], m[1], 0), 5);
    CU_ASSERT_EQUAL(same_steps(m[0], m[2], 1), 6);
    CU_ASSERT_EQUAL(same_steps(m[0], m[3], 0), 4);
    CU_ASSERT_EQUAL(same_steps(m[0], m[4], 0), 1);
    CU_ASSERT_EQUAL(same_steps(m[4], m[5], 0), 1);
    CU_ASSERT(same_parts(m[5], 0, m[6], 0, 2));
    CU_ASSERT_EQUAL(same_steps(m[0], m[7], 0), 3);
    simulation_free(s);
}

static void alpha_schedules(void)
{
    struct teaching t = {.alpha = 3, .burn_in_steps = 10};
    CU_ASSERT_EQUAL(teaching_alpha(&t, 9), 0);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 10), 3);
    t.schedule = ALPHA_RAMP;
    t.schedule_steps = 4;
    CU_ASSERT_EQUAL(teaching_alpha(&t, 9), 0);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 10), 0.75);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 12), 2.25);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 13), 3);
    CU_ASSERT_EQUAL(teaching_alpha(&t, UINT64_MAX), 3);
    t.schedule = ALPHA_DELAYED;
    t.schedule_steps = 12;
    CU_ASSERT_EQUAL(teaching_alpha(&t, 11), 0);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 12), 3);
}

static uint64_t edges_of(const struct simulation *s, size_t method, enum payload payload)
{
    const struct plan *plan = s->experiment->plans[method];
    uint64_t count = 0;
    for (size_t i = 0; i < plan->edge_count; i++)
        count += plan->edges[i].payload == payload &&
                 plan->edges[i].from_processor != plan->edges[i].to_processor;
    return count;
}

/* Bytes of a run without data. */
static void check_bytes(uint64_t models, const char *topology, uint64_t pairs)
{
    const uint64_t steps = 11, period = 3, burn_in = 4, word = 2;
    char methods[2048];
    snprintf(methods, sizeof methods,
             "{\"name\": \"p\", \"kind\": \"codistillation\", \"models\": %d, %s}, "
             "{\"name\": \"b\", \"kind\": \"codistillation\", \"models\": %d, %s, "
             "\"burn_in_steps\": %d}, "
             "{\"name\": \"c\", \"kind\": \"codistillation\", \"models\": %d, %s, "
             "\"exchange\": \"checkpoints\", \"period\": %d}, "
             "{\"name\": \"cp\", \"kind\": \"codistillation\", \"models\": %d, %s, "
             "\"exchange\": \"checkpoints\", \"period\": %d, \"inner\": {\"kind\": "
             "\"pipeline\", \"stages\": 2}}, "
             "{\"name\": \"pi\", \"kind\": \"pipeline\", \"stages\": 2}, "
             "{\"name\": \"pe\", \"kind\": \"codistillation\", \"models\": %d, %s, "
             "\"period\": %d}",
             (int)models, topology, (int)models, topology, (int)burn_in, (int)models,
             topology, (int)period, (int)models, topology, (int)period, (int)models,
             topology, (int)period);
    struct simulation *s =
        simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %d, "
                 "\"batch\": %d, "
                 "\"micro_batch\": 3, \"precision\": \"fp16\", \"methods\": [%s]}",
                 model_text, roofline_machine(2 * models, "full", true, 1 << 24, fast_link),
                 (int)steps, BATCH, methods);
    const uint64_t logits = BATCH * CLASSES * word;
    const uint64_t checkpoints_sent = (steps - 1) / period;
    CU_ASSERT_EQUAL(edges_of(s, 0, PAYLOAD_PREDICTIONS), pairs);
    CU_ASSERT_EQUAL(s->methods[0]->bytes, pairs * logits * steps);
    CU_ASSERT_EQUAL(s->methods[1]->bytes, pairs * logits * (steps - burn_in));
    CU_ASSERT_EQUAL(s->methods[5]->bytes, pairs * logits * (steps / period));
    CU_ASSERT_EQUAL(edges_of(s, 2, PAYLOAD_PARAMETERS), pairs);
    CU_ASSERT_EQUAL(s->methods[2]->bytes, pairs * PARAMETERS * word * checkpoints_sent);
    /* A teacher's activations cross the pipeline's cut from the first checkpoint on. */
    uint64_t crossing = s->methods[4]->bytes / (2 * steps);
    CU_ASSERT_EQUAL(s->methods[3]->bytes, models * s->methods[4]->bytes +
                                              pairs * PARAMETERS * word * checkpoints_sent +
                                              pairs * crossing * (steps - period));
    simulation_free(s);
}

static void bytes(void)
{
    for (uint64_t n = 2; n <= 5; n++) {
        check_bytes(n, "\"topology\": \"all\"", n * (n - 1));
        check_bytes(n, "\"topology\": \"ring\"", n);
    }
    check_bytes(6, "\"topology\": \"hierarchical\", \"group\": 3", 6 * (2 + 1));
    check_bytes(6, "\"topology\": \"hierarchical\", \"group\": 2", 6 * (1 + 2));
    check_bytes(4, "\"topology\": \"hierarchical\", \"group\": 4", 4 * 3);
    check_bytes(4, "\"topology\": \"hierarchical\", \"group\": 1", 4 * 3);
}

static void hierarchy(void)
{
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 1, \"batch\": "
        "6, "
        "\"methods\": [{\"kind\": \"codistillation\", \"models\": 6, \"topology\": "
        "\"hierarchical\", \"group\": 3}]}",
        model_text, roofline_machine(6, "full", true, 1 << 24, fast_link));
    const struct plan *plan = s->experiment->plans[0];
    for (size_t i = 0; i < plan->edge_count; i++) {
        uint32_t from = plan->edges[i].from_processor, to = plan->edges[i].to_processor;
        CU_ASSERT(from != to && (from / 3 == to / 3 || from % 3 == to % 3));
    }
    simulation_free(s);
}

/* Teachers' weights, queues and transient values; everything is freed in the end. */
static void memory(void)
{
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 9, \"batch\": "
        "6, "
        "\"methods\": [\"backprop\", "
        "{\"name\": \"c2\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 2}, "
        "{\"name\": \"c4\", \"kind\": \"codistillation\", \"models\": 4, \"exchange\": "
        "\"checkpoints\", \"period\": 2}, "
        "{\"name\": \"r4\", \"kind\": \"codistillation\", \"models\": 4, \"exchange\": "
        "\"checkpoints\", \"period\": 2, \"topology\": \"ring\"}]}",
        model_text, roofline_machine(4, "full", true, 1 << 24, quick_link));
    const uint64_t teachers[] = {0, 1, 3, 1}, processors[] = {1, 2, 4, 4};
    const uint64_t *plain = s->methods[0]->processors[0].category_peak_bytes;
    for (size_t i = 1; i < 4; i++)
        for (uint64_t p = 0; p < processors[i]; p++) {
            const struct trace_processor_total *t = &s->methods[i]->processors[p];
            const uint64_t *peak = t->category_peak_bytes;
            CU_ASSERT_EQUAL(plain[MEMORY_WEIGHTS], 4 * PARAMETERS);
            CU_ASSERT_EQUAL(peak[MEMORY_WEIGHTS], (1 + teachers[i]) * 4 * PARAMETERS);
            CU_ASSERT_EQUAL(peak[MEMORY_GRADIENTS], plain[MEMORY_GRADIENTS]);
            CU_ASSERT_EQUAL(peak[MEMORY_OPTIMIZER], plain[MEMORY_OPTIMIZER]);
            CU_ASSERT_EQUAL(peak[MEMORY_WORKSPACE], plain[MEMORY_WORKSPACE]);
            /* The own weights on their way out and the others' on their way in. */
            CU_ASSERT(peak[MEMORY_QUEUE] >= 4 * PARAMETERS);
            CU_ASSERT_EQUAL(t->final_bytes, 0);
        }
    simulation_free(s);
}

/* Once it is there, a teacher costs a forward a micro-batch. */
static void costs(void)
{
    const double f = 1.5, b = 2.75;
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 10, \"batch\": "
        "6, "
        "\"micro_batch\": 2, \"methods\": ["
        "{\"name\": \"p\", \"kind\": \"codistillation\"}, "
        "{\"name\": \"c\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 4}, "
        "{\"name\": \"c3\", \"kind\": \"codistillation\", \"models\": 3, \"exchange\": "
        "\"checkpoints\", \"period\": 4, \"burn_in_steps\": 7}]}",
        even_model(5, 3),
        table_machine(3, "full", true, f, b, (struct text_link){1e6, 1e-4}));
    const double plain = 10 * 3 * 3 * (f + b);
    CHECK_CLOSE(s->methods[0]->result.time_s, plain, 1e-4);
    CHECK_CLOSE(s->methods[1]->result.time_s, plain + 6 * 3 * 3 * f, 1e-4);
    CHECK_CLOSE(s->methods[2]->result.time_s, plain + 2 * 3 * 3 * 3 * f, 1e-4);
    simulation_free(s);
}

/* Inside, anything goes. */
static void inner_methods(void)
{
    static const char *const inner[] = {
        "\"backprop\"",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"gpipe\"}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"gpipe\", \"recompute\": "
        "\"stage\"}",
        "{\"kind\": \"pipeline\", \"stages\": 3, \"queue_capacity\": 1}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"grouped\"}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"zero_bubble\"}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"pipedream\"}",
        "{\"kind\": \"local\", \"stages\": 3}",
        "{\"kind\": \"local\", \"stages\": 2, \"granularity\": \"layerwise\"}",
        "{\"kind\": \"local\", \"stages\": 3, \"granularity\": \"overlapping\"}",
        "{\"kind\": \"local\", \"stages\": 2, \"granularity\": \"last\"}",
        "{\"kind\": \"local\", \"stages\": 2, \"update_every\": 1}",
        "{\"kind\": \"data_parallel\", \"replicas\": 3}",
        "{\"kind\": \"data_parallel\", \"replicas\": 3, \"inner\": {\"kind\": "
        "\"pipeline\", "
        "\"stages\": 2}}",
    };
    static const char *const exchanges[] = {"\"predictions\"",
                                            "\"checkpoints\", \"period\": 2",
                                            "\"checkpoints\", \"period\": 2, \"alpha\": 0"};
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        char methods[2048] = "";
        for (size_t k = 0; k < 3; k++)
            snprintf(
                methods + strlen(methods), sizeof methods - strlen(methods),
                "%s{\"name\": \"%zu\", \"kind\": \"codistillation\", \"exchange\": %s, "
                "\"inner\": %s}",
                k > 0 ? ", " : "", k, exchanges[k], inner[i]);
        struct simulation *s = train_on(12, i % 2 == 0, quick_link, sgd, 2, STEPS, methods);
        struct simulation *free_run = simulate(
            "{\"model\": %s, \"platform\": %s, \"optimizer\": %s, \"numerics\": false, "
            "\"batch\": %d, \"micro_batch\": 2, \"steps\": %d, \"methods\": [%s]}",
            model_text, roofline_machine(12, "full", i % 2 == 0, 1 << 24, quick_link), sgd,
            BATCH, STEPS, methods);
        double loss[64];
        for (size_t k = 0; k < 3; k++) {
            const struct simulated *m = s->methods[k];
            uint32_t last = s->experiment->plans[k]
                                ->parts[s->experiment->plans[k]->copies[0].end_part - 1]
                                .processor;
            size_t count = series(m, "loss", last, loss);
            CU_ASSERT_EQUAL(count, STEPS);
            CU_ASSERT(count > 0 && isfinite(loss[count - 1]));
            for (uint32_t p = 0; p < m->processor_count; p++) {
                CU_ASSERT_EQUAL(m->processors[p].final_bytes, 0);
                CU_ASSERT_EQUAL(m->processors[p].peak_bytes,
                                free_run->methods[k]->processors[p].peak_bytes);
            }
            CHECK_CLOSE(m->result.time_s, free_run->methods[k]->result.time_s, 1e-12);
            CU_ASSERT_EQUAL(m->bytes, free_run->methods[k]->bytes);
        }
        size_t parts = s->experiment->plans[1]->copies[0].end_part;
        CU_ASSERT_FALSE(same_parts(s->methods[1], 0, s->methods[2], 0, parts));
        simulation_free(s);
        simulation_free(free_run);
    }
}

/* The pipeline's teachers compute what one processor's do. */
static void pipelined_teachers(void)
{
    struct simulation *s = train_on(
        8, true, quick_link, sgd, 2, STEPS,
        "{\"name\": \"b\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 4}, "
        "{\"name\": \"g\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 4, \"inner\": {\"kind\": \"pipeline\", \"stages\": 3, \"schedule\": "
        "\"gpipe\"}}, "
        "{\"name\": \"f\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 4, \"inner\": {\"kind\": \"pipeline\", \"stages\": 2}}");
    size_t count = s->methods[0]->weight_first[2];
    CU_ASSERT_EQUAL(count, 2 * PARAMETERS);
    for (size_t i = 1; i < 3; i++) {
        CU_ASSERT_EQUAL(s->methods[i]->weight_first[i == 1 ? 6 : 4], count);
        CU_ASSERT(memcmp(s->methods[0]->weights, s->methods[i]->weights,
                         count * sizeof *s->methods[0]->weights) == 0);
    }
    simulation_free(s);
}

/* One model's processor fails: the other goes on with the last weights that came, and no
 * number or time of it depends on the failure but through them. */
static void failure(void)
{
    char machine[4096];
    static const char methods[] =
        "{\"name\": \"c\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 2, \"inner\": {\"kind\": \"pipeline\", \"stages\": 2}}";
    const char *sound = roofline_machine(4, "full", true, 1 << 24, quick_link);
    snprintf(
        machine, sizeof machine,
        "%.*s, \"trouble\": {\"failures\": [{\"processor\": \"p3\", \"at_s\": 0.0011}]}}",
        (int)strlen(sound) - 1, sound);
    struct simulation *s = simulate(
        "{\"model\": %s, \"data\": %s, \"platform\": %s, \"batch\": %d, \"steps\": %d, "
        "\"methods\": [%s]}",
        model_text, data_text, machine, BATCH, STEPS, methods);
    double ages[64], losses[64];
    const struct simulated *m = s->methods[0];
    size_t count = series(m, "teacher age", 0, ages);
    CU_ASSERT_FATAL(count > 4);
    CU_ASSERT_EQUAL(series(m, "loss", 1, losses), STEPS);
    CU_ASSERT(series(m, "loss", 3, losses) < STEPS);
    for (size_t i = count - 3; i < count; i++)
        CU_ASSERT_EQUAL(ages[i], ages[i - 1] + 1);
    CU_ASSERT(ages[count - 1] >= 4);
    simulation_free(s);
}

/* A method's own weight decay schedule takes the place of the experiment's. */
static void weight_decay(void)
{
    static const char scheduled[] =
        "{\"learning_rate\": 0.05, \"momentum\": 0.9, \"weight_decay\": 0.001, "
        "\"weight_decay_schedule\": [[3, 0.5], [6, 0]]}";
    static const char methods[] =
        "\"backprop\", "
        "{\"name\": \"s\", \"kind\": \"codistillation\", \"models\": 1, "
        "\"weight_decay_schedule\": [[3, 0.5], [6, 0]]}, "
        "{\"name\": \"l\", \"kind\": \"codistillation\", \"models\": 1, "
        "\"weight_decay_schedule\": [[3, 0.5], [6, 0]], \"inner\": {\"kind\": \"local\", "
        "\"stages\": 1, \"update_every\": 1}}";
    struct simulation *a = train(quick_link, 8, methods);
    struct simulation *b =
        train_on(8, true, quick_link, scheduled, BATCH, 8, "\"backprop\"");
    CU_ASSERT_FALSE(same_parts(a->methods[0], 0, a->methods[1], 0, 1));
    CU_ASSERT(same_parts(a->methods[1], 0, b->methods[0], 0, 1));
    CU_ASSERT(same_parts(a->methods[2], 0, b->methods[0], 0, 1));
    CU_ASSERT_EQUAL(same_steps(a->methods[0], a->methods[1], 0), 4);
    simulation_free(a);
    simulation_free(b);
}

static void refusals(void)
{
    static const struct {
        const char *method, *part;
    } cases[] = {
        {"\"exchange\": \"weights\"", "checkpoints"},
        {"\"exchange\": \"checkpoints\"", "period"},
        {"\"period\": 0", "period"},
        {"\"exchange\": \"checkpoints\", \"period\": 0", "period"},
        {"\"data\": \"own\"", "coordinated sampling"},
        {"\"topology\": \"hierarchical\"", "group"},
        {"\"topology\": \"hierarchical\", \"models\": 4, \"group\": 3", "groups of 3"},
        {"\"group\": 2", "no effect"},
        {"\"temperature\": 2", "no effect"},
        {"\"distance\": \"kl\", \"temperature\": 0", "temperature"},
        {"\"ramp_steps\": 2", "no effect"},
        {"\"delay_steps\": 2", "no effect"},
        {"\"alpha_schedule\": \"ramp\"", "ramp_steps"},
        {"\"alpha_schedule\": \"delayed\", \"delay_steps\": 0", "delay_steps"},
        {"\"alpha\": -1", "alpha"},
        {"\"weight_decay_schedule\": []", "1 to 8"},
        {"\"weight_decay_schedule\": [[5, 0.1], [5, 0.2]]", "weight_decay_schedule[1]"},
        {"\"weight_decay_schedule\": [[5]]", "pair"},
        {"\"weight_decay_schedule\": [[5, 2]]", "weight_decay_schedule[0][1]"},
        {"\"models\": 0", "models"},
        {"\"models\": 5", "processors"},
        {"\"inner\": \"codistillation\"", "cannot be inside"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096];
        struct error error;
        snprintf(
            text, sizeof text,
            "{\"model\": %s, \"platform\": \"ipu-m2000\", \"numerics\": false, \"batch\": "
            "8, \"micro_batch\": 2, \"methods\": [{\"kind\": \"codistillation\", %s}]}",
            model_text, cases[i].method);
        struct experiment *e = read_experiment(text, &error);
        CU_ASSERT_PTR_NULL(e);
        if (e != NULL || strstr(error.message, cases[i].part) == NULL)
            printf("\n  %s: %s\n", cases[i].method, error.message);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, cases[i].part));
        experiment_free(e);
    }
}

static const struct check checks[] = {
    {"without influence it is plain training", no_influence},
    {"checkpoints against a reference", checkpoints},
    {"ages of teachers", ages},
    {"slow links make old teachers", staleness},
    {"nobody waits for a checkpoint", nobody_waits},
    {"before the first teacher", before_the_first},
    {"schedules of alpha", alpha_schedules},
    {"bytes", bytes},
    {"hierarchy", hierarchy},
    {"memory", memory},
    {"costs", costs},
    {"inner methods", inner_methods},
    {"pipelined teachers", pipelined_teachers},
    {"a model that fails", failure},
    {"weight decay", weight_decay},
    {"refusals", refusals},
};
CHECK_MAIN("codistillation", checks)
