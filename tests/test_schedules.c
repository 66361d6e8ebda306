/* Times, stashes and refusals of the pipeline schedules against their closed forms, on
 * machines whose links cost nothing. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

/* A forward, and the two halves of a backward, of one stage; a measured zero is 1e-30. */
struct seconds {
    double forward, input, weight;
};
static const struct seconds uneven = {1.5, 2.25, 0.75}, unit = {1, 1, 1};

static double whole(struct seconds s)
{
    return s.forward + s.input + s.weight;
}

/* A block is a linear layer and a rectifier. The first one's backward has no input
 * gradient, so that the rectifier's stands for it: every stage takes the same time. */
static const char *machine(size_t processors, bool overlap, struct seconds s)
{
    char *text = machine_buffer();
    snprintf(text, 16384,
             "{\"name\": \"measured\", \"processors\": {\"name\": \"p\", \"count\": %zu, "
             "\"kind\": \"table\", \"memory_bytes\": 9007199254740992, \"overlap\": %s, "
             "\"kinds\": {\"linear\": {\"forward\": %.17g, \"backward\": %.17g, "
             "\"backward_input\": 1e-30, \"backward_weight\": %.17g}, "
             "\"relu\": {\"forward\": 1e-30, \"backward\": %.17g, \"backward_input\": %.17g},"
             "\"loss\": {\"loss\": 1e-30}, \"update\": {\"update\": 1e-30}}}, "
             "\"topology\": {\"kind\": \"full\", \"link\": {\"bandwidth_bytes_per_s\": "
             "\"infinite\", \"latency_s\": 0}}}",
             processors, overlap ? "true" : "false", s.forward, s.weight, s.weight, s.input,
             s.input);
    return text;
}

enum { WIDTH = 6, WORD = 4, SAMPLES = 3 };
static const uint64_t value_bytes = (uint64_t)WIDTH * SAMPLES * WORD;

/* `each` pairs of linear layer and rectifier a block. */
static const char *blocks(size_t count, size_t each)
{
    char *text = machine_buffer();
    size_t used = (size_t)snprintf(text, 128, "{\"input\": [%d], \"blocks\": [", WIDTH);
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, 64, "%s{\"name\": \"b%zu\", \"layers\": [",
                                 i > 0 ? ", " : "", i);
        for (size_t k = 0; k < each; k++)
            used += (size_t)snprintf(text + used, 128,
                                     "%s{\"kind\": \"linear\", \"out\": %d}, {\"kind\": "
                                     "\"relu\"}",
                                     k > 0 ? ", " : "", WIDTH);
        used += (size_t)snprintf(text + used, 16, "]}");
    }
    snprintf(text + used, 8, "]}");
    return text;
}

struct run {
    size_t processors, block_count, pairs; /* linear layers and rectifiers of a block */
    uint64_t micro_batches, steps;
    bool overlap;
    struct seconds seconds;
};

static struct simulation *simulate_run(const struct run *run, const char *methods)
{
    return simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %llu, "
                    "\"batch\": %llu, \"micro_batch\": %d, \"precision\": \"fp32\", "
                    "\"methods\": [%s]}",
                    blocks(run->block_count, run->pairs > 0 ? run->pairs : 1),
                    machine(run->processors, run->overlap, run->seconds),
                    (unsigned long long)run->steps,
                    (unsigned long long)(run->micro_batches * SAMPLES), SAMPLES, methods);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t stash_peak(const struct simulated *s, size_t processor)
{
    return s->processors[processor].category_peak_bytes[MEMORY_STASH];
}

/* A stage of one block keeps its input and its rectifier's output; the last stage its
 * logits too. */
static uint64_t held_bytes(uint64_t held, bool last)
{
    return held * value_bytes * (last ? 3 : 2);
}

enum { GPIPE, ONE_EACH, GROUPED, ZERO_BUBBLE, PIPEDREAM, CHAINS };
static const char *const chain_names[CHAINS] = {"gpipe", "1f1b", "grouped", "zero_bubble",
                                                "pipedream"};

