/* Stragglers, failures, degraded links, and the host that feeds the data. */
#include "tests/simulate.h"

#define MODEL                                                                            \
    "{\"preset\": \"mlp\", \"input\": [64], \"depth\": 1, \"hidden\": 64, \"classes\": 10}"
#define PROCESSORS(count)                                                                \
    "\"processors\": {\"name\": \"p\", \"count\": " #count                               \
    ", \"kind\": \"ipu\", \"peak_flops_per_s\": {\"fp32\": 1e9}, \"efficiency\": 1, "    \
    "\"memory_bytes\": 100000000, \"memory_bandwidth_bytes_per_s\": 1e12, "             \
    "\"overhead_s\": 1e-6, \"power\": {\"idle_watts\": 10, \"busy_watts\": 100, "        \
    "\"joules_per_byte\": 1e-9}}, "
#define LINE "\"topology\": {\"kind\": \"line\", \"link\": {\"bandwidth_bytes_per_s\": 1e6, " \
             "\"latency_s\": 0.001}}"

/* More of the platform's members, each with a comma before it. */
static struct simulation *run(const char *processors, const char *more, const char *method,
                              int steps)
{
    return simulate("{\"model\": " MODEL ", \"numerics\": false, \"batch\": 8, "
                    "\"micro_batch\": 4, \"steps\": %d, \"platform\": {\"name\": \"t\", %s" LINE
                    "%s}, \"methods\": [%s]}",
                    steps, processors, more, method);
}

static double time_of(const char *more, const char *method, int steps)
{
    struct simulation *s = run(PROCESSORS(2), more, method, steps);
    CU_ASSERT(s->methods[0]->done);
    double time_s = s->methods[0]->result.time_s;
    simulation_free(s);
    return time_s;
}

static void stragglers(void)
{
    double plain = time_of("", "\"backprop\"", 5);
    double slow = time_of(", \"trouble\": {\"stragglers\": [{\"processor\": \"p0\", "
                          "\"slowdown\": 3}]}",
                          "\"backprop\"", 5);
    double other = time_of(", \"trouble\": {\"stragglers\": [{\"processor\": \"p1\", "
                           "\"slowdown\": 3}]}",
                           "\"backprop\"", 5);
    CHECK_CLOSE(slow, 3 * plain, 1e-9);
    CHECK_CLOSE(other, plain, 1e-15);
    double drawn = time_of(", \"trouble\": {\"seed\": 4, \"stragglers\": [{\"processor\": "
                           "\"p0\", \"slowdown\": 3, \"probability\": 0.5, \"window_s\": "
                           "0.0001}]}",
                           "\"backprop\"", 5);
    double again = time_of(", \"trouble\": {\"seed\": 4, \"stragglers\": [{\"processor\": "
                           "\"p0\", \"slowdown\": 3, \"probability\": 0.5, \"window_s\": "
                           "0.0001}]}",
                           "\"backprop\"", 5);
    CU_ASSERT(drawn > plain && drawn < slow);
    CU_ASSERT_EQUAL(drawn, again);
}

