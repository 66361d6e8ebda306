/* Data parallelism: whatever the exchange, replicas learn what one processor learns and
 * stay equal to the bit. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

enum { STEPS = 4, MAX_COPIES = 8, MAX_WEIGHTS = 2048 };

static const struct text_link plain_link = {1e9, 1e-6};

/* ---- training, and the weights afterwards ---- */

struct learned {
    bool done;
    struct error error;
    double time_s, loss[STEPS]; /* mean over the copies that told it */
    double test_loss;           /* sum of all that were told */
    size_t copies, weights;
    float weight[MAX_COPIES][MAX_WEIGHTS];
};

struct learned_sink {
    struct event_sink sink;
    struct learned *learned;
};

static bool note_metric(struct event_sink *sink, const struct event *event,
                        struct error *error)
{
    struct learned *l = ((struct learned_sink *)sink)->learned;
    (void)error;
    if (event->kind != EVENT_METRIC || event->step >= STEPS)
        return true;
    if (strcmp(event->name, "loss") == 0)
        l->loss[event->step] += event->value;
    if (strcmp(event->name, "test loss") == 0)
        l->test_loss += event->value;
    return true;
}

static bool note_end(struct event_sink *sink, double total_s, struct error *error)
{
    (void)sink;
    (void)total_s;
    (void)error;
    return true;
}

static void note_weights(struct learned *l, const struct plan *plan,
                         struct trainer *trainer)
{
    l->copies = plan->copy_count < MAX_COPIES ? plan->copy_count : MAX_COPIES;
    for (size_t c = 0; c < l->copies; c++) {
        l->weights = 0;
        for (uint32_t p = plan->copies[c].first_part; p < plan->copies[c].end_part; p++) {
            size_t count;
            const scalar *weights = network_parameters(trainer_network(trainer, p), &count);
            for (size_t i = 0; i < count && l->weights < MAX_WEIGHTS; i++)
                l->weight[c][l->weights++] = (float)weights[i];
        }
    }
}

static void learn_in_child(const struct experiment *e, const struct plan *plan,
                           const struct dataset *dataset, struct learned *l)
{
    const struct trainer_options options = {.plan = plan,
                                            .model = e->model,
                                            .dataset = dataset,
                                            .steps = e->steps,
                                            .seed = e->seed};
    openblas_set_num_threads(1);
    struct trace_header *header = header_create(plan, e->platform, 0, &l->error);
    struct trainer *trainer = trainer_create(&options, &l->error);
    struct learned_sink sink = {{.event = note_metric, .finish = note_end}, l};
    struct event_sink *sinks[] = {&sink.sink};
    const struct execution execution = {.plan = plan,
                                        .platform = e->platform,
                                        .steps = e->steps,
                                        .evaluate_every = 1,
                                        .trainer = trainer,
                                        .sinks = sinks,
                                        .sink_count = 1,
                                        .header = header};
    struct execution_result result;
    if (header == NULL || trainer == NULL || !execute(&execution, &result, &l->error))
        return;
    l->time_s = result.time_s;
    note_weights(l, plan, trainer);
    for (size_t i = 0; i < STEPS; i++)
        l->loss[i] /= (double)plan->copy_count;
    l->done = true;
}

static struct learned *learn(const struct experiment *e, size_t method,
                             const struct dataset *dataset)
{
    struct learned *l =
        mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(l != MAP_FAILED);
    fflush(NULL);
    pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        learn_in_child(e, e->plans[method], dataset, l);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0 || !l->done)
        printf("\n  %s: wait status %d: %s\n", e->plans[method]->name, status,
               l->error.message);
    CU_ASSERT_FATAL(status == 0 && l->done);
    return l;
}

/* Five linear layers of unequal sizes and one without parameters here and there. */
static const char model[] =
    "{\"input\": [10], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"linear\", \"out\": 17}, {\"kind\": "
    "\"relu\"}]},"
    "{\"name\": \"b\", \"layers\": [{\"kind\": \"linear\", \"out\": 12}, {\"kind\": "
    "\"gelu\"}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"layer_norm\"}, {\"kind\": \"linear\", "
    "\"out\": "
    "13}, {\"kind\": \"relu\"}]},"
    "{\"name\": \"d\", \"layers\": [{\"kind\": \"linear\", \"out\": 5}]}]}";
