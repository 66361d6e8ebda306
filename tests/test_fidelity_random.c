/* Random machines, models and methods, in every fidelity: what is worked out instead of
 * simulated takes the same time to 1e-9, and moves and holds the same bytes. Where a
 * message comes and another is taken at the same instant, the last bit of the clock decides
 * which is first: then a peak may differ by what is in the queues, and by no more. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

#include "base/random.h"
#include "base/text.h"
#include "sim/fidelity.h"

#ifdef __SANITIZE_ADDRESS__
enum { CASES = 60 };
#else
enum { CASES = 300 };
#endif

static uint64_t drawn, current_case;

/* In [low, high]. */
static uint64_t draw(uint64_t low, uint64_t high)
{
    const struct random_key key = {.seed = current_case, .purpose = RANDOM_TEST, .a = 5};
    return low + random_u64(key, drawn++) % (high - low + 1);
}

static double draw_real(double low, double high)
{
    const struct random_key key = {.seed = current_case, .purpose = RANDOM_TEST, .a = 5};
    return low * pow(high / low, random_uniform(key, drawn++));
}

static const char *draw_word(const char *const *words, uint64_t count)
{
    return words[draw(0, count - 1)];
}

static void append_group(struct text *text, const char *name, size_t count, bool overlap)
{
    text_append(text,
                "{\"name\": \"%s\", \"count\": %zu, \"kind\": \"roofline\", "
                "\"peak_flops_per_s\": %.17g, \"memory_bytes\": 1000000000, "
                "\"memory_bandwidth_bytes_per_s\": 3e8, \"overhead_s\": %.17g, "
                "\"overlap\": %s",
                name, count, draw_real(3e8, 3e9), draw_real(1e-7, 1e-5),
                overlap ? "true" : "false");
    if (!overlap && draw(0, 1) == 0)
        text_append(text, ", \"sync_s\": %.17g", draw_real(1e-8, 1e-5));
    text_append(text, "}");
}

enum mix { OVERLAPPING, BULK_SYNCHRONOUS, MIXED };

/* Irregular figures, so that what happens at one instant does so for a reason. */
static void append_machine(struct text *text, size_t processors, enum mix mix)
{
    static const char *const topologies[] = {"\"kind\": \"line\", ", "\"kind\": \"ring\", ",
                                             "\"kind\": \"full\", ",
                                             "\"kind\": \"switch\", "};
    size_t first =
        processors > 1 && draw(0, 1) == 0 ? (size_t)draw(1, processors - 1) : processors;
    text_append(text, "{\"name\": \"m\", \"processors\": [");
    append_group(text, "a", first, mix == OVERLAPPING || (mix == MIXED && draw(0, 1) == 0));
    if (first < processors) {
        text_append(text, ", ");
        append_group(text, "b", processors - first,
                     mix == OVERLAPPING || (mix == MIXED && draw(0, 1) == 0));
    }
    text_append(text, "], \"topology\": {%s\"link\": {\"bandwidth_bytes_per_s\": ",
                draw_word(topologies, 4));
    if (draw(0, 9) == 0)
        text_append(text, "\"infinite\"");
    else
        text_append(text, "%.17g", draw_real(1e6, 1e10));
    text_append(text, ", \"latency_s\": %.17g}}}",
                draw(0, 3) == 0 ? 0 : draw_real(1e-7, 1e-4));
}

static size_t append_inner(struct text *text, size_t processors, size_t blocks)
{
    static const char *const schedules[] = {"gpipe",       "1f1b",        "grouped",
                                            "interleaved", "zero_bubble", "pipedream"};
    static const char *const recomputations[] = {"none", "stage", "blocks"};
    static const char *const granularities[] = {"chunked", "layerwise", "overlapping",
                                                "last"};
    static const char *const more[] = {"", ", \"synchronous\": true",
                                       ", \"update_every\": 1"};
    size_t most = processors < blocks ? processors : blocks;
    size_t stages = (size_t)draw(1, most);
    switch (draw(0, 4)) {
    case 0:
        text_append(text, "{\"kind\": \"backprop\"}");
        return 1;
    case 1:
        stages = stages % 2 == 0 || processors < 2 ? 2 : 4;
        text_append(text, "{\"kind\": \"tensor_parallel\", \"ranks\": %zu}", stages);
        return stages;
    case 2:
        text_append(text,
                    "{\"kind\": \"local\", \"stages\": %zu, \"queue_capacity\": %d, "
                    "\"granularity\": \"%s\"%s}",
                    stages, (int)draw(1, 4), draw_word(granularities, 4),
                    draw_word(more, 3));
        return stages;
    default:
        text_append(text,
                    "{\"kind\": \"pipeline\", \"stages\": %zu, \"schedule\": \"%s\", "
                    "\"recompute\": \"%s\"}",
                    stages, draw_word(schedules, 6), draw_word(recomputations, 3));
        return stages;
    }
}

