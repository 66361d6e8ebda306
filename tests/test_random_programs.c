/* Random machines, models and methods: what must hold for any of them. */
#include "tests/machine_text.h"
#include "tests/simulate.h"
#include "tests/timing_oracle.h"

#include "base/random.h"

#ifdef __SANITIZE_ADDRESS__
enum { CASES = 60 };
#else
enum { CASES = 300 };
#endif

static uint64_t drawn, current_case;

/* In [low, high]. */
static uint64_t draw(uint64_t low, uint64_t high)
{
    const struct random_key key = {.seed = current_case, .purpose = RANDOM_TEST};
    return low + random_u64(key, drawn++) % (high - low + 1);
}

static double draw_real(double low, double high)
{
    const struct random_key key = {.seed = current_case, .purpose = RANDOM_TEST};
    return low * pow(high / low, random_uniform(key, drawn++));
}

static const char *draw_machine(size_t processors)
{
    static const char *const topologies[] = {"line", "ring", "full"};
    struct text_link link = {draw_real(1e5, 1e10),
                             draw(0, 2) == 0 ? 0 : draw_real(1e-7, 1e-4)};
    if (draw(0, 9) == 0)
        link.bandwidth_bytes_per_s = INFINITY;
    return roofline_machine(processors, topologies[draw(0, 2)], draw(0, 1) == 1,
                            draw(0, 3) == 0 ? draw(2000, 40000) : 1 << 30, link);
}

static const char *draw_word(const char *const *words, uint64_t count)
{
    return words[draw(0, count - 1)];
}

static void draw_pipeline(char text[256], size_t stages)
{
    static const char *const schedules[] = {"gpipe",       "1f1b",      "grouped",
                                            "interleaved", "pipedream", "zero_bubble"};
    static const char *const recomputations[] = {"none", "stage", "blocks"};
    snprintf(
        text, 256,
        "{\"kind\": \"pipeline\", \"stages\": %zu, \"schedule\": \"%s\", \"recompute\": "
        "\"%s\"%s}",
        stages, draw_word(schedules, draw(0, 1) == 0 ? 2 : 6), draw_word(recomputations, 3),
        draw(0, 1) == 0 ? "" : ", \"queue_capacity\": 4");
}

static void draw_local(char text[256], size_t stages)
{
    static const char *const granularities[] = {"chunked", "layerwise", "overlapping",
                                                "last"};
    static const char *const more[] = {"", ", \"synchronous\": true",
                                       ", \"update_every\": 1"};
    snprintf(text, 256,
             "{\"kind\": \"local\", \"stages\": %zu, \"queue_capacity\": %d, "
             "\"granularity\": \"%s\"%s}",
             stages, (int)draw(1, 4), draw_word(granularities, draw(0, 1) == 0 ? 1 : 4),
             draw_word(more, 3));
}

static size_t draw_chain(char text[256], size_t processors, size_t blocks)
{
    size_t most = processors < blocks ? processors : blocks;
    size_t stages = (size_t)draw(1, most);
    switch (draw(0, 2)) {
    case 0:
        snprintf(text, 256, "{\"kind\": \"backprop\", \"recompute\": \"%s\"}",
                 draw(0, 1) == 0 ? "none" : "stage");
        return 1;
    case 1:
        draw_pipeline(text, stages);
        return stages;
    default:
        draw_local(text, stages);
        return stages;
    }
}

/* Every stage on several processors; pairs of layers become one block. */
static size_t draw_inner(char text[512], size_t processors, size_t blocks, size_t *ranks)
{
    char chain[256];
    *ranks = blocks > 1 && draw(0, 2) == 0
                 ? (size_t)draw(1, processors < 4 ? processors : 4)
                 : 1;
    if (*ranks > 1)
        blocks = (blocks + 1) / 2;
    size_t each = draw_chain(chain, processors / *ranks, blocks);
    snprintf(text, 512, "%s", chain);
    if (*ranks > 1)
        snprintf(text, 512,
                 "{\"kind\": \"tensor_parallel\", \"ranks\": %zu, \"all_reduce\": \"%s\", "
                 "\"inner\": %s}",
                 *ranks, draw(0, 1) == 0 ? "ring" : "recursive_doubling", chain);
    return each * *ranks;
}

