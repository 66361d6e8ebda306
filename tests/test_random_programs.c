/* Random machines, models and methods: what must hold for any of them. */
#include "tests/machine_text.h"
#include "tests/simulate.h"
#include "tests/timing_oracle.h"

#include "base/random.h"

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

static size_t draw_inner(char text[256], size_t processors, size_t blocks)
{
    size_t most = processors < blocks ? processors : blocks;
    size_t stages = (size_t)draw(1, most);
    switch (draw(0, 2)) {
    case 0:
        snprintf(text, 256, "{\"kind\": \"backprop\", \"recompute\": \"%s\"}",
                 draw(0, 1) == 0 ? "none" : "stage");
        return 1;
    case 1:
        snprintf(text, 256,
                 "{\"kind\": \"pipeline\", \"stages\": %zu, \"schedule\": \"%s\", "
                 "\"recompute\": "
                 "\"%s\", \"queue_capacity\": %d}",
                 stages, draw(0, 1) == 0 ? "gpipe" : "1f1b",
                 draw(0, 1) == 0 ? "none" : "stage", (int)draw(1, 4));
        return stages;
    default:
        snprintf(text, 256,
                 "{\"kind\": \"local\", \"stages\": %zu, \"queue_capacity\": %d}", stages,
                 (int)draw(1, 4));
        return stages;
    }
}

static void draw_method(char text[1024], size_t processors, size_t blocks)
{
    char inner[256];
    size_t each = draw_inner(inner, processors, blocks);
    size_t copies = (size_t)draw(1, processors / each);
    uint64_t choice = draw(0, 3);
    if (choice == 0)
        snprintf(text, 1024,
                 "{\"kind\": \"codistillation\", \"models\": %zu, \"topology\": \"%s\", "
                 "\"alpha\": 0.5, \"queue_capacity\": %d, \"inner\": %s}",
                 copies, draw(0, 1) == 0 ? "all" : "ring", (int)draw(1, 3), inner);
    else if (choice == 1)
        snprintf(text, 1024,
                 "{\"kind\": \"data_parallel\", \"replicas\": %zu, \"inner\": %s}", copies,
                 inner);
    else
        snprintf(text, 1024, "%s", inner);
}

static char *draw_experiment(bool numerics, uint64_t most_steps)
{
    static const char *const formats[] = {"fp32", "fp16", "bf16", "fp8"};
    char method[1024], *text = NULL;
    size_t processors = (size_t)draw(1, 7), blocks = (size_t)draw(1, 8);
    uint64_t micro_batch = draw(1, 5);
    static const uint64_t counts[] = {60, 12, 2, 1}; /* 12 has no share for 5 and 7 */
    uint64_t micro_batches = counts[most_steps > 3 ? draw(1, 3) : draw(0, 1)];
    draw_method(method, processors, blocks);
    CU_ASSERT_FATAL(
        asprintf(
            &text,
            "{\"model\": {\"preset\": \"mlp\", \"input\": [9], \"hidden\": %d, "
            "\"depth\": %zu, \"classes\": 5}, \"data\": {\"kind\": \"synthetic\", "
            "\"features\": 9, \"classes\": 5, \"train_samples\": 30, "
            "\"test_samples\": 10}, "
            "\"platform\": %s, \"numerics\": %s, \"fidelity\": \"message\", \"steps\": %d, "
            "\"batch\": %llu, \"micro_batch\": %llu, \"precision\": \"%s\", "
            "\"methods\": [%s]}",
            (int)draw(1, 40), blocks - 1, draw_machine(processors),
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

/* Messages of an edge go one after the other, and no link carries more than it can. */
static void check_edges(const struct simulated *s, const struct experiment *e,
                        const struct plan *plan)
{
    double link_bytes[256] = {0};
    for (uint32_t k = 0; k < plan->edge_count; k++) {
        const struct edge *edge = &plan->edges[k];
        double until_s = 0;
        uint64_t messages = 0;
        struct route route;
        struct error error;
        CU_ASSERT_FATAL(platform_route(e->platform, edge->from_processor,
                                       edge->to_processor, &route, &error));
        for (size_t i = 0; i < s->event_count; i++) {
            const struct event *own = &s->events[i];
            if (own->kind != EVENT_TRANSFER || own->edge != k)
                continue;
            CU_ASSERT(own->start_s >= until_s - 1e-12 * until_s);
            CU_ASSERT(own->bytes <= edge->message_bytes);
            double least_s =
                route.latency_s + (double)own->bytes / route.bandwidth_bytes_per_s;
            CU_ASSERT(own->end_s - own->start_s >= least_s - 1e-12 * own->end_s);
            until_s = own->end_s;
            messages++;
        }
        CU_ASSERT_EQUAL(messages, s->edges[k].messages);
        for (size_t i = 0; i < route.link_count; i++)
            link_bytes[route.links[i]] += (double)s->edges[k].bytes;
    }
    for (size_t i = 0; i < platform_link_count(e->platform); i++)
        CU_ASSERT(link_bytes[i] / platform_link(e->platform, i)->bandwidth_bytes_per_s <=
                  s->result.time_s * (1 + 1e-12));
}

static void check_totals(const struct simulated *s)
{
    uint64_t bytes = 0, messages = 0;
    for (size_t i = 0; i < s->edge_count; i++) {
        bytes += s->edges[i].bytes;
        messages += s->edges[i].messages;
    }
    CU_ASSERT_EQUAL(bytes, s->bytes);
    CU_ASSERT_EQUAL(messages, s->messages);
    for (size_t i = 0; i < s->processor_count; i++) {
        CU_ASSERT(s->result.time_s >= s->processors[i].busy_s * (1 - 1e-12));
        CU_ASSERT(s->result.time_s >=
                  (s->processors[i].busy_s + s->processors[i].wait_s) * (1 - 1e-9));
    }
}

static unsigned exact_cases, bounded_cases;

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

/* Worked out or simulated: the same. */
static void check_fidelity(const struct simulated *s, const struct experiment *e)
{
    struct experiment other = *e;
    other.fidelity = FIDELITY_AUTO;
    struct simulated *quick = simulate_plan(&other, e->plans[0], NULL);
    CHECK_CLOSE(quick->result.time_s, s->result.time_s, 1e-9);
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
    if (e == NULL) { /* replicas that cannot share out the micro-batches */
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "cannot share"));
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
    check_totals(s);
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
    for (current_case = 0; current_case < 500; current_case++)
        check_case(false, 3);
    CU_ASSERT(exact_cases > 100);
    CU_ASSERT(bounded_cases > 300);
}

/* Long runs, of which only the first steps are simulated. */
static void repeated_steps(void)
{
    for (current_case = 20000; current_case < 20300; current_case++)
        check_case(false, 60);
}

static void trained(void)
{
    for (current_case = 10000; current_case < 10100; current_case++)
        check_case(true, 3);
}

static const struct check checks[] = {
    {"random programs, costs only", costs},
    {"random programs of many steps", repeated_steps},
    {"random programs that train", trained},
};

CHECK_MAIN("random programs", checks)