/* Micro-batches that stage r of p holds. */
static uint64_t chain_held(int schedule, uint64_t p, uint64_t r, uint64_t m)
{
    switch (schedule) {
    case GPIPE:
        return m;
    case ONE_EACH:
        return least(m, p - r);
    case GROUPED:
        return least(m, 2 * (p - 1 - r) + 1);
    case ZERO_BUBBLE:
        return least(m, p);
    default:
        return p - r;
    }
}

static double chain_time_s(int schedule, uint64_t p, uint64_t m, uint64_t steps,
                           struct seconds s)
{
    if (schedule == PIPEDREAM) /* one ramp for all steps */
        return (double)(steps * m + p - 1) * whole(s);
    if (schedule == ZERO_BUBBLE) /* of equal thirds; with less than p a longer ramp */
        return (double)steps * ((double)m * whole(s) + (double)(p - 1 + beyond(p, m)) * s.forward);
    return (double)steps * (double)(m + p - 1) * whole(s);
}

/* Between the halves of backward, ZB-H1 keeps the gradient of the linear layer's output
 * of the micro-batches that it is late with, and of the one at hand. */
static uint64_t late_bytes(int schedule, uint64_t r, uint64_t m)
{
    return schedule == ZERO_BUBBLE ? least(m, r + 1) * value_bytes : 0;
}

static void check_chains(uint64_t p, uint64_t m, struct seconds seconds, int first)
{
    char methods[2048] = "";
    const struct run run = {p, p, 1, m, first == PIPEDREAM ? p + 3 : 1, true, seconds};
    for (int k = first; k < CHAINS; k++)
        snprintf(methods + strlen(methods), 256,
                 "%s{\"name\": \"%s\", \"kind\": \"pipeline\", \"stages\": %d, "
                 "\"schedule\": \"%s\"}",
                 k > first ? ", " : "", chain_names[k], (int)p, chain_names[k]);
    struct simulation *s = simulate_run(&run, methods);
    for (size_t i = 0; i < s->count; i++) {
        int k = first + (int)i;
        if (first != PIPEDREAM && k == PIPEDREAM)
            continue; /* a run of one step does not fill it */
        if (k != ZERO_BUBBLE || seconds.input == seconds.forward)
            CHECK_CLOSE(s->methods[i]->result.time_s, chain_time_s(k, p, m, run.steps, seconds),
                        1e-9);
        for (uint64_t r = 0; r < p; r++) {
            uint64_t held = chain_held(k, p, r, m);
            CU_ASSERT_EQUAL(s->experiment->plans[i]->parts[r].slots, held);
            CU_ASSERT_EQUAL(stash_peak(s->methods[i], r),
                            held_bytes(held, r + 1 == p) + late_bytes(k, r, m));
        }
    }
    simulation_free(s);
}

/* Bubbles: (p - 1) / (m + p - 1) of the step; ZB-H1 (p - 1) / 3 slots. */
static void one_stage_each(void)
{
    for (uint64_t p = 1; p <= 9; p++)
        for (uint64_t m = 1; m <= 16; m++)
            check_chains(p, m, unit, GPIPE);
    for (uint64_t p = 1; p <= 9; p += 2)
        for (uint64_t m = 1; m <= 16; m += 3)
            check_chains(p, m, uneven, GPIPE);
}

/* No flush; one more version of the weights for every m micro-batches under way. */
static void no_flush(void)
{
    for (uint64_t p = 1; p <= 9; p++)
        for (uint64_t m = 1; m <= 16; m += p % 2 + 1) {
            check_chains(p, m, uneven, PIPEDREAM);
            const struct run run = {p, p, 1, m, 2, true, unit};
            char method[128];
            snprintf(method, sizeof method,
                     "{\"kind\": \"pipeline\", \"schedule\": \"pipedream\", \"stages\": %d}",
                     (int)p);
            struct simulation *s = simulate_run(&run, method);
            for (uint64_t r = 0; r < p; r++) {
                uint64_t versions = 1 + (p - 1 - r + m - 1) / m;
                CU_ASSERT_EQUAL(
                    s->methods[0]->processors[r].category_peak_bytes[MEMORY_WEIGHTS],
                    versions * (WIDTH * WIDTH + WIDTH) * WORD);
            }
            simulation_free(s);
        }
}