static void append_method(struct text *text, size_t processors, size_t blocks)
{
    static const char *const algorithms[] = {
        "ring",         "multi_ring", "recursive_doubling",     "halving_doubling",
        "hierarchical", "tree",       "halving_doubling_folded"};
    static const char *const shares[] = {"",
                                         "",
                                         ", \"buckets\": 3",
                                         ", \"shard\": \"optimizer\"",
                                         ", \"shard\": \"gradients\"",
                                         ", \"average_every\": 2"};
    static const char *const exchanges[] = {
        "", "\"topology\": \"ring\", ", "\"period\": 3, ",
        "\"exchange\": \"checkpoints\", \"period\": 2, "};
    struct text inner = {0};
    size_t each = append_inner(&inner, processors, blocks);
    size_t copies = processors / each > 0 ? (size_t)draw(1, processors / each) : 1;
    uint64_t choice = draw(0, 3);
    if (choice < 2)
        text_append(text,
                    "{\"kind\": \"data_parallel\", \"replicas\": %zu, \"all_reduce\": "
                    "\"%s\"%s, \"inner\": %s}",
                    copies, draw_word(algorithms, 7), draw_word(shares, 6),
                    text_string(&inner));
    else if (choice == 2)
        text_append(text,
                    "{\"kind\": \"codistillation\", \"models\": %zu, %s\"inner\": %s}",
                    copies, draw_word(exchanges, 4), text_string(&inner));
    else
        text_append(text, "%s", text_string(&inner));
    text_free(&inner);
}

/* Uneven stages, mixed processors: ranks come to their collectives at different times. */
static void append_experiment(struct text *text, enum mix mix)
{
    static const uint64_t counts[] = {60, 12, 4, 1};
    size_t processors = (size_t)draw(1, 8), blocks = (size_t)draw(1, 9);
    uint64_t micro_batch = draw(1, 5), micro_batches = counts[draw(0, 3)];
    text_append(text,
                "{\"model\": {\"preset\": \"mlp\", \"input\": [9], \"hidden\": %d, "
                "\"depth\": %zu, \"classes\": 5}, \"numerics\": false, \"steps\": %d, "
                "\"batch\": %llu, \"micro_batch\": %llu, \"methods\": [",
                4 * (int)draw(1, 12), blocks - 1, (int)draw(1, 4),
                (unsigned long long)(micro_batches * micro_batch),
                (unsigned long long)micro_batch);
    append_method(text, processors, blocks);
    text_append(text, "], \"platform\": ");
    append_machine(text, processors, mix);
}

struct tally {
    size_t ties; /* peaks that differ */
    size_t refused, compared, with_closed, closed_allowed, closed_refused, worked_out;
};

/* What its queues can hold, and its links to it. */
static uint64_t queue_bytes(const struct plan *plan, uint32_t processor)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->edge_count; i++)
        if (plan->edges[i].to_processor == processor ||
            plan->edges[i].from_processor == processor)
            bytes += plan->edges[i].capacity * plan->edges[i].message_bytes;
    return bytes;
}

static void check_memory(const struct simulated *a, const struct simulated *full,
                         const struct plan *plan, struct tally *tally)
{
    CU_ASSERT_FATAL(a->processor_count == full->processor_count);
    for (uint32_t i = 0; i < a->processor_count; i++) {
        const struct trace_processor_total *x = &a->processors[i],
                                           *y = &full->processors[i];
        uint64_t apart = x->peak_bytes > y->peak_bytes ? x->peak_bytes - y->peak_bytes
                                                       : y->peak_bytes - x->peak_bytes;
        CU_ASSERT_EQUAL(x->flops, y->flops);
        CU_ASSERT_EQUAL(x->final_bytes, 0);
        CU_ASSERT_EQUAL(y->final_bytes, 0);
        for (int c = 0; c < MEMORY_CATEGORIES; c++)
            CU_ASSERT(c == MEMORY_QUEUE || c == MEMORY_STASH ||
                      x->category_peak_bytes[c] == y->category_peak_bytes[c]);
        CU_ASSERT(apart <= queue_bytes(plan, i));
        tally->ties += apart > 0;
    }
}

static void check_same(const struct simulated *a, const struct simulated *full,
                       const struct plan *plan, struct tally *tally)
{
    CHECK_CLOSE(a->result.time_s, full->result.time_s, 1e-9);
    CU_ASSERT_EQUAL(a->bytes, full->bytes);
    CU_ASSERT_EQUAL(a->messages, full->messages);
    CU_ASSERT_FATAL(a->edge_count == full->edge_count);
    for (size_t i = 0; i < a->edge_count; i++) {
        CU_ASSERT_EQUAL(a->edges[i].bytes, full->edges[i].bytes);
        CU_ASSERT_EQUAL(a->edges[i].messages, full->edges[i].messages);
    }
    check_memory(a, full, plan, tally);
}

