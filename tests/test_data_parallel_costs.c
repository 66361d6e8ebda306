/* Data parallelism: bytes, memory and time in closed form; what is refused. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const struct text_link plain_link = {1e9, 1e-6};
static const char sgd[] = "{\"kind\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9}";
static const char adam[] = "{\"kind\": \"adam\", \"learning_rate\": 0.001}";

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

/* ---- bytes, memory, time ---- */

/* One linear layer of in x out, no more: in * out + out parameters. */
static struct simulation *costs(const char *machine, const char *optimizer,
                                const char *text_model, int replicas, int micro_batches,
                                const char *methods)
{
    return simulate(
        "{\"model\": %s, \"numerics\": false, \"platform\": %s, \"optimizer\": %s, "
        "\"batch\": %d, \"micro_batch\": 2, \"steps\": 1, \"methods\": [%s]}",
        text_model, machine, optimizer, 2 * replicas * micro_batches, methods);
}

static const char *method_text(int replicas, const char *more)
{
    char *text = machine_buffer();
    snprintf(text, 1024,
             "{\"name\": \"m%s\", \"kind\": \"data_parallel\", \"replicas\": %d%s%s}", "",
             replicas, more[0] != '\0' ? ", " : "", more);
    return text;
}

static void bytes_moved(void)
{
    for (int n = 1; n <= 9; n += 2)
        for (int m = 1; m <= 3; m += 2) {
            const uint64_t parameters = 30 * 20 + 20 + 20 * 11 + 11;
            const uint64_t widths[] = {20, 11};
            static const struct {
                const char *keys;
                bool every_micro_batch;
                uint64_t halves; /* of an all-reduce by ring */
            } cases[] = {{"", false, 2},
                         {"\"buckets\": 2", false, 2},
                         {"\"shard\": \"optimizer\"", false, 2},
                         {"\"shard\": \"optimizer\", \"buckets\": 2", false, 2},
                         {"\"shard\": \"gradients\"", true, 1},
                         {"\"shard\": \"gradients\", \"buckets\": 2", true, 1}};
            for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                struct simulation *s = costs(
                    roofline_machine(9, "full", i % 2 == 0, 1 << 24, plain_link), adam,
                    linear_model(30, widths, 2), n, m, method_text(n, cases[i].keys));
                uint64_t half = 4 * parameters * (uint64_t)(n - 1);
                uint64_t expected =
                    cases[i].every_micro_batch
                        ? half * (uint64_t)m + half /* gradients each time, weights once */
                        : half * cases[i].halves;
                CU_ASSERT(s->methods[0]->bytes == expected);
                simulation_free(s);
            }
        }
}

static uint64_t peak(const struct simulation *s, size_t processor,
                     enum memory_category category)
{
    return s->methods[0]->processors[processor].category_peak_bytes[category];
}

static void memory_of_shards(void)
{
    const uint64_t widths[] = {20, 11};
    const uint64_t first = 30 * 20 + 20, second = 20 * 11 + 11, all = first + second;
    for (uint64_t n = 2; n <= 9; n += 2)
        for (uint64_t buckets = 1; buckets <= 2; buckets++)
            for (int shard = 0; shard < 3; shard++) {
                static const char *const names[] = {"none", "optimizer", "gradients"};
                char keys[128];
                snprintf(keys, sizeof keys, "\"buckets\": %d, \"shard\": \"%s\"",
                         (int)buckets, names[shard]);
                struct simulation *s = costs(
                    roofline_machine(9, "full", true, 1 << 24, plain_link), adam,
                    linear_model(30, widths, 2), (int)n, 2, method_text((int)n, keys));
                for (uint64_t r = 0; r < n; r++) {
                    uint64_t own = buckets == 1 ? all / n + (r < all % n)
                                                : first / n + (r < first % n) + second / n +
                                                      (r < second % n);
                    uint64_t largest = buckets == 1 ? all : first;
                    CU_ASSERT(peak(s, r, MEMORY_WEIGHTS) == 4 * all);
                    CU_ASSERT(peak(s, r, MEMORY_OPTIMIZER) == 8 * (shard == 0 ? all : own));
                    CU_ASSERT(peak(s, r, MEMORY_GRADIENTS) ==
                              4 * (shard == 2 ? own + largest : all));
                    CU_ASSERT(s->methods[0]->processors[r].final_bytes == 0);
                }
                simulation_free(s);
            }
}

/* While a rank takes part it has room for two messages. */
static void memory_of_buffers(void)
{
    const uint64_t widths[] = {20, 11};
    const uint64_t all = 30 * 20 + 20 + 20 * 11 + 11;
    static const char *const names[] = {"ring", "tree", "recursive_doubling"};
    for (uint64_t n = 2; n <= 8; n++)
        for (size_t i = 0; i < 3; i++) {
            char keys[64];
            snprintf(keys, sizeof keys, "\"all_reduce\": \"%s\"", names[i]);
            struct simulation *s =
                costs(roofline_machine(9, "full", true, 1 << 24, plain_link), sgd,
                      linear_model(30, widths, 2), (int)n, 1, method_text((int)n, keys));
            uint64_t message = i == 0 ? all / n + (all % n != 0) : all;
            CU_ASSERT(peak(s, 0, MEMORY_QUEUE) == 2 * 4 * message);
            simulation_free(s);
        }
}

