/* Steps that repeat are multiplied out: the same time to 1e-9, the same bytes, messages and
 * memory as simulating all of them, for any number of steps; and where steps are not alike
 * all are simulated. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

#ifdef __SANITIZE_ADDRESS__
enum { MANY = 50, SOME = 20, STRIDE = 4 };
#else
enum { MANY = 1000, SOME = 200, STRIDE = 1 };
#endif

/* Without exchanges in some steps only. */
static const char *const steady[] = {
    "\"backprop\"",
    "{\"name\": \"gpipe\", \"kind\": \"pipeline\", \"stages\": 4, \"schedule\": \"gpipe\"}",
    "{\"name\": \"1f1b\", \"kind\": \"pipeline\", \"stages\": 4, \"schedule\": \"1f1b\"}",
    "{\"name\": \"uneven\", \"kind\": \"pipeline\", \"stages\": [1, 3, 1, 1]}",
    "{\"name\": \"grouped\", \"kind\": \"pipeline\", \"stages\": 4, \"schedule\": "
    "\"grouped\"}",
    "{\"name\": \"zero\", \"kind\": \"pipeline\", \"stages\": 4, \"schedule\": "
    "\"zero_bubble\"}",
    "{\"name\": \"again\", \"kind\": \"pipeline\", \"stages\": 4, \"recompute\": "
    "\"stage\"}",
    "{\"name\": \"two each\", \"kind\": \"pipeline\", \"stages\": 2, \"virtual\": 2, "
    "\"schedule\": \"interleaved\"}",
    "{\"name\": \"ahead\", \"kind\": \"pipeline\", \"stages\": 4, \"schedule\": "
    "\"pipedream\"}",
    "{\"kind\": \"local\", \"stages\": 4}",
    "{\"name\": \"together\", \"kind\": \"local\", \"stages\": 3, \"synchronous\": true}",
    "{\"name\": \"slices\", \"kind\": \"tensor_parallel\", \"ranks\": 4}",
    "{\"name\": \"slices of stages\", \"kind\": \"tensor_parallel\", \"inner\": {\"kind\": "
    "\"pipeline\", \"stages\": 2, \"schedule\": \"pipedream\"}}",
    "{\"name\": \"ring\", \"kind\": \"data_parallel\", \"replicas\": 4}",
    "{\"name\": \"buckets\", \"kind\": \"data_parallel\", \"replicas\": 4, \"buckets\": 3}",
    "{\"name\": \"shards\", \"kind\": \"data_parallel\", \"replicas\": 4, \"shard\": "
    "\"optimizer\"}",
    "{\"name\": \"tree\", \"kind\": \"data_parallel\", \"replicas\": 4, \"all_reduce\": "
    "\"tree\"}",
    "{\"name\": \"halving\", \"kind\": \"data_parallel\", \"replicas\": 4, "
    "\"all_reduce\": \"halving_doubling\"}",
    "{\"name\": \"doubling\", \"kind\": \"data_parallel\", \"replicas\": 4, "
    "\"all_reduce\": \"recursive_doubling\"}",
};

static const char *const unsteady[] = {
    "{\"name\": \"every third\", \"kind\": \"codistillation\", \"models\": 4, \"period\": "
    "3}",
    "{\"name\": \"checkpoints\", \"kind\": \"codistillation\", \"models\": 2, "
    "\"exchange\": \"checkpoints\", \"period\": 4}",
    "{\"name\": \"average\", \"kind\": \"data_parallel\", \"replicas\": 4, "
    "\"average_every\": 5}",
};
enum {
    STEADY = sizeof steady / sizeof steady[0],
    UNSTEADY = sizeof unsteady / sizeof unsteady[0]
};

/* All sizes divide by four: ranks with uneven pieces may drift apart for very long. */
static cJSON *run(const char *const *methods, size_t count, const char *platform,
                  const char *fidelity, int steps)
{
    struct error error;
    char text[16384], list_text[8192];
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(list_text + used, sizeof list_text - used, "%s%s",
                                 i > 0 ? ", " : "", methods[i]);
    snprintf(text, sizeof text,
             "{\"model\": {\"preset\": \"mlp\", \"input\": [48], \"depth\": 5, \"hidden\": "
             "64, \"classes\": 16}, \"numerics\": false, \"batch\": 16, \"micro_batch\": "
             "2, \"steps\": %d, "
             "\"fidelity\": \"%s\", \"platform\": %s, \"methods\": [%s]}",
             steps, fidelity, platform, list_text);
    struct experiment *e = read_experiment(text, &error);
    if (e == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    cJSON *list = simulate_summaries(e, 2);
    experiment_free(e);
    return list;
}

static double number(const cJSON *method, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(method, key)->valuedouble;
}

static double simulated_steps(const cJSON *method)
{
    return number(cJSON_GetObjectItemCaseSensitive(method, "fidelity"), "steps_simulated");
}

/* In lock step a message may come at the instant at which another is taken: which one is
 * first is up to the last bit of the clock, and a peak may be a queue's messages apart. */
static void check_memory(const cJSON *a, const cJSON *b)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(a, "memory");
    const cJSON *others = cJSON_GetObjectItemCaseSensitive(b, "memory");
    if (strcmp(cJSON_GetObjectItemCaseSensitive(a, "name")->valuestring, "grouped") != 0) {
        CU_ASSERT(same_memory(a, b));
        return;
    }
    enum { QUEUES_BYTES = 4 * 2 * 2 * 64 * 4 }; /* queues x messages x samples x fp32s */
    for (int i = 0; i < cJSON_GetArraySize(all); i++)
        CU_ASSERT(fabs(number(cJSON_GetArrayItem(all, i), "peak_bytes") -
                       number(cJSON_GetArrayItem(others, i), "peak_bytes")) <=
                  QUEUES_BYTES);
}

