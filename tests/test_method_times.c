/* Step times and stash peaks of the schedules against their closed forms, on machines
 * whose links cost nothing. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const struct text_link free_link = {INFINITY, 0};
static const double forward_s = 1.5, backward_s = 2.75;

/* GPipe and 1F1B: (m + p - 1) / m of the ideal, every step. */
static void check_flush(size_t p, uint64_t m, uint64_t steps)
{
    const char *machine = table_machine(p, "line", true, forward_s, backward_s, free_link);
    struct simulation *s =
        simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %llu, "
                 "\"batch\": %llu, \"micro_batch\": 3, \"methods\": ["
                 "{\"name\": \"g\", \"kind\": \"pipeline\", \"schedule\": \"gpipe\", "
                 "\"stages\": %zu},"
                 "{\"name\": \"f\", \"kind\": \"pipeline\", \"schedule\": \"1f1b\", "
                 "\"stages\": %zu},"
                 "\"backprop\"]}",
                 even_model(5, p), machine, (unsigned long long)steps,
                 (unsigned long long)(3 * m), p, p);
    double expected = (double)steps * (double)(m + p - 1) * (forward_s + backward_s);
    CHECK_CLOSE(s->methods[0]->result.time_s, expected, 1e-9);
    CHECK_CLOSE(s->methods[1]->result.time_s, expected, 1e-9);
    double one = s->methods[2]->result.time_s; /* all the work on one processor */
    CHECK_CLOSE(one, (double)steps * (double)(m * p) * (forward_s + backward_s), 1e-9);
    CHECK_CLOSE(s->methods[0]->result.time_s / (one / (double)p),
                (double)(m + p - 1) / (double)m, 1e-9);
    simulation_free(s);
}

static void flush_schedules(void)
{
    for (size_t p = 1; p <= 9; p++)
        for (uint64_t m = 1; m <= 16; m++)
            check_flush(p, m, 1);
    check_flush(4, 8, 3);
    check_flush(7, 3, 2);
}

/* One method of even blocks on table processors; its time. */
static double time_s(size_t processors, bool overlap, size_t blocks, uint64_t steps,
                     uint64_t micro_batches, const char *method)
{
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %llu, "
        "\"batch\": %llu, \"micro_batch\": 3, \"methods\": [%s]}",
        even_model(5, blocks),
        table_machine(processors, "full", overlap, forward_s, backward_s, free_link),
        (unsigned long long)steps, (unsigned long long)(3 * micro_batches), method);
    double time = s->methods[0]->result.time_s;
    simulation_free(s);
    return time;
}

/* Every backward is preceded by a second forward, which does not wait for the gradient:
 * in the bubble it costs nothing. */
static void recomputation(void)
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (size_t p = 1; p <= 7; p++)
        for (uint64_t m = 1; m <= 8; m++)
            for (size_t i = 0; i < 2; i++) {
                char method[256];
                snprintf(method, sizeof method,
                         "{\"kind\": \"pipeline\", \"stages\": %zu, \"schedule\": \"%s\", "
                         "\"recompute\": \"stage\"}",
                         p, schedules[i]);
                double expected =
                    (double)(m + p - 1) * (forward_s + backward_s) + (double)m * forward_s;
                CHECK_CLOSE(time_s(p, true, p, 1, m, method), expected, 1e-9);
            }
}

/* In GPipe all stages exchange in the same moments, so nobody waits for a
 * bulk-synchronous neighbour. */
static void bulk_synchronous(void)
{
    for (size_t p = 1; p <= 7; p++)
        for (uint64_t m = 1; m <= 8; m++) {
            char method[256];
            snprintf(method, sizeof method,
                     "{\"kind\": \"pipeline\", \"stages\": %zu, \"schedule\": \"gpipe\"}",
                     p);
            CHECK_CLOSE(time_s(p, false, p, 2, m, method),
                        2 * (double)(m + p - 1) * (forward_s + backward_s), 1e-9);
        }
}

/* No flush: a chunk starts when the first activations reach it and never waits again. A
 * chunk is a block and its head; the last one has two blocks instead. */
static void local_chunks(void)
{
    for (size_t p = 1; p <= 7; p++)
        for (uint64_t m = 1; m <= 5; m += 2)
            for (uint64_t steps = 1; steps <= 4; steps += 3) {
                char method[256], stages[64] = "";
                for (size_t i = 0; i + 1 < p; i++)
                    strcat(stages, "1, ");
                snprintf(method, sizeof method, "{\"kind\": \"local\", \"stages\": [%s2]}",
                         stages);
                double each = 2 * (forward_s + backward_s);
                CHECK_CLOSE(time_s(p, true, p + 1, steps, m, method),
                            (double)(p - 1) * 2 * forward_s + (double)(steps * m) * each,
                            1e-9);
            }
}

