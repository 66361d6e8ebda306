/* The automatic cut against all possible cuts, each simulated: none that fits may be
 * faster by its slowest stage. */
#include "base/random.h"
#include "tests/simulate.h"

enum { BLOCKS = 6, STAGES = 3 };

struct figures {
    bool fits, easily; /* with a quarter to spare, so that full queues would fit too */
    double slowest_s;
};

static struct figures figures_of(const struct simulated *s, unsigned long long memory)
{
    struct figures f = {.fits = !s->result.shortage.happened};
    CU_ASSERT_FATAL(s->done);
    f.easily = f.fits;
    for (size_t i = 0; i < STAGES; i++) {
        f.slowest_s = fmax(f.slowest_s, s->processors[i].busy_s);
        f.easily = f.easily && (double)s->processors[i].peak_bytes <= 0.75 * (double)memory;
    }
    return f;
}

/* All ways to cut BLOCKS into STAGES, as methods, after the automatic one. */
static void write_methods(char *text, size_t bytes, const char *more)
{
    size_t used = (size_t)snprintf(text, bytes, "{\"name\": \"auto\", \"kind\": \"pipeline\", "
                                                "\"stages\": %d%s}",
                                   STAGES, more);
    for (int a = 1; a < BLOCKS; a++)
        for (int b = a + 1; b < BLOCKS; b++)
            used += (size_t)snprintf(text + used, bytes - used,
                                     ", {\"name\": \"%d.%d\", \"kind\": \"pipeline\", "
                                     "\"stages\": [%d, %d, %d]%s}",
                                     a, b, a, b - a, BLOCKS - b, more);
}

static void check_machine(uint64_t number, const char *more, unsigned long long memory,
                          size_t *limited)
{
    const struct random_key key = {.seed = 11, .purpose = RANDOM_TEST, .b = number};
    char methods[4096], blocks[2048];
    size_t used = 0;
    for (uint64_t i = 0; i < BLOCKS; i++)
        used += (size_t)snprintf(blocks + used, sizeof blocks - used,
                                 "%s{\"name\": \"b%d\", \"layers\": [{\"kind\": \"linear\", "
                                 "\"out\": %d}, {\"kind\": \"relu\"}]}",
                                 i > 0 ? ", " : "", (int)i,
                                 8 + (int)(random_u64(key, i) % 120));
    write_methods(methods, sizeof methods, more);
    struct simulation *s = simulate(
        "{\"model\": {\"input\": [40], \"blocks\": [%s]}, \"numerics\": false, \"batch\": 512, "
        "\"micro_batch\": 64, \"steps\": 1, \"platform\": {\"name\": \"t\", \"processors\": "
        "{\"name\": \"p\", \"count\": %d, \"kind\": \"roofline\", \"peak_flops_per_s\": 1e9, "
        "\"memory_bytes\": %llu, \"memory_bandwidth_bytes_per_s\": 1e15}, \"topology\": "
        "{\"kind\": \"line\", \"link\": {\"bandwidth_bytes_per_s\": 1e12, \"latency_s\": "
        "0}}}, \"methods\": [%s]}",
        blocks, STAGES, memory, methods);
    struct figures chosen = figures_of(s->methods[0], memory);
    double best_s = INFINITY;
    bool any = false, tight = false;
    for (size_t m = 1; m < s->count; m++) {
        struct figures f = figures_of(s->methods[m], memory);
        if (f.easily)
            best_s = fmin(best_s, f.slowest_s);
        any = any || f.easily;
        tight = tight || !f.fits;
    }
    *limited += any && tight;
    /* The cut counts full queues, and neither the update nor the loss. */
    if (any)
        CU_ASSERT(chosen.fits && chosen.slowest_s <= best_s * 1.01);
    simulation_free(s);
}

static void best_that_fits(void)
{
    size_t limited = 0;
    for (uint64_t i = 0; i < 12; i++) {
        check_machine(i, "", 1ull << 40, &limited);
        CU_ASSERT_EQUAL(limited, 0);
    }
    for (uint64_t i = 0; i < 40; i++)
        check_machine(i, i % 3 == 0 ? ", \"recompute\": \"stage\"" : "",
                      180000 + 30000 * (i % 13), &limited);
    CU_ASSERT(limited > 5); /* memory has decided some of them */
}

/* The stages that "auto" comes to: the last part's stage of the first copy, and one. */
static uint32_t stages_of(const char *method)
{
    struct error error;
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model\": {\"preset\": \"mlp\", \"depth\": 5}, \"numerics\": false, "
             "\"batch\": 16, \"micro_batch\": 2, \"platform\": \"ipu-pod16\", \"methods\": "
             "[%s]}",
             method);
    struct experiment *e = read_experiment(text, &error);
    if (e == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    uint32_t stages = e->plans[0]->copies[0].end_part - e->plans[0]->copies[0].first_part;
    experiment_free(e);
    return stages;
}

static void automatic_count(void)
{
#define INNER "{\"kind\": \"pipeline\", \"stages\": \"auto\"}"
    CU_ASSERT_EQUAL(stages_of(INNER), 6); /* blocks */
    CU_ASSERT_EQUAL(stages_of("{\"kind\": \"local\", \"stages\": \"auto\"}"), 6);
    CU_ASSERT_EQUAL(stages_of("{\"kind\": \"pipeline\", \"stages\": \"auto\", "
                              "\"placement\": [3, 1, 2]}"),
                    3);
    CU_ASSERT_EQUAL(stages_of("{\"kind\": \"data_parallel\", \"replicas\": 4, \"inner\": " INNER
                              "}"),
                    4);
    CU_ASSERT_EQUAL(stages_of("{\"kind\": \"codistillation\", \"models\": 2, \"inner\": "
                              "{\"kind\": \"data_parallel\", \"replicas\": 2, \"inner\": " INNER
                              "}}"),
                    4);
    CU_ASSERT_EQUAL(stages_of("{\"kind\": \"codistillation\", \"models\": 8, \"inner\": " INNER
                              "}"),
                    2);
#undef INNER
}

static const struct check checks[] = {
    {"\"auto\" is as many stages as there is room for", automatic_count},
    {"the fastest cut that fits", best_that_fits},
};

CHECK_MAIN("partition", checks)