/* The program of a processor of the lock-step schedule, between two barriers: at most one
 * backward, then at most one forward. */
static void check_slots(const struct plan *plan, const struct stream *stream, uint64_t m,
                        uint64_t p)
{
    uint64_t slots = 0, forwards = 0, backwards = 0, forward_here = 0, backward_here = 0;
    for (size_t i = 0; i < stream->body.count; i++) {
        enum operation operation = stream->body.instructions[i].operation;
        if (operation == OP_BACKWARD) {
            CU_ASSERT(forward_here == 0);
            CU_ASSERT(backward_here++ == 0);
        }
        forward_here += operation == OP_FORWARD;
        CU_ASSERT(forward_here <= 1);
        if (operation != OP_BARRIER)
            continue;
        slots++;
        forwards += forward_here;
        backwards += backward_here;
        forward_here = backward_here = 0;
    }
    CU_ASSERT_EQUAL(slots, m + 2 * p - 1);
    CU_ASSERT_EQUAL(forwards, m);
    CU_ASSERT_EQUAL(backwards, m);
    CHECK_CLOSE((double)forwards / (double)slots, (double)m / (double)(m + 2 * p - 1), 1e-15);
    CU_ASSERT_EQUAL(plan->barriers[0].members, p);
}

/* Also where a processor cannot compute and exchange at once; the slots at the ramps have
 * forwards or backwards alone, and are that much shorter. */
static void lock_step(void)
{
    for (uint64_t p = 1; p <= 9; p++)
        for (uint64_t m = 1; m <= 16; m += 3) {
            const struct run run = {p, p, 1, m, 2, false, uneven};
            char method[128];
            snprintf(method, sizeof method,
                     "{\"kind\": \"pipeline\", \"schedule\": \"grouped\", \"stages\": %d}",
                     (int)p);
            struct simulation *s = simulate_run(&run, method);
            const struct plan *plan = s->experiment->plans[0];
            for (size_t i = 0; i < plan->stream_count; i++)
                check_slots(plan, &plan->streams[i], m, p);
            CHECK_CLOSE(s->methods[0]->result.time_s,
                        2 * (double)(m + p - 1) * whole(uneven), 1e-9);
            simulation_free(s);
        }
}

/* Stages that a processor of the interleaved schedule holds at its peak, where Narayanan
 * et al. define it. */
static uint64_t interleaved_held(uint64_t p, uint64_t v, uint64_t r, uint64_t m)
{
    return least(v * m, 2 * (p - 1 - r) + (v - 1) * p + 1);
}

static void check_interleaved(uint64_t p, uint64_t v, uint64_t m)
{
    const struct run run = {p, p * v, 1, m, 1, true, uneven};
    char method[160];
    snprintf(method, sizeof method,
             "{\"kind\": \"pipeline\", \"schedule\": \"interleaved\", \"stages\": %d, "
             "\"virtual\": %d}",
             (int)p, (int)v);
    struct simulation *s = simulate_run(&run, method);
    double stages = (double)(v * m + p - 1 + (v - 1) * beyond(p, m));
    double time_s = s->methods[0]->result.time_s;
    CHECK_CLOSE(time_s, stages * whole(uneven), 1e-9);
    double ideal_s = (double)(v * m) * whole(uneven);
    if (m % p == 0) {
        CU_ASSERT_DOUBLE_EQUAL((time_s - ideal_s) / ideal_s,
                               (double)(p - 1) / (double)(v * m), 1e-9);
        for (uint64_t r = 0; r < p; r++)
            CU_ASSERT_EQUAL(stash_peak(s->methods[0], r),
                            held_bytes(interleaved_held(p, v, r, m), false) +
                                (r + 1 == p ? value_bytes : 0));
    }
    const struct plan *plan = s->experiment->plans[0];
    for (size_t i = 0; i < plan->part_count; i++)
        CU_ASSERT_EQUAL(plan->parts[i].processor, i % p);
    uint64_t crossing = p == 1 ? 0 : 2 * (p * v - 1) * m * value_bytes;
    CU_ASSERT_EQUAL(s->methods[0]->bytes, crossing);
    simulation_free(s);
}

