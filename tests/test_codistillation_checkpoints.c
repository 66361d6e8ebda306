/* Codistillation by checkpoints: who learns from which weights, against a reference. */
#include "engine/loss.h"
#include "tests/codistillation_run.h"

/* A reference without plans, processors and messages: who taught whom with which weights
 * is taken from the run; the arithmetic is not. */
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

static const struct check checks[] = {
    {"checkpoints against a reference", checkpoints},
    {"ages of teachers", ages},
    {"slow links make old teachers", staleness},
    {"nobody waits for a checkpoint", nobody_waits},
    {"before the first teacher", before_the_first},
    {"pipelined teachers", pipelined_teachers},
};

CHECK_MAIN("codistillation by checkpoints", checks)