static size_t draw_method(char text[1024], size_t processors, size_t blocks)
{
    static const char *const exchanges[] = {
        "", "\"topology\": \"ring\", ", "\"exchange\": \"checkpoints\", \"period\": 2, "};
    static const char *const algorithms[] = {"ring", "tree", "recursive_doubling",
                                             "halving_doubling", "hierarchical"};
    static const char *const shares[] = {
        "", ", \"buckets\": 2", ", \"shard\": \"optimizer\"",
        ", \"shard\": \"gradients\", \"buckets\": 3", ", \"average_every\": 2"};
    char inner[512];
    size_t ranks, each = draw_inner(inner, processors, blocks, &ranks);
    size_t copies = (size_t)draw(1, processors / each);
    uint64_t choice = draw(0, 3);
    if (choice == 0)
        snprintf(text, 1024,
                 "{\"kind\": \"codistillation\", \"models\": %zu, %s\"alpha\": 0.5, "
                 "\"queue_capacity\": %d, \"inner\": %s}",
                 copies, draw_word(exchanges, 3), (int)draw(1, 3), inner);
    else if (choice == 1)
        snprintf(
            text, 1024,
            "{\"kind\": \"data_parallel\", \"replicas\": %zu, \"all_reduce\": \"%s\"%s, "
            "\"inner\": %s}",
            copies, draw_word(algorithms, draw(0, 1) == 0 ? 1 : 5), draw_word(shares, 5),
            inner);
    else
        snprintf(text, 1024, "%s", inner);
    return ranks;
}

static char *draw_experiment(bool numerics, uint64_t most_steps)
{
    static const char *const formats[] = {"fp32", "fp16", "bf16", "fp8"};
    char method[1024], *text = NULL;
    size_t processors = (size_t)draw(1, 7), blocks = (size_t)draw(1, 8);
    uint64_t micro_batch = draw(1, 5);
    static const uint64_t counts[] = {60, 12, 2, 1}; /* 12 has no share for 5 and 7 */
    uint64_t micro_batches = counts[most_steps > 3 ? draw(1, 3) : draw(0, 1)];
    size_t ranks = draw_method(method, processors, blocks);
    CU_ASSERT_FATAL(
        asprintf(
            &text,
            "{\"model\": {\"preset\": \"mlp\", \"input\": [9], \"hidden\": %zu, "
            "\"depth\": %zu, \"classes\": 5}, \"data\": {\"kind\": \"synthetic\", "
            "\"features\": 9, \"classes\": 5, \"train_samples\": 30, "
            "\"test_samples\": 10}, "
            "\"platform\": %s, \"numerics\": %s, \"fidelity\": \"message\", \"steps\": %d, "
            "\"batch\": %llu, \"micro_batch\": %llu, \"precision\": \"%s\", "
            "\"methods\": [%s]}",
            (size_t)draw(1, 40) * ranks, blocks - 1, draw_machine(processors),
            numerics ? "true" : "false", (int)draw(1, most_steps),
            (unsigned long long)(micro_batches * micro_batch),
            (unsigned long long)micro_batch, formats[draw(0, 3)], method) >= 0);
    return text;
}

/* Inside the run; told when it ends (the layers of one instruction together, at its end);
 * sums of memory that are sums; everything freed at the end. */
static void check_stream(const struct simulated *s)
{
    uint64_t bytes[SIMULATED_PROCESSORS][MEMORY_CATEGORIES] = {{0}};
    double last_s = 0;
    size_t outside = 0, late = 0, wrong_sums = 0;
    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *e = &s->events[i];
        outside +=
            !(e->start_s >= 0 && e->start_s <= e->end_s && e->end_s <= s->result.time_s);
        late += e->kind != EVENT_COMPUTE && e->end_s < last_s;
        last_s = fmax(last_s, e->end_s);
        if (e->kind != EVENT_MEMORY)
            continue;
        uint64_t sum = 0;
        bytes[e->processor][e->category] = e->bytes;
        for (size_t c = 0; c < MEMORY_CATEGORIES; c++)
            sum += bytes[e->processor][c];
        wrong_sums += sum != e->memory_after_bytes;
    }
    CU_ASSERT_EQUAL(outside, 0);
    CU_ASSERT_EQUAL(late, 0);
    CU_ASSERT_EQUAL(wrong_sums, 0);
    for (size_t p = 0; p < s->processor_count; p++)
        CU_ASSERT_EQUAL(s->processors[p].final_bytes, 0);
}

