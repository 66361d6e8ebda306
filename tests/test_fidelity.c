/* What is worked out instead of simulated gives the same times, bytes and memory. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const char methods[] =
    "\"backprop\", {\"name\": \"g\", \"kind\": \"pipeline\", \"stages\": 4, \"schedule\": "
    "\"gpipe\"}, {\"name\": \"f\", \"kind\": \"pipeline\", \"stages\": 4, \"schedule\": \"1f1b\"}, "
    "{\"name\": \"r\", \"kind\": \"pipeline\", \"stages\": 3, \"schedule\": \"gpipe\", "
    "\"recompute\": \"stage\"}, {\"kind\": \"local\", \"stages\": 4}, {\"name\": \"ring\", "
    "\"kind\": \"data_parallel\", \"replicas\": 4}, {\"name\": \"tree\", \"kind\": "
    "\"data_parallel\", \"replicas\": 4, \"all_reduce\": \"tree\"}, {\"name\": \"halving\", "
    "\"kind\": \"data_parallel\", \"replicas\": 4, \"all_reduce\": \"halving_doubling\"}, "
    "{\"name\": \"zero\", \"kind\": \"data_parallel\", \"replicas\": 4, \"shard\": "
    "\"optimizer\"}, {\"name\": \"both\", \"kind\": \"data_parallel\", \"replicas\": 2, "
    "\"inner\": {\"kind\": \"pipeline\", \"stages\": 2}}, {\"kind\": \"codistillation\", "
    "\"models\": 2, \"inner\": {\"kind\": \"pipeline\", \"stages\": 2}}";

static cJSON *summaries(const char *platform, const char *fidelity, int steps)
{
    struct error error;
    char text[8192];
    snprintf(text, sizeof text,
             "{\"model\": {\"preset\": \"mlp\", \"input\": [48], \"depth\": 5, \"hidden\": 64}, "
             "\"numerics\": false, \"batch\": 24, \"micro_batch\": 3, \"steps\": %d, "
             "\"fidelity\": \"%s\", \"platform\": %s, \"methods\": [%s]}",
             steps, fidelity, platform, methods);
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

static void check_alike(const char *platform, int steps, double *fewest)
{
    cJSON *quick = summaries(platform, "auto", steps);
    cJSON *full = summaries(platform, "message", steps);
    for (int i = 0; i < cJSON_GetArraySize(full); i++) {
        const cJSON *a = cJSON_GetArrayItem(quick, i), *b = cJSON_GetArrayItem(full, i);
        CHECK_CLOSE(number(a, "time_s"), number(b, "time_s"), 1e-9);
        CU_ASSERT(number(a, "bytes_total") == number(b, "bytes_total"));
        CU_ASSERT(number(a, "messages") == number(b, "messages"));
        CU_ASSERT(same_memory(a, b));
        check_same_edges(a, b);
        CU_ASSERT_EQUAL(simulated_steps(b), steps);
        *fewest = fmin(*fewest, simulated_steps(a));
    }
    cJSON_Delete(quick);
    cJSON_Delete(full);
}

static void auto_and_message(void)
{
    static const char *const topologies[] = {"line", "ring", "full"};
    double fewest = INFINITY;
    for (int t = 0; t < 3; t++)
        for (int overlap = 0; overlap < 2; overlap++)
            for (int steps = 1; steps <= 4; steps++)
                check_alike(roofline_machine(4, topologies[t], overlap == 1, 1 << 30,
                                             (struct text_link){3e8, 2e-7}),
                            steps, &fewest);
}

static void steady_state(void)
{
    double fewest = INFINITY;
    check_alike(roofline_machine(4, "full", false, 1 << 30, (struct text_link){3e8, 2e-7}), 300,
                &fewest);
    check_alike(roofline_machine(4, "ring", true, 1 << 30, (struct text_link){3e8, 2e-7}), 300,
                &fewest);
    CU_ASSERT(fewest <= 8); /* most of them were multiplied out */
}

/* On a line the ring's last message crosses the links of the others. */
static void closed_form_refused(void)
{
    struct error error;
    char text[2048];
    snprintf(text, sizeof text,
             "{\"model\": \"mlp\", \"numerics\": false, \"batch\": 8, \"micro_batch\": 2, "
             "\"fidelity\": \"closed_form\", \"platform\": %s, \"methods\": [{\"kind\": "
             "\"data_parallel\", \"replicas\": 4, \"all_reduce\": \"tree\"}]}",
             roofline_machine(4, "line", true, 1 << 30, (struct text_link){3e8, 2e-7}));
    struct experiment *e = read_experiment(text, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    const struct run_options options = {0};
    cJSON *list = run_methods(e, &options, &error);
    CU_ASSERT_PTR_NULL(list);
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "link"));
    cJSON_Delete(list);
    experiment_free(e);
}

static const struct check checks[] = {
    {"auto and message", auto_and_message},
    {"a steady state multiplied out", steady_state},
    {"closed_form is refused where links are shared", closed_form_refused},
};

CHECK_MAIN("fidelity", checks)
