/* The product of all methods over at most eight processors: codistilled models x replicas x
 * tensor ranks x (backprop | pipeline | local), with every schedule, granularity, kind of
 * recomputation, sharing of state and algorithm. Whatever is synchronous learns what one
 * processor learns. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

enum { STEPS = 3, PROCESSORS = 8, MAX_METHODS = 4096, TEXT_BYTES = 640, AT_ONCE = 15 };

/* Sanitizers make a child slow; the plain build goes through all. */
#ifdef __SANITIZE_ADDRESS__
enum { THINNED = 9 };
#else
enum { THINNED = 1 };
#endif

/* What trains one copy, and what it must learn the same as. */
struct inner {
    const char *name;
    unsigned processors;
    const char *text;
    const char *reference; /* NULL: backprop */
    bool cut;              /* stages: where they share weights, state cannot be sharded */
    bool transformer;      /* only for a model of eight blocks, split or not */
    bool alone;            /* replicas change how many micro-batches an update follows */
};

#define PIPE2(schedule, rest)                                                              \
    {                                                                                      \
        schedule " over 2 " rest, 2,                                                       \
            "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"" schedule "\"" rest  \
            "}",                                                                           \
            NULL, true, false, false                                                       \
    }
#define PIPE4(schedule, rest)                                                              \
    {                                                                                      \
        schedule " over 4 " rest, 4,                                                       \
            "{\"kind\": \"pipeline\", \"stages\": 4, \"schedule\": \"" schedule "\"" rest  \
            "}",                                                                           \
            NULL, true, false, false                                                       \
    }
#define STAGE ", \"recompute\": \"stage\""
#define BLOCKS ", \"recompute\": \"blocks\""
#define LOCAL(rest) "{\"kind\": \"local\", " rest "}"
#define IS_LOCAL(name, processors, rest)                                                   \
    {                                                                                      \
        name, processors, LOCAL(rest), LOCAL(rest), true, true, false                      \
    }
#define IS_INTERLEAVED(processors, rest)                                                   \
    {                                                                                      \
        "interleaved over " #processors rest, processors,                                  \
            "{\"kind\": \"pipeline\", \"stages\": " #processors                            \
            ", \"virtual\": 2, \"schedule\": \"interleaved\"" rest "}",                    \
            NULL, true, false, false                                                       \
    }
#define UNEVEN(schedule, stages)                                                           \
    {                                                                                      \
        schedule " over " stages, 4,                                                       \
            "{\"kind\": \"pipeline\", \"stages\": " stages                                 \
            ", \"recompute\": [\"none\", \"stage\", \"blocks\", \"blocks\"], "             \
            "\"schedule\": \"" schedule "\"}",                                             \
            NULL, true, true, false                                                        \
    }
#define PIPEDREAM                                                                          \
    "{\"kind\": \"pipeline\", \"stages\": [3, 5], \"schedule\": \"pipedream\"}"

#define LAYERWISE "\"stages\": [3, 5], \"granularity\": \"layerwise\""
#define TIED_HEADS(stages)                                                               \
    "\"stages\": " stages ", \"heads_every\": 1, \"head\": \"tied_projection\", "         \
    "\"synchronous\": true"
#define OFTEN LOCAL("\"stages\": [4, 4], \"update_every\": 1, \"synchronous\": true")