/* One computation at a time; on a bulk-synchronous processor nothing travels meanwhile. */
static void check_occupancy(const struct simulated *s, const struct experiment *e,
                            const struct plan *plan, uint32_t processor)
{
    bool overlap = platform_processor(e->platform, processor)->overlap;
    double computed_until_s = 0, travelled_until_s = 0;
    double slack_s = 1e-12 * s->result.time_s;
    size_t clashes = 0;
    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *own = &s->events[i];
        double computing_s = own->start_s - computed_until_s + slack_s;
        double travelling_s = own->start_s - travelled_until_s + slack_s;
        if (own->end_s == own->start_s)
            continue;
        if (own->kind == EVENT_COMPUTE && own->processor == processor) {
            clashes += computing_s < 0 || (!overlap && travelling_s < 0);
            computed_until_s = own->end_s;
        }
        if (own->kind != EVENT_TRANSFER)
            continue;
        const struct edge *edge = &plan->edges[own->edge];
        if (edge->from_processor == processor || edge->to_processor == processor) {
            clashes += !overlap && computing_s < 0;
            travelled_until_s = fmax(travelled_until_s, own->end_s);
        }
    }
    CU_ASSERT_EQUAL(clashes, 0);
}

/* Messages of an edge go one after the other, none faster than its route allows, and no
 * link carries more than it can. */
static void check_edges(const struct simulated *s, const struct experiment *e,
                        const struct plan *plan)
{
    struct passage {
        struct route route;
        double until_s;
        uint64_t messages, bytes;
    } *passages = calloc(plan->edge_count + 1, sizeof *passages);
    double link_bytes[256] = {0};
    size_t clashes = 0, too_fast = 0;
    struct error error;
    CU_ASSERT_PTR_NOT_NULL_FATAL(passages);
    CU_ASSERT_FATAL(platform_link_count(e->platform) <= 256);
    for (size_t k = 0; k < plan->edge_count; k++)
        CU_ASSERT_FATAL(platform_route(e->platform, plan->edges[k].from_processor,
                                       plan->edges[k].to_processor, &passages[k].route,
                                       &error));
    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *own = &s->events[i];
        if (own->kind != EVENT_TRANSFER || plan->edges[own->edge].payload == PAYLOAD_PIECES)
            continue;
        struct passage *p = &passages[own->edge];
        double least_s =
            p->route.latency_s + (double)own->bytes / p->route.bandwidth_bytes_per_s;
        clashes += own->start_s < p->until_s - 1e-12 * p->until_s;
        too_fast += own->end_s - own->start_s < least_s - 1e-12 * own->end_s;
        p->until_s = own->end_s;
        p->messages++;
        p->bytes += own->bytes;
    }
    CU_ASSERT_EQUAL(clashes, 0);
    CU_ASSERT_EQUAL(too_fast, 0);
    for (size_t k = 0; k < plan->edge_count; k++) {
        bool pieces = plan->edges[k].payload == PAYLOAD_PIECES; /* told together */
        CU_ASSERT(pieces || passages[k].messages == s->edges[k].messages);
        CU_ASSERT(pieces || passages[k].bytes == s->edges[k].bytes);
        for (size_t i = 0; i < passages[k].route.link_count; i++)
            link_bytes[passages[k].route.links[i]] += (double)s->edges[k].bytes;
    }
    for (size_t i = 0; i < platform_link_count(e->platform); i++)
        CU_ASSERT(link_bytes[i] / platform_link(e->platform, i)->bandwidth_bytes_per_s <=
                  s->result.time_s * (1 + 1e-12));
    free(passages);
}

static void check_totals(const struct simulated *s, const struct plan *plan)
{
    uint64_t bytes = 0, messages = 0;
    for (size_t i = 0; i < s->edge_count; i++) {
        bytes += s->edges[i].bytes;
        messages += s->edges[i].messages;
    }
    CU_ASSERT_EQUAL(bytes, s->bytes);
    CU_ASSERT_EQUAL(messages, s->messages);
    bool beside[SIMULATED_PROCESSORS] = {false}; /* waits of two streams add up */
    for (size_t i = 0; i < plan->stream_count; i++)
        beside[plan->streams[i].processor] |= plan->streams[i].number > 0;
    for (size_t i = 0; i < s->processor_count; i++) {
        double busy_s = s->processors[i].busy_s, wait_s = s->processors[i].wait_s;
        CU_ASSERT(s->result.time_s >= busy_s * (1 - 1e-12));
        CU_ASSERT(beside[i] || s->result.time_s >= (busy_s + wait_s) * (1 - 1e-9));
    }
}