static void failures(void)
{
    double plain = time_of("", "\"backprop\"", 5);
    /* No instruction is under way at 0, and it comes back later by just so much. */
    double late = time_of(", \"trouble\": {\"failures\": [{\"processor\": \"p0\", \"at_s\": 0, "
                          "\"until_s\": 0.25}]}",
                          "\"backprop\"", 5);
    CHECK_CLOSE(late, plain + 0.25, 1e-9);
    struct error error = {STATUS_OK, ""};
    struct experiment *e = read_experiment(
        "{\"model\": " MODEL ", \"numerics\": false, \"batch\": 8, \"micro_batch\": 4, "
        "\"steps\": 50, \"platform\": {\"name\": \"t\", " PROCESSORS(2) LINE
        ", \"trouble\": {\"failures\": [{\"processor\": \"p1\", \"at_s\": 0.01}]}}, "
        "\"methods\": [{\"kind\": \"pipeline\", \"stages\": 2}, \"backprop\"]}",
        &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    cJSON *methods = simulate_summaries(e, 2);
    const cJSON *stopped =
        cJSON_GetObjectItem(cJSON_GetArrayItem(methods, 0), "stopped");
    CU_ASSERT_PTR_NOT_NULL_FATAL(stopped);
    CU_ASSERT_PTR_NOT_NULL(strstr(stopped->valuestring, "processor p1"));
    CU_ASSERT_PTR_NULL(cJSON_GetObjectItem(cJSON_GetArrayItem(methods, 1), "stopped"));
    cJSON_Delete(methods);
    experiment_free(e);
}

/* Of the edge's messages, the first that begins at or after from_s. */
static double transfer_after(const struct simulated *s, double from_s)
{
    for (size_t i = 0; i < s->event_count; i++)
        if (s->events[i].kind == EVENT_TRANSFER && s->events[i].start_s >= from_s)
            return s->events[i].end_s - s->events[i].start_s;
    return NAN;
}

static void links(void)
{
    const char *local = "{\"kind\": \"local\", \"stages\": 2}";
    const double bytes = 4.0 * 64 * 4; /* a micro-batch of the hidden layer */
    struct simulation *s = run(PROCESSORS(2),
                               ", \"trouble\": {\"links\": [{\"link\": \"p0->p1\", \"factor\": "
                               "0.25, \"from_s\": 0.05}]}",
                               local, 40);
    double until_s = s->methods[0]->result.time_s;
    CU_ASSERT(until_s > 0.1);
    CHECK_CLOSE(transfer_after(s->methods[0], 0), 0.001 + bytes / 1e6, 1e-9);
    CHECK_CLOSE(transfer_after(s->methods[0], 0.06), 0.001 + bytes / 0.25e6, 1e-9);
    simulation_free(s);
    double plain = time_of("", local, 40);
    double down = time_of(", \"trouble\": {\"failures\": [{\"link\": \"p0->p1\", \"at_s\": 0, "
                          "\"until_s\": 2}]}",
                          local, 40);
    CU_ASSERT(down > 2 && down < plain + 2 + 1e-9);
    double unused = time_of(", \"trouble\": {\"failures\": [{\"link\": \"p1->p0\", \"at_s\": "
                            "0}]}",
                            local, 40);
    CHECK_CLOSE(unused, plain, 1e-12);
}

/* A host slower than the processor sets the pace: N messages one after another, then the
 * last micro-batch's work. */
static void host(void)
{
    const char *method = "\"backprop\"";
    const double bytes = 4.0 * 64 * 4;
    double free_s = time_of("", method, 1), ten_s = time_of("", method, 10);
    double step_s = (ten_s - free_s) / 9;
    double slow = time_of(", \"host\": {\"bandwidth_bytes_per_s\": 1e4, \"latency_s\": 0.01}",
                          method, 10);
    double fed_s = 20 * (0.01 + bytes / 1e4);
    CU_ASSERT(slow > fed_s && slow < fed_s + step_s);
    double fast = time_of(", \"host\": {\"bandwidth_bytes_per_s\": 1e15, \"latency_s\": 0}",
                          method, 10);
    CHECK_CLOSE(fast, ten_s, 1e-6);
}

static void energy(void)
{
    struct error error = {STATUS_OK, ""};
    struct experiment *e = read_experiment(
        "{\"model\": " MODEL ", \"numerics\": false, \"batch\": 8, \"micro_batch\": 4, "
        "\"steps\": 3, \"platform\": {\"name\": \"t\", " PROCESSORS(2) LINE "}, "
        "\"methods\": [\"backprop\", {\"kind\": \"local\", \"stages\": 2}]}",
        &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    cJSON *methods = simulate_summaries(e, 2);
    const cJSON *method;
    cJSON_ArrayForEach(method, methods) {
        double time_s = cJSON_GetObjectItem(method, "time_s")->valuedouble;
        double busy = cJSON_GetObjectItem(method, "busy_fraction")->valuedouble;
        double used = cJSON_GetObjectItem(method, "processors")->valuedouble;
        double bytes = cJSON_GetObjectItem(method, "bytes_total")->valuedouble;
        double expected = used * time_s * (busy * 100 + (1 - busy) * 10) + bytes * 1e-9;
        CHECK_CLOSE(cJSON_GetObjectItem(method, "energy_j")->valuedouble, expected, 1e-9);
    }
    cJSON_Delete(methods);
    experiment_free(e);
}

static const struct check checks[] = {
    {"a straggler's work takes its factor longer", stragglers},
    {"a failed processor waits, or stops the run", failures},
    {"links degrade, fail and come back", links},
    {"the host sets the pace when it is slow", host},
    {"energy is watts by seconds and joules by byte", energy},
};

CHECK_MAIN("trouble", checks)