/* Most steps that any method simulated, and how many methods simulated them all. */
struct seen {
    double most, all;
};

static struct seen check_same(const char *const *methods, size_t count,
                              const char *platform, int steps)
{
    cJSON *quick = run(methods, count, platform, "auto", steps);
    cJSON *full = run(methods, count, platform, "message", steps);
    struct seen seen = {0, 0};
    CU_ASSERT_EQUAL(cJSON_GetArraySize(quick), cJSON_GetArraySize(full));
    for (int i = 0; i < cJSON_GetArraySize(full); i++) {
        const cJSON *a = cJSON_GetArrayItem(quick, i), *b = cJSON_GetArrayItem(full, i);
        unsigned failures = CU_get_number_of_failures();
        CHECK_CLOSE(number(a, "time_s"), number(b, "time_s"), 1e-9);
        CU_ASSERT(number(a, "bytes_total") == number(b, "bytes_total"));
        CU_ASSERT(number(a, "messages") == number(b, "messages"));
        CU_ASSERT(number(a, "host_bytes") == number(b, "host_bytes"));
        check_same_edges(a, b);
        check_memory(a, b);
        CHECK_CLOSE(number(a, "busy_fraction"), number(b, "busy_fraction"), 1e-6);
        CU_ASSERT_EQUAL(simulated_steps(b), steps);
        seen.most = fmax(seen.most, simulated_steps(a));
        seen.all += simulated_steps(a) == steps;
        if (CU_get_number_of_failures() > failures)
            printf("\n  %s, %d steps, %g simulated, on %.40s\n",
                   cJSON_GetObjectItemCaseSensitive(a, "name")->valuestring, steps,
                   simulated_steps(a), platform);
    }
    cJSON_Delete(quick);
    cJSON_Delete(full);
    return seen;
}

static const char *machine(const char *topology, bool overlap)
{
    return roofline_machine(4, topology, overlap, 1 << 30, (struct text_link){3e8, 2e-7});
}

static void thousand(void)
{
    struct seen full = check_same(steady, STEADY, machine("full", true), MANY);
    struct seen ring = check_same(steady, STEADY, machine("ring", true), SOME);
    struct seen synchronous = check_same(steady, STEADY, machine("full", false), SOME);
    printf(" (at most %g, %g and %g steps simulated) ", full.most, ring.most,
           synchronous.most);
    CU_ASSERT(full.most <= 20 && ring.most <= 20 && synchronous.most <= 20);
}

/* Also just before, at and after the step in which it is seen to repeat. */
static void few(void)
{
    for (int steps = 1; steps <= 12; steps += STRIDE) {
        check_same(steady, STEADY, machine("ring", true), steps);
        check_same(steady, STEADY, machine("full", false), steps);
    }
}

/* A host sends samples before they are asked for, and for no step that is not simulated. */
static void fed(void)
{
    static const char host[] =
        ", \"host\": {\"bandwidth_bytes_per_s\": 1e8, \"latency_s\": "
        "1e-6, \"processors_per_link\": 2}}";
    const char *plain = machine("full", true);
    char text[8192];
    snprintf(text, sizeof text, "%.*s%s", (int)strlen(plain) - 1, plain, host);
    for (int steps = 3; steps <= 63; steps += 20) {
        struct seen seen = check_same(steady, STEADY, text, steps);
        CU_ASSERT(seen.most <= 25);
    }
}

static void not_alike(void)
{
    for (int steps = 1; steps <= 41; steps += 8) {
        struct seen seen = check_same(unsteady, UNSTEADY, machine("full", true), steps);
        CU_ASSERT_EQUAL(seen.all, UNSTEADY);
    }
}

static const struct check checks[] = {
    {"up to 1,000 steps of every steady method", thousand},
    {"1 to 12 steps", few},
    {"fed by a host", fed},
    {"steps that are not alike are all simulated", not_alike},
};

CHECK_MAIN("steady states", checks)