static unsigned exact_cases, bounded_cases, refused_cases, ties;

static void check_oracle(const struct simulated *s, const struct experiment *e,
                         size_t method)
{
    double chain_s = oracle_time_s(e, method);
    if (isnan(chain_s))
        return;
    CU_ASSERT(s->result.time_s >= chain_s * (1 - 1e-9));
    bounded_cases++;
    if (!oracle_exact(e, method))
        return;
    CHECK_CLOSE(s->result.time_s, chain_s, 1e-9);
    exact_cases++;
}

/* What may be in the processor's queues for a moment: which of two things that happen at
 * one instant is told first is not part of what the fidelities agree on. */
static uint64_t moment_bytes(const struct plan *plan, uint32_t processor)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < plan->edge_count; i++)
        if (plan->edges[i].from_processor == processor ||
            plan->edges[i].to_processor == processor)
            sum += plan->edges[i].message_bytes;
    return sum;
}

/* Worked out or simulated: the same. But where two messages want a bulk-synchronous
 * processor at one instant, the clock's last bits decide which goes first. */
static void check_fidelity(const struct simulated *s, const struct experiment *e)
{
    struct experiment other = *e;
    other.fidelity = FIDELITY_AUTO;
    struct simulated *quick = simulate_plan(&other, e->plans[0], NULL);
    bool overlap = platform_processor(e->platform, 0)->overlap;
    double off = fabs(quick->result.time_s - s->result.time_s) / s->result.time_s;
    CU_ASSERT(off <= 1e-9 || (!overlap && off <= 0.05));
    ties += off > 1e-9;
    CU_ASSERT_EQUAL(quick->bytes, s->bytes);
    CU_ASSERT_EQUAL(quick->messages, s->messages);
    for (size_t i = 0; i < s->processor_count; i++) {
        uint64_t a = quick->processors[i].peak_bytes, b = s->processors[i].peak_bytes;
        CU_ASSERT((a > b ? a - b : b - a) <= moment_bytes(e->plans[0], (uint32_t)i));
        CU_ASSERT_EQUAL(quick->processors[i].flops, s->processors[i].flops);
        CU_ASSERT_EQUAL(quick->processors[i].final_bytes, 0);
        CHECK_CLOSE(quick->processors[i].busy_s, s->processors[i].busy_s, 1e-9);
    }
    munmap(quick, sizeof *quick);
}

static void check_case(bool numerics, uint64_t most_steps)
{
    struct error error;
    drawn = 0;
    char *text = draw_experiment(numerics, most_steps);
    struct experiment *e = read_experiment(text, &error);
    unsigned failures = CU_get_number_of_failures();
    if (e == NULL) { /* settings that do not go together */
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "methods[0]"));
        if (getenv("SHOW_REFUSED") != NULL)
            printf("\n  refused: %s\n", error.message);
        refused_cases++;
        free(text);
        return;
    }
    experiment_free(e);
    struct simulation *simulation = simulate("%s", text);
    const struct simulated *s = simulation->methods[0];
    e = simulation->experiment;
    check_stream(s);
    for (uint32_t p = 0; p < s->processor_count; p++)
        check_occupancy(s, e, e->plans[0], p);
    check_edges(s, e, e->plans[0]);
    check_totals(s, e->plans[0]);
    check_oracle(s, e, 0);
    if (!numerics)
        check_fidelity(s, e);
    if (CU_get_number_of_failures() > failures)
        printf("\n  case %llu: %s\n", (unsigned long long)current_case, text);
    simulation_free(simulation);
    free(text);
}

static void costs(void)
{
    for (current_case = 0; current_case < CASES; current_case++)
        check_case(false, 3);
    CU_ASSERT(exact_cases > CASES / 8);
    CU_ASSERT(bounded_cases > CASES / 3);
    CU_ASSERT(refused_cases < CASES / 4);
    CU_ASSERT(ties <= CASES / 50);
}

/* Long runs, of which only the first steps are simulated. */
static void repeated_steps(void)
{
    for (current_case = 20000; current_case < 20000 + CASES / 2; current_case++)
        check_case(false, 60);
}

static void trained(void)
{
    for (current_case = 10000; current_case < 10000 + CASES / 5; current_case++)
        check_case(true, 3);
}

static const struct check checks[] = {
    {"random programs, costs only", costs},
    {"random programs of many steps", repeated_steps},
    {"random programs that train", trained},
};

CHECK_MAIN("random programs", checks)