static void virtual_stages(void)
{
    for (uint64_t p = 1; p <= 9; p++)
        for (uint64_t m = 1; m <= 16; m++)
            check_interleaved(p, 2 + (p + m) % 2, m);
    check_interleaved(4, 2, 16);
    check_interleaved(4, 3, 16);
    check_interleaved(4, 4, 16);
    check_interleaved(3, 5, 7);
}

/* Compiles for all sizes, with the shortest queues; every program is run by plan_check. */
static void all_sizes(void)
{
    char methods[1024] = "";
    for (int k = 0; k < CHAINS; k++)
        snprintf(methods + strlen(methods), 160,
                 "%s{\"name\": \"%s\", \"kind\": \"pipeline\", \"stages\": %%1$d, "
                 "\"schedule\": \"%s\", \"queue_capacity\": 1}",
                 k > 0 ? ", " : "", chain_names[k], chain_names[k]);
    strcat(methods, ", {\"name\": \"i2\", \"kind\": \"pipeline\", \"stages\": %1$d, "
                    "\"schedule\": \"interleaved\"}"
                    ", {\"name\": \"i3\", \"kind\": \"pipeline\", \"stages\": %1$d, "
                    "\"schedule\": \"interleaved\", \"virtual\": 3}");
    for (int p = 1; p <= 9; p++)
        for (int m = 1; m <= 16; m++) {
            char list[2048], text[32768];
            struct error error;
            for (size_t i = 0, k = 0;; i++) { /* every %1$d becomes p */
                if (strncmp(methods + i, "%1$d", 4) == 0) {
                    list[k++] = (char)('0' + p);
                    i += 3;
                } else if ((list[k++] = methods[i]) == '\0')
                    break;
            }
            snprintf(text, sizeof text,
                     "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 1, "
                     "\"batch\": %d, \"micro_batch\": 1, \"methods\": [%s]}",
                     blocks((size_t)p * 3, 1), machine((size_t)p, true, unit), m, list);
            struct experiment *e = read_experiment(text, &error);
            CU_ASSERT_PTR_NOT_NULL(e);
            if (e == NULL)
                printf("\n  p %d, m %d: %s\n", p, m, error.message);
            else
                CU_ASSERT_EQUAL(e->method_count, CHAINS + 2);
            experiment_free(e);
        }
}

/* A stage of k blocks of two pairs: it keeps its input; block by block also what goes on
 * from block to block; and, of what runs again, all, or one block: the output of the
 * first pair, in the last block of the second too, and the logits. */
static uint64_t recomputed_bytes(const char *how, uint64_t held, uint64_t k, bool last)
{
    uint64_t logits = last ? 1 : 0;
    if (strcmp(how, "stage") == 0)
        return (held + 2 * k + logits) * value_bytes;
    if (strcmp(how, "blocks") == 0)
        return (held * k + 2 + logits) * value_bytes;
    return held * (1 + 2 * k + logits) * value_bytes;
}

static const char *const recomputes[] = {"none", "stage", "blocks"};

/* What runs again before the gradient is there, the whole stage or its last block, does
 * not lengthen the ramp down. */
static double recomputed_s(size_t how, uint64_t p, uint64_t m, uint64_t k)
{
    double pair = whole(uneven), again = uneven.forward;
    double ahead = how == 0 ? 0 : how == 1 ? (double)k : 1;
    double behind = how == 2 ? (double)k - 1 : 0;
    return 2 * ((double)(m + p - 1) * ((double)k * pair + behind * again) +
                (double)m * ahead * again);
}