/* Layers that take a second forward and two backward, and an exchange of four fifths of a
 * second a layer: beside backward only the last bucket's exchange is seen. */
static void overlap_time(void)
{
    const double forward_s = 1, backward_s = 2;
    for (uint64_t layers = 1; layers <= 4; layers++)
        for (uint32_t n = 2; n <= 5; n++) {
            const uint64_t width =
                59; /* 60 x 59 parameters a layer: 2, 3, 4 and 5 divide */
            double bytes = 4.0 * (double)(width * (width + 1));
            double exchange_s = 0.8;
            struct text_link link = {2.0 * (n - 1) / n * bytes / exchange_s, 0};
            for (uint64_t buckets = 1; buckets <= layers; buckets++) {
                if (layers % buckets != 0)
                    continue;
                char keys[64];
                snprintf(keys, sizeof keys, "\"buckets\": %d", (int)buckets);
                for (int overlap = 0; overlap < 2; overlap++) {
                    struct simulation *s = costs(
                        table_machine(n, "full", overlap == 1, forward_s, backward_s, link),
                        sgd, even_model(width, layers), (int)n, 2,
                        method_text((int)n, keys));
                    double compute_s = 2 * (double)layers * (forward_s + backward_s);
                    double seen_s = exchange_s * (double)layers;
                    if (overlap == 1)
                        seen_s /= (double)buckets;
                    CHECK_CLOSE(s->methods[0]->result.time_s, compute_s + seen_s, 1e-9);
                    simulation_free(s);
                }
            }
        }
}

/* Pipelines: overlap never lengthens a step, and never changes what is sent. */
static void overlap_of_pipelines(void)
{
    static const char *const inners[] = {
        "{\"kind\": \"pipeline\", \"stages\": 2}",
        "{\"kind\": \"pipeline\", \"stages\": 3, \"schedule\": \"gpipe\"}",
        "{\"kind\": \"local\", \"stages\": 2}"};
    for (size_t i = 0; i < 3; i++) {
        struct simulation *s = simulate(
            "{\"model\": %s, \"numerics\": false, \"platform\": %s, \"batch\": 12, "
            "\"steps\": 3, \"micro_batch\": 2, \"methods\": ["
            "{\"name\": \"one\", \"kind\": \"data_parallel\", \"replicas\": 3, \"inner\": "
            "%s}, "
            "{\"name\": \"two\", \"kind\": \"data_parallel\", \"replicas\": 3, "
            "\"buckets\": 4, \"inner\": %s}]}",
            even_model(64, 6),
            table_machine(9, "full", true, 1e-4, 2e-4, (struct text_link){1e9, 0}),
            inners[i], inners[i]);
        CU_ASSERT(s->methods[1]->result.time_s < s->methods[0]->result.time_s);
        CU_ASSERT(s->methods[1]->bytes == s->methods[0]->bytes);
        simulation_free(s);
    }
}

/* The default group of "hierarchical": those that replica 0 reaches as fast as replica 1.
 */
static void group_of_the_machine(void)
{
    struct experiment *e = experiment_of(
        "{\"model\": %s, \"numerics\": false, \"batch\": 12, \"micro_batch\": 1, "
        "\"platform\": "
        "{\"name\": \"nodes\", \"processors\": {\"name\": \"p\", \"count\": 12, \"kind\": "
        "\"roofline\", \"peak_flops_per_s\": 1e12, \"memory_bytes\": 1000000000, "
        "\"memory_bandwidth_bytes_per_s\": 1e12}, \"topology\": {\"kind\": "
        "\"hierarchical\", "
        "\"nodes\": 3, \"ports\": 1, \"port\": {\"bandwidth_bytes_per_s\": 1e9, "
        "\"latency_s\": "
        "1e-6}, \"inside\": {\"kind\": \"full\", \"link\": {\"bandwidth_bytes_per_s\": "
        "10e9, "
        "\"latency_s\": 1e-6}}, \"across\": {\"kind\": \"switch\", \"link\": "
        "{\"bandwidth_bytes_per_s\": 1e9, \"latency_s\": 1e-6}}}}, \"methods\": ["
        "{\"name\": \"default\", \"kind\": \"data_parallel\", \"replicas\": 12, "
        "\"all_reduce\": "
        "\"hierarchical\"}, {\"name\": \"two\", \"kind\": \"data_parallel\", \"replicas\": "
        "12, "
        "\"all_reduce\": \"hierarchical\", \"group\": 2}, {\"name\": \"pipelines\", "
        "\"kind\": "
        "\"data_parallel\", \"replicas\": 6, \"all_reduce\": \"hierarchical\", \"inner\": "
        "{\"kind\": \"pipeline\", \"stages\": 2}}]}",
        even_model(8, 2));
    CU_ASSERT(e->plans[0]->collectives[0].group == 4);
    CU_ASSERT(e->plans[1]->collectives[0].group == 2);
    CU_ASSERT(e->plans[2]->collectives[0].group == 2); /* two pipelines a node */
    experiment_free(e);
}