static struct simulation *simulate_as(const struct text *text, const char *fidelity)
{
    return simulate("%s, \"fidelity\": \"%s\"}", text_string(text), fidelity);
}

/* Does any collective's link serve anybody else? Names one in the refusal. */
static bool closed_form_allowed(const struct experiment *e, struct error *error)
{
    struct fidelity_map map;
    bool allowed =
        fidelity_map_make(e->plans[0], e->platform, FIDELITY_CLOSED_FORM, &map, error);
    fidelity_map_free(&map);
    return allowed;
}

static bool names_a_link(const struct experiment *e, const char *message)
{
    for (size_t i = 0; i < platform_link_count(e->platform); i++)
        if (strstr(message, platform_link(e->platform, i)->name) != NULL)
            return true;
    return false;
}

static void check_closed_form(const struct text *text, const struct simulation *full,
                              struct tally *tally)
{
    struct error error = {0};
    if (!closed_form_allowed(full->experiment, &error)) {
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        CU_ASSERT(names_a_link(full->experiment, error.message));
        tally->closed_refused++;
        return;
    }
    struct simulation *closed = simulate_as(text, "closed_form");
    check_same(closed->methods[0], full->methods[0], full->experiment->plans[0], tally);
    CU_ASSERT_EQUAL(closed->methods[0]->result.collectives_alone,
                    full->experiment->plans[0]->collective_count);
    tally->with_closed += full->experiment->plans[0]->collective_count > 0;
    tally->closed_allowed++;
    simulation_free(closed);
}

static bool refused(const struct text *text)
{
    struct error error;
    struct text whole = {0};
    text_append(&whole, "%s}", text_string(text));
    struct experiment *e = read_experiment(text_string(&whole), &error);
    if (e == NULL)
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    experiment_free(e);
    text_free(&whole);
    return e == NULL;
}

static void check_case(enum mix mix, struct tally *tally)
{
    struct text text = {0};
    unsigned failures = CU_get_number_of_failures();
    drawn = 0;
    append_experiment(&text, mix);
    if (refused(&text)) {
        tally->refused++;
        text_free(&text);
        return;
    }
    struct simulation *full = simulate_as(&text, "message");
    struct simulation *quick = simulate_as(&text, "auto");
    check_same(quick->methods[0], full->methods[0], full->experiment->plans[0], tally);
    CU_ASSERT_EQUAL(full->methods[0]->result.edges_alone, 0);
    CU_ASSERT_EQUAL(full->methods[0]->result.simulated_steps, full->experiment->steps);
    tally->worked_out += quick->methods[0]->result.edges_alone > 0;
    tally->compared++;
    check_closed_form(&text, full, tally);
    if (CU_get_number_of_failures() > failures)
        printf("\n  case %llu: %.17g s, auto %.17g s: %s}\n",
               (unsigned long long)current_case, full->methods[0]->result.time_s,
               quick->methods[0]->result.time_s, text_string(&text));
    simulation_free(full);
    simulation_free(quick);
    text_free(&text);
}

static void check_cases(enum mix mix, uint64_t first)
{
    struct tally tally = {0};
    for (current_case = first; current_case < first + CASES; current_case++)
        check_case(mix, &tally);
    printf(
        " (%zu compared, %zu with messages worked out, closed_form: %zu, %zu of these with "
        "collectives, %zu refused; %zu peaks differ) ",
        tally.compared, tally.worked_out, tally.closed_allowed, tally.with_closed,
        tally.closed_refused, tally.ties);
    CU_ASSERT(tally.ties <= CASES / 10);
    CU_ASSERT(tally.compared > CASES / 3);
    CU_ASSERT(tally.worked_out > CASES / 6);
    CU_ASSERT(tally.with_closed > CASES / 30);
    CU_ASSERT(tally.closed_refused > CASES / 30);
}

static void overlapping(void)
{
    check_cases(OVERLAPPING, 0);
}

static void bulk_synchronous(void)
{
    check_cases(BULK_SYNCHRONOUS, 10000);
}

static void mixed(void)
{
    check_cases(MIXED, 20000);
}

static const struct check checks[] = {
    {"all fidelities, overlapping processors", overlapping},
    {"all fidelities, bulk-synchronous processors", bulk_synchronous},
    {"all fidelities, mixed processors", mixed},
};

CHECK_MAIN("random fidelities", checks)