static const struct inner inners[] = {
    {"backprop", 1, "\"backprop\"", NULL, false, false, false},
    {"backprop, stage", 1, "{\"kind\": \"backprop\"" STAGE "}", NULL, false, false, false},
    {"backprop, blocks", 1, "{\"kind\": \"backprop\"" BLOCKS "}", NULL, false, false,
     false},
    PIPE2("gpipe", ""),
    PIPE2("gpipe", STAGE),
    PIPE2("gpipe", BLOCKS),
    PIPE2("1f1b", ""),
    PIPE2("1f1b", STAGE),
    PIPE2("1f1b", BLOCKS),
    PIPE2("grouped", ""),
    PIPE2("grouped", STAGE),
    PIPE2("grouped", BLOCKS),
    PIPE2("zero_bubble", ""),
    PIPE2("zero_bubble", STAGE),
    IS_INTERLEAVED(2, ""),
    IS_INTERLEAVED(2, STAGE),
    IS_INTERLEAVED(2, BLOCKS),
    PIPE4("gpipe", ""),
    UNEVEN("gpipe", "[1, 2, 1, 4]"),
    UNEVEN("1f1b", "[3, 1, 2, 2]"),
    UNEVEN("grouped", "[1, 1, 5, 1]"),
    PIPE4("1f1b", ""),
    PIPE4("1f1b", STAGE),
    PIPE4("1f1b", BLOCKS),
    PIPE4("grouped", ""),
    PIPE4("grouped", BLOCKS),
    PIPE4("zero_bubble", ""),
    PIPE4("zero_bubble", STAGE),
    IS_INTERLEAVED(4, ""),
    IS_INTERLEAVED(4, BLOCKS),
    IS_INTERLEAVED(1, ""),
    {"pipedream", 2, PIPEDREAM, PIPEDREAM, true, true, true},
    IS_LOCAL("chunked over 2", 2, "\"stages\": [3, 5]"),
    IS_LOCAL("chunked over 4", 4, "\"stages\": [2, 2, 1, 3], \"synchronous\": true"),
    IS_LOCAL("heads every 2", 2, "\"stages\": [4, 4], \"heads_every\": 2"),
    IS_LOCAL("layerwise", 2, LAYERWISE),
    {"layerwise on one", 1, LOCAL("\"stages\": 1, \"granularity\": \"layerwise\""),
     LOCAL(LAYERWISE), true, true, false},
    IS_LOCAL("heads that share the embedding", 2, TIED_HEADS("[3, 5]")),
    {"heads that share the embedding, on one", 1, LOCAL(TIED_HEADS("[8]")),
     LOCAL(TIED_HEADS("[3, 5]")), true, true, false},
    IS_LOCAL("overlapping", 2, "\"stages\": [4, 4], \"granularity\": \"overlapping\""),
    IS_LOCAL("overlapping over 4", 4,
             "\"stages\": [2, 2, 2, 2], \"granularity\": \"overlapping\", "
             "\"heads_every\": 2"),
    IS_LOCAL("last", 2, "\"stages\": [4, 4], \"granularity\": \"last\""),
    /* at a barrier, so that all are evaluated after the same updates */
    {"often", 2, OFTEN, OFTEN, true, true, true},
};
enum { INNERS = sizeof inners / sizeof inners[0] };

static const struct replication {
    unsigned replicas;
    const char *rest;
    bool shards;
} replications[] = {
    {1, "", false},
    {2, "", false},
    {2, ", \"buckets\": 3, \"all_reduce\": \"tree\"", false},
    {2, ", \"shard\": \"optimizer\"", true},
    {2, ", \"shard\": \"optimizer\", \"buckets\": 3", true},
    {2, ", \"shard\": \"gradients\"", true},
    {2, ", \"shard\": \"gradients\", \"buckets\": 2", true},
    {2, ", \"average_every\": 1", false},
    {4, ", \"buckets\": 2, \"all_reduce\": \"halving_doubling\"", false},
    {4, ", \"all_reduce\": \"hierarchical\", \"group\": 2", false},
    {4, ", \"shard\": \"gradients\", \"buckets\": 3", true},
    {4, ", \"all_reduce\": \"recursive_doubling\"", false},
};
enum { REPLICATIONS = sizeof replications / sizeof replications[0] };

static const char *const tensors[] = {
    "", "\"ranks\": 2", "\"ranks\": 2, \"all_reduce\": \"recursive_doubling\"",
    "\"ranks\": 4"};
static const unsigned ranks_of[] = {1, 2, 2, 4};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

/* Without any weight, distillation must change nothing. */
static const char *const distillations[] = {"", "\"exchange\": \"predictions\"",
                                            "\"exchange\": \"checkpoints\", \"period\": 1"};
enum { DISTILLATIONS = sizeof distillations / sizeof distillations[0] };

struct composition {
    const struct inner *inner;
    char text[TEXT_BYTES];
};