/* One way for all stages, or stage i in the way how + i. */
static void check_recompute(size_t p, uint64_t m, size_t k, int schedule, size_t how,
                            bool list)
{
    const struct run run = {p, p * k, 2, m, 1, true, uneven};
    char methods[512], ways[128], stages[128] = "";
    snprintf(ways, sizeof ways, list ? "[" : "\"%s\"", recomputes[how]);
    for (size_t i = 0; i < p; i++) {
        if (list)
            snprintf(ways + strlen(ways), 16, "%s\"%s\"", i > 0 ? ", " : "",
                     recomputes[(how + i) % 3]);
        snprintf(stages + strlen(stages), 16, "%s%zu", i > 0 ? ", " : "", k);
    }
    snprintf(methods, sizeof methods,
             "{\"kind\": \"pipeline\", \"schedule\": \"%s\", \"stages\": [%s], "
             "\"recompute\": %s%s}",
             chain_names[schedule], stages, ways, list ? "]" : "");
    struct simulation *s = simulate_run(&run, methods);
    if (!list)
        CHECK_CLOSE(s->methods[0]->result.time_s, recomputed_s(how, p, m, k), 1e-9);
    for (size_t r = 0; r < p; r++)
        CU_ASSERT_EQUAL(stash_peak(s->methods[0], r),
                        recomputed_bytes(recomputes[list ? (how + r) % 3 : how],
                                         chain_held(schedule, p, r, m), k, r + 1 == p));
    simulation_free(s);
}

static void recomputation(void)
{
    for (size_t p = 1; p <= 5; p++)
        for (uint64_t m = 1; m <= 7; m += 2)
            for (size_t how = 0; how < 3; how++) {
                check_recompute(p, m, 1 + m % 3, m % 2 == 0 ? GPIPE : ONE_EACH, how, false);
                check_recompute(p, m, 3, GPIPE, how, false);
                check_recompute(p, m, 2, ONE_EACH, how, true);
            }
}

/* Blocks of three pairs and of one: while the first one goes back, the input, what went on
 * from it to the second, the logits, and the outputs of its first two pairs are held. What
 * went on is not counted again. */
static void uneven_blocks(void)
{
    struct simulation *s = simulate(
        "{\"model\": {\"input\": [6], \"blocks\": [{\"name\": \"a\", \"layers\": ["
        "{\"kind\": \"linear\", \"out\": 6}, {\"kind\": \"relu\"}, "
        "{\"kind\": \"linear\", \"out\": 6}, {\"kind\": \"relu\"}, "
        "{\"kind\": \"linear\", \"out\": 6}, {\"kind\": \"relu\"}]}, "
        "{\"name\": \"b\", \"layers\": [{\"kind\": \"linear\", \"out\": 6}, {\"kind\": "
        "\"relu\"}]}]}, \"platform\": %s, \"numerics\": false, \"steps\": 1, \"batch\": 9, "
        "\"micro_batch\": 3, \"precision\": \"fp32\", \"methods\": [{\"kind\": "
        "\"pipeline\", \"schedule\": \"gpipe\", \"stages\": 1, \"recompute\": \"blocks\"}]}",
        machine(1, true, unit));
    CU_ASSERT_EQUAL(stash_peak(s->methods[0], 0), (3 * 2 + 1 + 2) * value_bytes);
    simulation_free(s);
}