static const char tied_model[] =
    "{\"input\": [10], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"linear\", \"out\": 10}, {\"kind\": "
    "\"gelu\"}]},"
    "{\"name\": \"b\", \"layers\": [{\"kind\": \"linear\", \"out\": 10}, {\"kind\": "
    "\"relu\"}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"linear\", \"out\": 10, \"tied_to\": "
    "\"a.linear\"}, {\"kind\": \"linear\", \"out\": 5}]}]}";
static const char data[] =
    "{\"kind\": \"synthetic\", \"features\": 10, \"classes\": 5, "
    "\"separation\": 2, \"train_samples\": 400, \"test_samples\": 50}";
static const char sgd[] = "{\"kind\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9}";
static const char adam[] = "{\"kind\": \"adam\", \"learning_rate\": 0.001}";

__attribute__((format(printf, 1, 2))) static struct experiment *
experiment_of(const char *format, ...)
{
    char text[16384];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    struct error error;
    struct experiment *e = read_experiment(text, &error);
    if (e == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    return e;
}

struct run {
    const char *optimizer;
    uint64_t batch, micro_batch;
    size_t processors;
    bool overlap;
    struct text_link link;
    const char *precision;
};

/* Method 0 is the reference. */
static struct experiment *trained_methods(const struct run *r, const char *methods)
{
    return experiment_of(
        "{\"model\": %s, \"data\": %s, \"platform\": %s, \"optimizer\": %s, "
        "\"precision\": \"%s\", \"batch\": %d, \"micro_batch\": %d, \"steps\": %d, "
        "\"seed\": 3, "
        "\"methods\": [%s]}",
        model, data, roofline_machine(r->processors, "full", r->overlap, 1 << 24, r->link),
        r->optimizer, r->precision != NULL ? r->precision : "fp32", (int)r->batch,
        (int)r->micro_batch, STEPS, methods);
}

static void check_equal_replicas(const struct learned *l)
{
    for (size_t c = 1; c < l->copies; c++)
        CU_ASSERT(memcmp(l->weight[0], l->weight[c], l->weights * sizeof(float)) == 0);
}

static void check_learned(const struct learned *a, const struct learned *b)
{
    double largest = 0;
    CU_ASSERT_FATAL(a->weights == b->weights && a->weights > 0);
    for (size_t i = 0; i < a->weights; i++)
        largest = fmax(largest, fabs((double)a->weight[0][i] - (double)b->weight[0][i]));
    CU_ASSERT(largest <= 1e-5);
    for (size_t i = 0; i < STEPS; i++)
        CHECK_CLOSE(a->loss[i], b->loss[i], 1e-5);
    CHECK_CLOSE(a->test_loss, b->test_loss, 1e-5);
    CU_ASSERT(a->test_loss > 0);
    CU_ASSERT(a->loss[STEPS - 1] != a->loss[0]);
}

/* Everything against method 0; all replicas alike to the bit. */
static void check_methods(const struct run *r, const char *methods)
{
    struct error error;
    struct experiment *e = trained_methods(r, methods);
    struct dataset *dataset = experiment_open_data(e, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dataset);
    struct learned *reference = learn(e, 0, dataset);
    for (size_t i = 1; i < e->method_count; i++) {
        struct learned *l = learn(e, i, dataset);
        check_learned(reference, l);
        check_equal_replicas(l);
        munmap(l, sizeof *l);
    }
    munmap(reference, sizeof *reference);
    dataset_free(dataset);
    experiment_free(e);
}

static const char *const exchanges[] = {
    "\"all_reduce\": \"ring\"",
    "\"all_reduce\": \"tree\"",
    "\"all_reduce\": \"recursive_doubling\"",
    "\"all_reduce\": \"halving_doubling\"",
    "\"all_reduce\": \"halving_doubling_folded\"",
    "\"all_reduce\": \"hierarchical\"",
    "\"all_reduce\": \"multi_ring\"",
    "\"buckets\": 3",
    "\"buckets\": 100, \"all_reduce\": \"halving_doubling\"",
    "\"shard\": \"optimizer\"",
    "\"shard\": \"optimizer\", \"buckets\": 2",
    "\"shard\": \"gradients\", \"all_reduce\": \"halving_doubling\"",
    "\"shard\": \"gradients\", \"buckets\": 3",
};
enum { EXCHANGES = sizeof exchanges / sizeof exchanges[0] };

static void all_exchanges(char *methods, size_t bytes, int replicas, const char *inner)
{
    size_t used = (size_t)snprintf(methods, bytes, "%s", inner);
    for (size_t i = 0; i < EXCHANGES; i++)
        used += (size_t)snprintf(methods + used, bytes - used,
                                 ", {\"name\": \"m%zu\", \"kind\": \"data_parallel\", "
                                 "\"replicas\": %d, %s, \"inner\": %s}",
                                 i, replicas, exchanges[i], inner);
}

static void replicas_of_backprop(void)
{
    for (int n = 1; n <= 8; n++) {
        char methods[8192];
        const struct run r = {.optimizer = n % 2 == 0 ? sgd : adam,
                              .batch = (uint64_t)n * 6,
                              .micro_batch = 3,
                              .processors = 8,
                              .overlap = n % 3 != 0,
                              .link = plain_link};
        all_exchanges(methods, sizeof methods, n, "{\"kind\": \"backprop\"}");
        check_methods(&r, methods);
    }
}

static void replicas_of_pipelines(void)
{
    static const char *const pipelines[] = {
        "{\"kind\": \"pipeline\", \"stages\": 2}",
        "{\"kind\": \"pipeline\", \"stages\": 3, \"schedule\": \"gpipe\", \"recompute\": "
        "\"stage\"}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"recompute\": \"blocks\"}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"interleaved\"}",
        "{\"kind\": \"pipeline\", \"stages\": 3, \"schedule\": \"zero_bubble\"}",
        "{\"kind\": \"pipeline\", \"stages\": 3, \"schedule\": \"grouped\"}",
    };
    enum { PIPELINES = sizeof pipelines / sizeof pipelines[0] };
    for (size_t i = 0; i < 2 * PIPELINES; i++) {
        int n = i % 2 == 0 ? 2 : 3;
        char methods[8192];
        const struct run r = {.optimizer = sgd,
                              .batch = (uint64_t)n * 8,
                              .micro_batch = 2,
                              .processors = 9,
                              .overlap = i < PIPELINES,
                              .link = plain_link};
        all_exchanges(methods, sizeof methods, n, pipelines[i % PIPELINES]);
        check_methods(&r, methods);
    }
}

/* Without a flush, which weights a micro-batch meets depends on how many a replica has: the
 * reference is another way of exchange. */
static void replicas_of_pipedream(void)
{
    for (int n = 2; n <= 3; n++) {
        char methods[8192];
        size_t used = 0;
        const struct run r = {.optimizer = sgd,
                              .batch = (uint64_t)n * 6,
                              .micro_batch = 2,
                              .processors = 9,
                              .overlap = n == 2,
                              .link = plain_link};
        for (size_t i = 0; i < EXCHANGES; i++)
            used += (size_t)snprintf(
                methods + used, sizeof methods - used,
                "%s{\"name\": \"m%zu\", \"kind\": \"data_parallel\", \"replicas\": %d, %s, "
                "\"inner\": {\"kind\": \"pipeline\", \"stages\": 3, \"schedule\": "
                "\"pipedream\"}}",
                i > 0 ? ", " : "", i, n, exchanges[i]);
        check_methods(&r, methods);
    }
}

/* The first and the last stage share weights: their gradients are summed over the stages
 * of a replica and over the replicas. */
static void tied_stages(void)
{
    for (int n = 2; n <= 3; n++)
        for (int overlap = 0; overlap < 2; overlap++) {
            char methods[8192];
            size_t used = 0;
            struct error error;
            used += (size_t)snprintf(methods, sizeof methods,
                                     "{\"kind\": \"pipeline\", \"stages\": 3}");
            for (size_t i = 0; i < EXCHANGES; i++)
                if (strstr(exchanges[i], "shard") == NULL)
                    used += (size_t)snprintf(
                        methods + used, sizeof methods - used,
                        ", {\"name\": \"m%zu\", \"kind\": \"data_parallel\", \"replicas\": "
                        "%d, %s, \"inner\": {\"kind\": \"pipeline\", \"stages\": 3}}",
                        i, n, exchanges[i]);
            struct experiment *e = experiment_of(
                "{\"model\": %s, \"data\": %s, \"platform\": %s, \"optimizer\": %s, "
                "\"batch\": %d, \"micro_batch\": 2, \"steps\": %d, \"methods\": [%s]}",
                tied_model, data,
                roofline_machine(9, "full", overlap == 1, 1 << 24, plain_link), sgd, 4 * n,
                STEPS, methods);
            struct dataset *dataset = experiment_open_data(e, &error);
            struct learned *reference = learn(e, 0, dataset);
            for (size_t i = 1; i < e->method_count; i++) {
                struct learned *l = learn(e, i, dataset);
                check_learned(reference, l);
                check_equal_replicas(l);
                /* both copies of the tied weights, which are the first of their stages */
                CU_ASSERT(memcmp(l->weight[0], l->weight[0] + 220, 110 * sizeof(float)) ==
                          0);
                munmap(l, sizeof *l);
            }
            munmap(reference, sizeof *reference);
            dataset_free(dataset);
            experiment_free(e);
        }
}

static void replicas_of_local(void)
{
    for (int i = 0; i < 4; i++) {
        int n = i % 2 == 0 ? 2 : 3;
        char methods[8192];
        const struct run r = {.optimizer = sgd,
                              .batch = (uint64_t)n * 6,
                              .micro_batch = 3,
                              .processors = 9,
                              .overlap = i < 2,
                              .link = plain_link};
        all_exchanges(methods, sizeof methods, n, "{\"kind\": \"local\", \"stages\": 3}");
        check_methods(&r, methods);
    }
}

/* Inside codistillation: two models, each of two replicas. */
static void replicas_of_codistilled_models(void)
{
    char methods[8192];
    size_t used = 0;
    struct error error;
    const struct run r = {.optimizer = sgd,
                          .batch = 12,
                          .micro_batch = 3,
                          .processors = 8,
                          .overlap = true,
                          .link = plain_link};
    for (size_t i = 0; i < EXCHANGES; i++)
        used += (size_t)snprintf(methods + used, sizeof methods - used,
                                 "%s{\"name\": \"m%zu\", \"kind\": \"codistillation\", "
                                 "\"models\": 2, \"inner\": {\"kind\": \"data_parallel\", "
                                 "\"replicas\": 2, %s, \"inner\": {\"kind\": \"pipeline\", "
                                 "\"stages\": 2}}}",
                                 i > 0 ? ", " : "", i, exchanges[i]);
    struct experiment *e = trained_methods(&r, methods);
    struct dataset *dataset = experiment_open_data(e, &error);
    struct learned *reference = learn(e, 0, dataset);
    for (size_t i = 0; i < e->method_count; i++) {
        struct learned *l = learn(e, i, dataset);
        size_t bytes = l->weights * sizeof(float);
        CU_ASSERT_FATAL(l->copies == 4);
        CU_ASSERT(memcmp(l->weight[0], l->weight[1], bytes) == 0);
        CU_ASSERT(memcmp(l->weight[2], l->weight[3], bytes) == 0);
        CU_ASSERT(memcmp(l->weight[0], l->weight[2], bytes) != 0);
        check_learned(reference, l);
        munmap(l, sizeof *l);
    }
    munmap(reference, sizeof *reference);
    dataset_free(dataset);
    experiment_free(e);
}

/* Formats of fewer bits are rounded on the way: replicas still agree. */
static void low_precision(void)
{
    static const char *const formats[] = {"fp16", "bf16"};
    for (size_t f = 0; f < 2; f++)
        for (int n = 2; n <= 5; n++) {
            char methods[8192];
            struct error error;
            const struct run r = {.optimizer = sgd,
                                  .batch = (uint64_t)n * 6,
                                  .micro_batch = 3,
                                  .processors = 5,
                                  .overlap = true,
                                  .link = plain_link,
                                  .precision = formats[f]};
            all_exchanges(methods, sizeof methods, n, "{\"kind\": \"backprop\"}");
            struct experiment *e = trained_methods(&r, methods);
            struct dataset *dataset = experiment_open_data(e, &error);
            for (size_t i = 1; i < e->method_count; i++) {
                struct learned *l = learn(e, i, dataset);
                check_equal_replicas(l);
                munmap(l, sizeof *l);
            }
            dataset_free(dataset);
            experiment_free(e);
        }
}

/* ---- local SGD ---- */

/* With one step between averages and no momentum, averaging weights is averaging
 * gradients. */
static void average_every_step(void)
{
    for (int n = 2; n <= 7; n++) {
        char methods[1024];
        const struct run r = {.optimizer = "{\"kind\": \"sgd\", \"learning_rate\": 0.05, "
                                           "\"momentum\": 0}",
                              .batch = (uint64_t)n * 6,
                              .micro_batch = 3,
                              .processors = 7,
                              .overlap = n % 2 == 0,
                              .link = plain_link};
        snprintf(
            methods, sizeof methods,
            "\"backprop\", {\"name\": \"a\", \"kind\": \"data_parallel\", \"replicas\": "
            "%d, "
            "\"average_every\": 1}, {\"name\": \"h\", \"kind\": \"data_parallel\", "
            "\"replicas\": %d, \"average_every\": 1, \"all_reduce\": \"hierarchical\"}",
            n, n);
        check_methods(&r, methods);
    }
}

static void average_every_few_steps(void)
{
    struct error error;
    const struct run r = {.optimizer = sgd,
                          .batch = 18,
                          .micro_batch = 3,
                          .processors = 3,
                          .link = plain_link};
    struct experiment *e = trained_methods(
        &r, "{\"name\": \"two\", \"kind\": \"data_parallel\", \"replicas\": 3, "
            "\"average_every\": 2}, {\"name\": \"three\", \"kind\": \"data_parallel\", "
            "\"replicas\": 3, \"average_every\": 3}");
    struct dataset *dataset = experiment_open_data(e, &error);
    struct learned *two = learn(e, 0, dataset), *three = learn(e, 1, dataset);
    check_equal_replicas(two); /* step 4 is the last, and one of averages */
    bool apart = false;
    for (size_t c = 1; c < three->copies; c++)
        apart = apart || memcmp(three->weight[0], three->weight[c],
                                three->weights * sizeof(float)) != 0;
    CU_ASSERT(apart); /* step 4 comes after the average of step 3 */
    CU_ASSERT(two->loss[STEPS - 1] < two->loss[0]);
    munmap(two, sizeof *two);
    munmap(three, sizeof *three);
    dataset_free(dataset);
    experiment_free(e);
    struct simulation *s = simulate(
        "{\"model\": %s, \"numerics\": false, \"platform\": %s, \"batch\": 12, "
        "\"steps\": 10, \"micro_batch\": 3, \"methods\": [{\"name\": \"a\", \"kind\": "
        "\"data_parallel\", \"replicas\": 4, \"average_every\": 4}, "
        "{\"name\": \"b\", \"kind\": \"data_parallel\", \"replicas\": 4}]}",
        model, roofline_machine(4, "full", false, 1 << 24, plain_link));
    /* Two averages in ten steps. */
    CU_ASSERT(10 * s->methods[0]->bytes == 2 * s->methods[1]->bytes);
    simulation_free(s);
}

static const struct check checks[] = {
    {"replicas of backprop learn what one processor learns", replicas_of_backprop},
    {"replicas of pipelines likewise", replicas_of_pipelines},
    {"replicas of pipelines without a flush", replicas_of_pipedream},
    {"replicas of stages that share weights", tied_stages},
    {"replicas of local chunks likewise", replicas_of_local},
    {"replicas of codistilled models", replicas_of_codistilled_models},
    {"replicas stay equal in formats of fewer bits", low_precision},
    {"weights averaged every step", average_every_step},
    {"weights averaged every few steps", average_every_few_steps},
};

CHECK_MAIN("data parallelism", checks)