static void compose(struct composition *c, const struct inner *inner, size_t tensor,
                    const struct replication *replication, size_t distillation,
                    size_t number)
{
    char split[TEXT_BYTES / 2], replicated[TEXT_BYTES - 160];
    c->inner = inner;
    snprintf(split, sizeof split, "%s", inner->text);
    if (tensor > 0)
        snprintf(split, sizeof split, "{\"kind\": \"tensor_parallel\", %s, \"inner\": %s}",
                 tensors[tensor], inner->text);
    snprintf(replicated, sizeof replicated, "%s", split);
    if (replication->replicas > 1)
        snprintf(replicated, sizeof replicated,
                 "{\"kind\": \"data_parallel\", \"replicas\": %u%s, \"inner\": %s}",
                 replication->replicas, replication->rest, split);
    if (distillation > 0)
        snprintf(c->text, sizeof c->text,
                 "{\"kind\": \"codistillation\", \"name\": \"%zu\", %s, \"alpha\": 0, "
                 "\"inner\": %s}",
                 number, distillations[distillation], replicated);
    else
        snprintf(c->text, sizeof c->text,
                 "{\"kind\": \"codistillation\", \"models\": 1, \"name\": \"%zu\", "
                 "\"inner\": %s}",
                 number, replicated);
}

/* Every composition (or every so many) of one reference that needs at most eight processors. */
static size_t list_compositions(struct composition *list, const char *reference, bool tied,
                                size_t thinned)
{
    size_t count = 0, seen = 0;
    for (size_t i = 0; i < INNERS * TENSORS * REPLICATIONS * DISTILLATIONS; i++) {
        const struct inner *inner = &inners[i % INNERS];
        size_t tensor = i / INNERS % TENSORS;
        const struct replication *r = &replications[i / INNERS / TENSORS % REPLICATIONS];
        size_t distillation = i / INNERS / TENSORS / REPLICATIONS;
        unsigned needs =
            inner->processors * ranks_of[tensor] * r->replicas * (distillation > 0 ? 2 : 1);
        bool same = inner->reference == NULL
                        ? reference == NULL
                        : reference != NULL && strcmp(inner->reference, reference) == 0;
        if (!same || needs > PROCESSORS || (tied && inner->cut && r->shards) ||
            (!tied && inner->transformer) || (inner->alone && r->replicas > 1))
            continue;
        if (seen++ % (THINNED * thinned) != 0)
            continue;
        CU_ASSERT_FATAL(count < MAX_METHODS);
        compose(&list[count], inner, tensor, r, distillation, count);
        count++;
    }
    return count;
}

/* NULL: nobody's. */
static const struct copy *copy_on(const struct plan *plan, uint32_t processor)
{
    for (size_t i = 0; i < plan->part_count; i++)
        if (plan->parts[i].processor == processor)
            return &plan->copies[plan->parts[i].copy];
    return NULL;
}

/* What the first model told of itself: the loss of a step is the mean over its replicas. */
static void collect(const struct simulated *s, const struct plan *plan, double loss[STEPS],
                    double test[STEPS])
{
    size_t tests = 0, losses[STEPS] = {0};
    for (size_t i = 0; i < STEPS; i++)
        loss[i] = test[i] = 0;
    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *event = &s->events[i];
        if (event->kind != EVENT_METRIC)
            continue;
        const struct copy *copy = copy_on(plan, event->processor);
        if (copy == NULL || copy->model != 0)
            continue;
        if (strcmp(event->name, "test loss") == 0 && tests < STEPS)
            test[tests++] = event->value;
        if (strcmp(event->name, "loss") == 0 && event->step < STEPS) {
            loss[event->step] += event->value / copy->shards;
            losses[event->step] += copy->shards;
        }
    }
    CU_ASSERT_EQUAL(tests, STEPS);
    for (size_t i = 0; i < STEPS; i++) /* one of each replica */
        CU_ASSERT(losses[i] > 0 &&
                  losses[i] == (size_t)plan->copies[0].shards * plan->copies[0].shards);
}

static bool close_to(const double *a, const double *b)
{
    bool close = true;
    for (size_t i = 0; i < STEPS; i++)
        close = close && fabs(a[i] - b[i]) <= 1e-5 * fabs(b[i]);
    return close;
}

static void compare(const struct simulation *s, const struct composition *list,
                    size_t count)
{
    double loss[STEPS], test[STEPS], own_loss[STEPS], own_test[STEPS];
    collect(s->methods[0], s->experiment->plans[0], loss, test);
    CU_ASSERT(test[0] != test[STEPS - 1]);
    for (size_t m = 0; m < count; m++) {
        collect(s->methods[m + 1], s->experiment->plans[m + 1], own_loss, own_test);
        bool same = close_to(own_loss, loss) && close_to(own_test, test);
        if (!same)
            printf("\n  %s\n  test loss %.8g, not %.8g\n", list[m].text,
                   own_test[STEPS - 1], test[STEPS - 1]);
        CU_ASSERT(same);
    }
}