/* A second forward of a table may have seconds of its own. */
static void measured_recompute(void)
{
    struct simulation *s = simulate(
        "{\"model\": %s, \"numerics\": false, \"steps\": 1, \"batch\": 4, \"micro_batch\": 2, "
        "\"platform\": {\"name\": \"m\", \"processors\": {\"name\": \"p\", \"count\": 1, "
        "\"kind\": \"table\", \"memory_bytes\": 1000000, \"kinds\": {\"linear\": "
        "{\"forward\": 1, \"recompute\": 0.25, \"backward\": 2}, \"loss\": {\"loss\": 1e-30}, "
        "\"update\": {\"update\": 1e-30}}}, \"topology\": {\"kind\": \"full\", \"link\": "
        "{\"bandwidth_bytes_per_s\": 1, \"latency_s\": 0}}}, \"methods\": ["
        "{\"name\": \"a\", \"kind\": \"backprop\", \"recompute\": \"stage\"}, "
        "{\"name\": \"b\", \"kind\": \"backprop\", \"recompute\": \"blocks\"}, "
        "{\"name\": \"c\", \"kind\": \"backprop\", \"recompute\": [\"none\"]}]}",
        even_model(5, 3));
    CHECK_CLOSE(s->methods[0]->result.time_s, 2 * 3 * 3.25, 1e-12);
    CHECK_CLOSE(s->methods[1]->result.time_s, 2 * 3 * 3.25, 1e-12);
    CHECK_CLOSE(s->methods[2]->result.time_s, 2 * 3 * 3.0, 1e-12);
    simulation_free(s);
}

static void check_refused(const char *method, const char *because)
{
    char text[16384];
    struct error error;
    snprintf(text, sizeof text,
             "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"batch\": 5, "
             "\"micro_batch\": 1, \"methods\": [{\"kind\": \"pipeline\", %s}]}",
             blocks(6, 1), machine(8, true, unit), method);
    struct experiment *e = read_experiment(text, &error);
    CU_ASSERT_PTR_NULL(e);
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, because));
    if (e == NULL && strstr(error.message, because) == NULL)
        printf("\n  %s\n", error.message);
    experiment_free(e);
}

static void refusals(void)
{
    check_refused("\"schedule\": \"1f2b\"", "1f1b");
    check_refused("\"virtual\": 2", "schedule \"1f1b\" has no virtual stages");
    check_refused("\"schedule\": \"interleaved\", \"virtual\": 1", "virtual");
    check_refused("\"schedule\": \"interleaved\", \"virtual\": 3000, \"stages\": 2",
                  "6000 stages");
    check_refused("\"schedule\": \"interleaved\", \"stages\": 4", "8 stages");
    check_refused("\"schedule\": \"interleaved\", \"stages\": [2, 2, 2]", "no multiple");
    check_refused("\"schedule\": \"interleaved\", \"stages\": [6], \"virtual\": 2",
                  "no multiple");
    check_refused("\"stages\": 2, \"recompute\": [\"none\"]", "recompute: has 1 entries");
    check_refused("\"stages\": 2, \"recompute\": [\"none\", \"all\"]", "recompute[1]");
    check_refused("\"stages\": 2, \"recompute\": []", "recompute: has 0 entries");
    check_refused("\"stages\": 2, \"recompute\": 7", "recompute");
    check_refused("\"schedule\": \"zero_bubble\", \"recompute\": \"blocks\"", "zero_bubble");
    check_refused("\"schedule\": \"zero_bubble\", \"stages\": 2, "
                  "\"recompute\": [\"none\", \"blocks\"]",
                  "zero_bubble");
    check_refused("\"queue_capacity\": 0", "queue_capacity");
    /* Groups of three and two micro-batches through a queue of one. */
    check_refused("\"schedule\": \"interleaved\", \"stages\": 2, \"queue_capacity\": 1",
                  "cannot finish");
}

static const struct check checks[] = {
    {"GPipe, 1F1B, grouped and ZB-H1: bubbles and stashes", one_stage_each},
    {"PipeDream: one ramp, weight versions", no_flush},
    {"grouped: m + 2p - 1 slots, bulk-synchronous too", lock_step},
    {"interleaved: bubble (p - 1) / (v m), stash", virtual_stages},
    {"every size compiles, with queues of one message", all_sizes},
    {"recomputation: an extra forward, its stash, a list", recomputation},
    {"recomputation of uneven blocks", uneven_blocks},
    {"recomputation in measured seconds", measured_recompute},
    {"refusals", refusals},
};

CHECK_MAIN("schedules", checks)