/* ---- refusals ---- */

static void refuse(const char *optimizer, const char *keys, const char *inner,
                   const char *complaint)
{
    char text[8192];
    struct error error;
    snprintf(text, sizeof text,
             "{\"model\": %s, \"numerics\": false, \"platform\": %s, \"optimizer\": %s, "
             "\"batch\": 12, \"micro_batch\": 2, \"methods\": [{\"kind\": "
             "\"data_parallel\", %s, "
             "\"inner\": %s}]}",
             model, roofline_machine(8, "full", true, 1 << 24, plain_link), optimizer, keys,
             inner);
    struct experiment *e = read_experiment(text, &error);
    CU_ASSERT_PTR_NULL(e);
    CU_ASSERT(error.status == STATUS_BAD_INPUT);
    if (strstr(error.message, complaint) == NULL)
        printf("\n  %s: %s\n", keys, error.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, complaint));
    experiment_free(e);
}

static void refuse_tied(void)
{
    char text[4096];
    struct error error;
    snprintf(text, sizeof text,
             "{\"model\": %s, \"numerics\": false, \"platform\": %s, \"batch\": 12, "
             "\"micro_batch\": 2, \"methods\": [{\"kind\": \"data_parallel\", \"shard\": "
             "\"optimizer\", \"inner\": {\"kind\": \"pipeline\", \"stages\": 3}}]}",
             tied_model, roofline_machine(8, "full", true, 1 << 24, plain_link));
    CU_ASSERT_PTR_NULL(read_experiment(text, &error));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "share weights"));
}

static void refusals(void)
{
    static const char backprop[] = "\"backprop\"";
    static const char clipped[] = "{\"kind\": \"sgd\", \"clip_norm\": 1}";
    refuse(sgd, "\"replicas\": 4", backprop, "4 replicas cannot share 6 micro-batches");
    refuse(sgd, "\"replicas\": 0", backprop, "replicas");
    refuse(sgd, "\"all_reduce\": \"rings\"", backprop, "ring");
    refuse(sgd, "\"bucket\": 3", backprop, "buckets");
    refuse(sgd, "\"buckets\": 0", backprop, "buckets");
    refuse(sgd, "\"group\": 2", backprop, "no effect");
    refuse(sgd, "\"all_reduce\": \"hierarchical\", \"group\": 3", backprop, "group");
    refuse(sgd, "\"rings\": [[0, 1]]", backprop, "no effect");
    refuse(sgd, "\"all_reduce\": \"multi_ring\", \"rings\": []", backprop, "1 to 64");
    refuse(sgd, "\"all_reduce\": \"multi_ring\", \"rings\": [[0]]", backprop, "0 to 1");
    refuse(sgd, "\"all_reduce\": \"multi_ring\", \"rings\": [[0, 0]]", backprop, "twice");
    refuse(sgd, "\"all_reduce\": \"multi_ring\", \"rings\": [[0, 2]]", backprop,
           "rings[0][1]");
    refuse(sgd, "\"all_reduce\": \"multi_ring\", \"rings\": [0, 1]", backprop, "rings[0]");
    refuse(sgd, "\"shard\": \"weights\"", backprop, "optimizer");
    refuse(sgd, "\"all_reduce\": \"tree\", \"shard\": \"optimizer\"", backprop, "halving");
    refuse(sgd, "\"average_every\": 0", backprop, "average_every");
    refuse(sgd, "\"average_every\": 2, \"buckets\": 2", backprop, "no gradients");
    refuse(sgd, "\"average_every\": 2, \"shard\": \"optimizer\"", backprop,
           "average_every");
    refuse(clipped, "\"shard\": \"optimizer\"", backprop, "clip_norm");
    refuse_tied();
    refuse("{\"kind\": \"lars\"}", "\"shard\": \"gradients\"", backprop, "lars");
    refuse(sgd, "\"replicas\": 3", "{\"kind\": \"pipeline\", \"stages\": 4}", "processors");
    refuse(sgd, "\"replicas\": 2", "{\"kind\": \"data_parallel\"}", "inside");
}

static const struct check checks[] = {
    {"bytes moved", bytes_moved},
    {"memory of shards", memory_of_shards},
    {"memory of buffers", memory_of_buffers},
    {"buckets beside backward: time", overlap_time},
    {"buckets beside the backward of pipelines", overlap_of_pipelines},
    {"the group of the machine", group_of_the_machine},
    {"refusals", refusals},
};

CHECK_MAIN("costs of data parallelism", checks)