/* Models that exchange over free links take as long as one. */
static void codistilled_models(void)
{
    for (size_t n = 1; n <= 5; n++) {
        char method[256];
        double one = 6 * 2 * (forward_s + backward_s);
        snprintf(method, sizeof method, "{\"kind\": \"codistillation\", \"models\": %zu}",
                 n);
        CHECK_CLOSE(time_s(n, true, 2, 2, 3, method), one, 1e-9);
        CHECK_CLOSE(time_s(n, false, 2, 2, 3, method), one, 1e-9);
        snprintf(method, sizeof method,
                 "{\"kind\": \"codistillation\", \"models\": %zu, \"topology\": \"ring\", "
                 "\"inner\": {\"kind\": \"pipeline\", \"stages\": 2}}",
                 n);
        CHECK_CLOSE(time_s(2 * n, true, 2, 2, 3, method), 2 * (3 + 1) * one / 12, 1e-9);
    }
}

/* Stash of the stages of an MLP: every stage keeps its input and the output of each of
 * its rectifiers; the last one its logits too. */
struct stash_case {
    size_t stages, hidden_blocks_each;
    uint64_t micro_batches;
    const char *schedule;
    bool recompute;
};

static uint64_t stash_bytes(const struct stash_case *c, size_t stage, uint64_t word)
{
    const uint64_t width = 24, classes = 7, samples = 3;
    bool last = stage + 1 == c->stages;
    uint64_t input = width * samples * word;
    uint64_t rest = (c->hidden_blocks_each * width + (last ? classes : 0)) * samples * word;
    uint64_t held = c->micro_batches;
    if (strcmp(c->schedule, "1f1b") == 0 && c->stages - stage < held)
        held = c->stages - stage;
    return c->recompute ? held * input + rest : held * (input + rest);
}

static void check_stash(const struct stash_case *c, const char *format, uint64_t word)
{
    char stages[128] = "";
    for (size_t i = 0; i < c->stages; i++)
        snprintf(stages + strlen(stages), 16, "%s%zu", i > 0 ? ", " : "",
                 c->hidden_blocks_each + (i + 1 == c->stages));
    struct text_link link = {1e9, 1e-6};
    struct simulation *s = simulate(
        "{\"model\": {\"preset\": \"mlp\", \"input\": [24], \"hidden\": 24, \"classes\": "
        "7, "
        "\"depth\": %zu}, \"platform\": %s, \"numerics\": false, \"steps\": 2, \"batch\": "
        "%llu, "
        "\"micro_batch\": 3, \"precision\": \"%s\", \"methods\": [{\"kind\": \"pipeline\", "
        "\"stages\": [%s], \"schedule\": \"%s\", \"recompute\": \"%s\"}]}",
        c->stages * c->hidden_blocks_each,
        roofline_machine(c->stages, "line", true, 1 << 30, link),
        (unsigned long long)(3 * c->micro_batches), format, stages, c->schedule,
        c->recompute ? "stage" : "none");
    for (size_t stage = 0; stage < c->stages; stage++)
        CU_ASSERT_EQUAL(s->methods[0]->processors[stage].category_peak_bytes[MEMORY_STASH],
                        stash_bytes(c, stage, word));
    cJSON *summaries = simulate_summaries(s->experiment, 1);
    const cJSON *memory =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(summaries, 0), "memory");
    CU_ASSERT_EQUAL(cJSON_GetArraySize(memory), (int)c->stages);
    for (size_t stage = 0; stage < c->stages; stage++) {
        const cJSON *own = cJSON_GetArrayItem(memory, (int)stage);
        const cJSON *parts = cJSON_GetObjectItemCaseSensitive(own, "at_peak_bytes");
        uint64_t sum = 0;
        const cJSON *part;
        cJSON_ArrayForEach(part, parts) sum += (uint64_t)part->valuedouble;
        CU_ASSERT_EQUAL(summary_u64(own, "peak_bytes"), sum);
        CU_ASSERT(summary_u64(parts, "stash") <= stash_bytes(c, stage, word));
    }
    cJSON_Delete(summaries);
    simulation_free(s);
}

static void stash_peaks(void)
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (size_t p = 1; p <= 7; p++)
        for (uint64_t m = 1; m <= 9; m += 2)
            for (int i = 0; i < 4; i++) {
                struct stash_case c = {p, 1 + p % 3, m, schedules[i % 2], i >= 2};
                check_stash(&c, m % 3 == 0 ? "fp32" : "fp16", m % 3 == 0 ? 4 : 2);
            }
}

static const struct check checks[] = {
    {"GPipe and 1F1B take (m + p - 1) / m of the ideal", flush_schedules},
    {"recomputation adds a forward to every backward", recomputation},
    {"GPipe on bulk-synchronous processors", bulk_synchronous},
    {"local chunks never wait again", local_chunks},
    {"codistilled models side by side", codistilled_models},
    {"GPipe holds m micro-batches, 1F1B min(m, p - stage)", stash_peaks},
};

CHECK_MAIN("method times", checks)