static void check_all(const char *model, const char *data, const char *reference, bool tied,
                      size_t thinned)
{
    static struct composition list[MAX_METHODS];
    static char methods[AT_ONCE * TEXT_BYTES];
    static const struct text_link link = {1e9, 1e-6};
    static const char *const topologies[] = {"full", "ring"};
    size_t count = list_compositions(list, reference, tied, thinned), turn = 0;
    CU_ASSERT(count > 0);
    for (size_t first = 0; first < count; first += AT_ONCE, turn++) {
        size_t some = count - first < AT_ONCE ? count - first : AT_ONCE, used = 0;
        for (size_t i = 0; i < some; i++)
            used += (size_t)snprintf(methods + used, sizeof methods - used, ", %s",
                                     list[first + i].text);
        struct simulation *s = simulate(
            "{\"model\": %s, \"data\": %s, \"platform\": %s, \"seed\": 5, \"batch\": 16, "
            "\"micro_batch\": 2, \"steps\": %d, \"evaluate_every\": 1, \"optimizer\": "
            "{\"kind\": \"sgd\", \"learning_rate\": 0.01, \"momentum\": 0.9}, "
            "\"fidelity\": "
            "\"%s\", \"methods\": [%s%s]}",
            model, data,
            roofline_machine(PROCESSORS, topologies[turn % 2], turn / 2 % 2, 1 << 26, link),
            STEPS, turn % 3 == 0 ? "message" : "auto",
            reference == NULL ? "\"backprop\"" : reference, methods);
        compare(s, &list[first], some);
        simulation_free(s);
    }
    printf("%zu compositions ", count);
}

static const char mlp[] = "{\"preset\": \"mlp\", \"input\": [12], \"hidden\": 8, "
                          "\"depth\": 15, \"classes\": 4}";
static const char lm[] =
    "{\"preset\": \"transformer_lm\", \"vocabulary\": 11, \"length\": 5, \"width\": 8, "
    "\"depth\": 8, \"heads\": 4, \"dropout\": 0.1}";
static const char points[] =
    "{\"kind\": \"synthetic\", \"features\": 12, \"classes\": 4, \"separation\": 2, "
    "\"train_samples\": 400, \"test_samples\": 20}";
static const char texts[] =
    "{\"kind\": \"synthetic_sequence\", \"length\": 5, \"vocabulary\": 11, \"lag\": 1, "
    "\"train_samples\": 200, \"test_samples\": 20}";

/* Encoders and decoders of four layers, norms behind the sums: values cross many cuts, and
 * every rank splits what others read too. */
static const char translator[] =
    "{\"preset\": \"transformer\", \"width\": 8, \"depth\": 4, \"heads\": 4, "
    "\"feed_forward\": 16, \"dropout\": 0.1, \"tied\": false}";
static const char tied_translator[] =
    "{\"preset\": \"transformer\", \"width\": 8, \"depth\": 4, \"heads\": 4, "
    "\"feed_forward\": 16, \"dropout\": 0.1}";
static const char translations[] =
    "{\"kind\": \"synthetic_translation\", \"source_length\": 4, \"target_length\": 3, "
    "\"vocabulary\": 7, \"train_samples\": 200, \"test_samples\": 20}";

static void test_perceptrons(void)
{
    check_all(mlp, points, NULL, false, 1);
}

static void test_tied_transformers(void)
{
    check_all(lm, texts, NULL, true, 1);
}

static void test_encoder_decoders(void)
{
    check_all(translator, translations, NULL, false, 5);
    check_all(tied_translator, translations, NULL, true, 7);
}

/* Those whose updates are not those of backprop, against themselves without any split. */
static void test_others(void)
{
    for (size_t i = 0; i < INNERS; i++) {
        bool first = inners[i].reference != NULL;
        for (size_t k = 0; k < i && first; k++)
            first = inners[k].reference == NULL ||
                    strcmp(inners[k].reference, inners[i].reference) != 0;
        if (first)
            check_all(lm, texts, inners[i].reference, true, 1);
    }
}

static const struct check checks[] = {
    {"multi-layer perceptrons", test_perceptrons},
    {"transformers with tied weights", test_tied_transformers},
    {"encoder-decoders", test_encoder_decoders},
    {"local parallelism and stale pipelines", test_others},
};

CHECK_MAIN("compositions", checks)
