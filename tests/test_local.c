/* Local parallelism: what each granularity computes, sends, keeps and costs. */
#include "tests/local_reference.h"
#include "tests/machine_text.h"

static const struct text_link slow_link = {1e6, 1e-4}, fast_link = {1e12, 0},
                              free_link = {INFINITY, 0};

/* Five blocks without random layers; a residual crosses a cut. */
static const char model_text[] =
    "{\"input\": [12], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"linear\", \"out\": 16}, {\"kind\": "
    "\"relu\"}]},"
    "{\"name\": \"b\", \"layers\": [{\"kind\": \"layer_norm\", \"name\": \"norm\"}, "
    "{\"kind\": \"linear\", \"out\": 9}, {\"kind\": \"gelu\"}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"linear\", \"out\": 16}, {\"kind\": "
    "\"add\", \"inputs\": [\"previous\", \"b.norm\"]}]},"
    "{\"name\": \"d\", \"layers\": [{\"kind\": \"relu\"}, {\"kind\": \"linear\", \"out\": "
    "7}]},"
    "{\"name\": \"e\", \"layers\": [{\"kind\": \"relu\"}, {\"kind\": \"linear\", \"out\": "
    "4}]}]}";
static const char data_text[] =
    "{\"kind\": \"synthetic\", \"features\": 12, \"classes\": 4, "
    "\"separation\": 2, \"train_samples\": 50, \"test_samples\": 37}";
static const char momentum[] = "{\"learning_rate\": 0.05, \"momentum\": 0.9}";
static const char warm[] =
    "{\"kind\": \"adam\", \"learning_rate\": 0.01, \"weight_decay\": 0.01, "
    "\"weight_decay_schedule\": [[2, 0.001], [3, 0]], "
    "\"schedule\": {\"kind\": \"step\", \"warmup_steps\": 2, \"decay_steps\": [3]}}";

static struct simulation *train(const char *optimizer, uint64_t batch, uint64_t micro_batch,
                                uint64_t steps, bool overlap, struct text_link link,
                                const char *methods)
{
    return simulate("{\"model\": %s, \"data\": %s, \"platform\": %s, \"optimizer\": %s, "
                    "\"batch\": %d, \"micro_batch\": %d, \"steps\": %d, \"seed\": 5, "
                    "\"evaluate_every\": 1, \"methods\": [%s]}",
                    model_text, data_text,
                    roofline_machine(5, "full", overlap, 1 << 24, link), optimizer,
                    (int)batch, (int)micro_batch, (int)steps, methods);
}

/* The events of a metric, whichever processor told them. */
static size_t series(const struct simulated *s, const char *name, double values[64])
{
    size_t count = 0;
    for (size_t i = 0; i < s->event_count && count < 64; i++)
        if (s->events[i].kind == EVENT_METRIC && strcmp(s->events[i].name, name) == 0)
            values[count++] = s->events[i].value;
    return count;
}

static bool same_series(const struct simulated *a, const struct simulated *b,
                        const char *name, size_t count)
{
    double x[64], y[64];
    return series(a, name, x) == count && series(b, name, y) == count &&
           memcmp(x, y, count * sizeof *x) == 0;
}

static bool same_weights(const struct simulated *a, const struct simulated *b,
                         size_t parts_a, size_t parts_b)
{
    size_t count = a->weight_first[parts_a];
    return count > 0 && count == b->weight_first[parts_b] &&
           memcmp(a->weights, b->weights, count * sizeof *a->weights) == 0;
}

static bool has_wait(const struct simulated *s, const char *what, uint32_t processor)
{
    for (size_t i = 0; i < s->event_count; i++)
        if (s->events[i].kind == EVENT_WAIT && s->events[i].processor == processor &&
            strcmp(s->events[i].name, what) == 0)
            return true;
    return false;
}

/* One chunk is the whole model: every granularity is plain backprop. */
static void one_chunk(void)
{
    static const char methods[] =
        "\"backprop\", "
        "{\"name\": \"c\", \"kind\": \"local\", \"stages\": 1}, "
        "{\"name\": \"h\", \"kind\": \"local\", \"stages\": 1, \"heads_every\": 9}, "
        "{\"name\": \"o\", \"kind\": \"local\", \"stages\": 1, \"heads_every\": 0, "
        "\"granularity\": \"overlapping\"}, "
        "{\"name\": \"l\", \"kind\": \"local\", \"stages\": 1, \"granularity\": \"last\"}";
    struct simulation *s = train(momentum, 12, 3, 6, false, slow_link, methods);
    for (size_t i = 1; i < s->count; i++) {
        CU_ASSERT(same_series(s->methods[0], s->methods[i], "loss", 6));
        CU_ASSERT(same_series(s->methods[0], s->methods[i], "accuracy", 6));
        CU_ASSERT(same_weights(s->methods[0], s->methods[i], 1, 1));
        CU_ASSERT_EQUAL(s->methods[0]->result.time_s, s->methods[i]->result.time_s);
        CU_ASSERT_EQUAL(s->methods[0]->processors[0].peak_bytes,
                        s->methods[i]->processors[0].peak_bytes);
    }
    simulation_free(s);
}

/* Every chunk's first update against networks that compute it directly. */
static void check_updates(const struct simulation *s, size_t method, bool overlapping)
{
    const struct plan *plan = s->experiment->plans[method];
    const struct simulated *m = s->methods[method];
    struct reference r;
    reference_open(&r, s->experiment, plan);
    for (uint32_t p = 0; p < plan->part_count; p++) {
        size_t count;
        scalar *expected = reference_update(&r, p, overlapping, &count);
        CU_ASSERT_EQUAL_FATAL(m->weight_first[p + 1] - m->weight_first[p], count);
        CU_ASSERT(memcmp(m->weights + m->weight_first[p], expected,
                         count * sizeof *expected) == 0);
        free(expected);
    }
    reference_close(&r);
}

static void gradients(void)
{
    static const char methods[] =
        "{\"name\": \"c2\", \"kind\": \"local\", \"stages\": [2, 3]}, "
        "{\"name\": \"c3\", \"kind\": \"local\", \"stages\": 3}, "
        "{\"name\": \"lw\", \"kind\": \"local\", \"granularity\": \"layerwise\"}, "
        "{\"name\": \"o2\", \"kind\": \"local\", \"stages\": [2, 3], \"heads_every\": 0, "
        "\"granularity\": \"overlapping\"}, "
        "{\"name\": \"o5\", \"kind\": \"local\", \"stages\": 5, \"granularity\": "
        "\"overlapping\"}, "
        "{\"name\": \"o2of5\", \"kind\": \"local\", \"stages\": 2, \"granularity\": "
        "\"overlapping\"}";
    struct simulation *s = train(momentum, 6, 6, 1, true, slow_link, methods);
    for (size_t i = 0; i < s->count; i++)
        check_updates(s, i, i >= 3);
    simulation_free(s);
}

/* The reference of one method is none of the other: the test above can fail. */
static void gradients_differ(void)
{
    static const char methods[] =
        "{\"name\": \"lw\", \"kind\": \"local\", \"granularity\": \"layerwise\"}, "
        "{\"name\": \"o\", \"kind\": \"local\", \"granularity\": \"overlapping\"}";
    struct simulation *s = train(momentum, 6, 6, 1, true, slow_link, methods);
    const struct simulated *a = s->methods[0], *b = s->methods[1];
    for (uint32_t p = 0; p < 5; p++) {
        size_t first = a->weight_first[p], end = a->weight_first[p + 1];
        bool same = memcmp(a->weights + first, b->weights + first,
                           (end - first) * sizeof *a->weights) == 0;
        CU_ASSERT_EQUAL(same, p == 4);
    }
    simulation_free(s);
}

/* In several micro-batches the same sums come in another order. */
static void micro_batches(void)
{
    for (int i = 0; i < 2; i++) {
        const char *method =
            i == 0
                ? "{\"kind\": \"local\", \"stages\": 3, \"granularity\": \"layerwise\"}"
                : "{\"kind\": \"local\", \"stages\": 3, \"granularity\": \"overlapping\"}";
        struct simulation *whole = train(momentum, 12, 12, 3, true, fast_link, method);
        struct simulation *parts = train(momentum, 12, 2, 3, true, slow_link, method);
        const struct simulated *a = whole->methods[0], *b = parts->methods[0];
        CU_ASSERT_EQUAL_FATAL(a->weight_first[5], b->weight_first[5]);
        for (size_t k = 0; k < a->weight_first[5]; k++)
            CU_ASSERT(fabs((double)a->weights[k] - (double)b->weights[k]) < 2e-5);
        simulation_free(whole);
        simulation_free(parts);
    }
}

/* Where chunks sit, and how fast the links are, changes no number. */
static void placement_is_free(void)
{
    static const char *const granularities[] = {
        "\"granularity\": \"layerwise\"", "\"granularity\": \"overlapping\"",
        "\"granularity\": \"chunked\", \"heads_every\": 2",
        "\"granularity\": \"overlapping\", \"heads_every\": 2"};
    for (size_t g = 0; g < 4; g++) {
        char methods[1024];
        const char *k = granularities[g];
        snprintf(methods, sizeof methods,
                 "{\"name\": \"1\", \"kind\": \"local\", \"stages\": 1, %s}, "
                 "{\"name\": \"2\", \"kind\": \"local\", \"stages\": 2, %s}, "
                 "{\"name\": \"3\", \"kind\": \"local\", \"stages\": 3, %s, "
                 "\"queue_capacity\": 1}, "
                 "{\"name\": \"s\", \"kind\": \"local\", \"stages\": 3, %s, "
                 "\"synchronous\": true}",
                 k, k, k, k);
        size_t parts = g < 2 ? 5 : 3;
        struct simulation *s = train(momentum, 12, 3, 5, g % 2 == 0, slow_link, methods);
        struct simulation *fast = train(momentum, 12, 3, 5, true, fast_link, methods);
        for (size_t i = 0; i < s->count; i++) {
            CU_ASSERT(same_weights(s->methods[0], s->methods[i], parts, parts));
            CU_ASSERT(same_weights(s->methods[0], fast->methods[i], parts, parts));
            CU_ASSERT(same_series(s->methods[0], s->methods[i], "loss", 5));
        }
        CU_ASSERT_EQUAL(s->methods[0]->bytes, 0);
        CU_ASSERT(s->methods[2]->bytes > s->methods[1]->bytes);
        CU_ASSERT(s->methods[1]->bytes > 0);
        simulation_free(s);
        simulation_free(fast);
    }
}

/* An update after every micro-batch is training with batches of that size, also for the
 * schedules of learning rate and weight decay, which count steps. */
static void update_every(void)
{
    static const char method[] =
        "{\"kind\": \"local\", \"stages\": 2, \"update_every\": 2}";
    static const char short_schedule[] =
        "{\"kind\": \"adam\", \"learning_rate\": 0.01, \"weight_decay\": 0.01, "
        "\"weight_decay_schedule\": [[4, 0.001], [6, 0]], "
        "\"schedule\": {\"kind\": \"step\", \"warmup_steps\": 4, \"decay_steps\": [6]}}";
    struct simulation *often = train(warm, 12, 3, 5, true, slow_link, method);
    struct simulation *small = train(short_schedule, 6, 3, 10, true, slow_link,
                                     "{\"kind\": \"local\", \"stages\": 2}");
    const struct simulated *a = often->methods[0], *b = small->methods[0];
    CU_ASSERT(same_weights(a, b, 2, 2));
    double x[64], y[64];
    CU_ASSERT_EQUAL(series(a, "loss", x), 5);
    CU_ASSERT_EQUAL(series(b, "loss", y), 10);
    for (size_t i = 0; i < 5; i++)
        CHECK_CLOSE(x[i], (y[2 * i] + y[2 * i + 1]) / 2, 1e-12);
    CU_ASSERT_EQUAL(series(a, "accuracy", x), 5);
    CU_ASSERT_EQUAL(series(b, "accuracy", y), 10);
    CU_ASSERT_EQUAL(x[4], y[9]);
    CHECK_CLOSE(a->result.time_s, b->result.time_s, 1e-12);
    simulation_free(often);
    simulation_free(small);
}

/* Also inside data parallelism, and of the overlapping kind. */
static void update_every_replicas(void)
{
    struct simulation *s = train(
        momentum, 24, 3, 4, true, slow_link,
        "{\"name\": \"one\", \"kind\": \"local\", \"stages\": 2, \"granularity\": "
        "\"overlapping\", \"update_every\": 4}, "
        "{\"name\": \"two\", \"kind\": \"data_parallel\", \"replicas\": 2, \"inner\": "
        "{\"kind\": \"local\", \"stages\": 2, \"granularity\": \"overlapping\", "
        "\"update_every\": 2}}");
    CU_ASSERT_EQUAL(s->experiment->plans[0]->updates, 2);
    CU_ASSERT_EQUAL(s->experiment->plans[1]->updates, 2);
    double x[64], y[64];
    CU_ASSERT_EQUAL(series(s->methods[0], "accuracy", x), 4);
    CU_ASSERT_EQUAL(series(s->methods[1], "accuracy", y), 4);
    CU_ASSERT_EQUAL(series(s->methods[0], "loss", x), 4);
    CU_ASSERT_EQUAL(series(s->methods[1], "loss", y), 8);
    /* The replicas' gradients are summed before every update: they stay equal. */
    const struct simulated *b = s->methods[1];
    size_t half = b->weight_first[5];
    CU_ASSERT(half > 0 && b->weight_first[10] == 2 * half);
    CU_ASSERT(memcmp(b->weights, b->weights + half, half * sizeof *b->weights) == 0);
    simulation_free(s);
}

static void last(void)
{
    struct simulation *s = train(
        momentum, 12, 3, 6, true, slow_link,
        "{\"name\": \"l\", \"kind\": \"local\", \"granularity\": \"last\", \"stages\": "
        "[2, 2, 1]}, "
        "{\"name\": \"p\", \"kind\": \"pipeline\", \"stages\": [2, 2, 1]}");
    const struct plan *plan = s->experiment->plans[0];
    const struct simulated *m = s->methods[0];
    double loss[64];
    CU_ASSERT_EQUAL(series(m, "loss", loss), 6);
    CU_ASSERT(loss[5] < loss[0]);
    CU_ASSERT_EQUAL(series(m, "accuracy", loss), 6);
    CU_ASSERT_EQUAL(plan->edge_count, 2);
    CU_ASSERT_EQUAL(2 * m->bytes, s->methods[1]->bytes);
    struct reference r;
    reference_open(&r, s->experiment, plan);
    for (uint32_t p = 0; p < 3; p++) {
        const struct part *part = &plan->parts[p];
        struct network *fresh = reference_network(&r, part->first_layer, part->end_layer);
        size_t count;
        const scalar *initial = network_parameters(fresh, &count);
        CU_ASSERT_EQUAL(m->weight_first[p + 1] - m->weight_first[p], count);
        bool same =
            memcmp(m->weights + m->weight_first[p], initial, count * sizeof *initial) == 0;
        CU_ASSERT_EQUAL(same, p < 2);
        network_free(fresh);
    }
    reference_close(&r);
    simulation_free(s);
}

/* Forward-only chunks keep weights, what is alive in forward, and messages: no more. */
static void last_memory(void)
{
    const uint64_t widths[] = {30, 20, 10, 40};
    struct simulation *s = simulate("{\"model\": %s, \"platform\": %s, \"numerics\": "
                                    "false, \"steps\": 3, \"batch\": 12, "
                                    "\"micro_batch\": 4, \"methods\": [{\"kind\": "
                                    "\"local\", \"granularity\": \"last\", "
                                    "\"stages\": [1, 2, 1]}]}",
                                    linear_model(50, widths, 4),
                                    roofline_machine(3, "full", true, 1 << 24, slow_link));
    const struct simulated *m = s->methods[0];
    const uint64_t words[] = {50 * 30 + 30, 30 * 20 + 20 + 20 * 10 + 10, 10 * 40 + 40};
    const uint64_t in[] = {50, 30, 10}, alive[] = {30, 20 + 10, 0};
    for (int p = 0; p < 3; p++) {
        const uint64_t *peak = m->processors[p].category_peak_bytes;
        CU_ASSERT_EQUAL(peak[MEMORY_WEIGHTS], 4 * words[p]);
        CU_ASSERT_EQUAL(peak[MEMORY_GRADIENTS], p < 2 ? 0 : 4 * words[p]);
        CU_ASSERT_EQUAL(peak[MEMORY_OPTIMIZER], p < 2 ? 0 : 4 * words[p]);
        if (p < 2)
            CU_ASSERT_EQUAL(peak[MEMORY_STASH], 4 * 4 * in[p]);
        if (p < 2)
            CU_ASSERT_EQUAL(peak[MEMORY_WORKSPACE], 4 * 4 * alive[p]);
        CU_ASSERT_EQUAL(m->processors[p].final_bytes, 0);
    }
    simulation_free(s);
}

/* Per edge: activations forward; the overlap back is as large. */
static void check_edges(const struct simulation *s, size_t method, uint64_t samples,
                        uint64_t steps, size_t expected)
{
    const struct plan *plan = s->experiment->plans[method];
    const struct simulated *m = s->methods[method];
    uint64_t forward = 0, back = 0;
    CU_ASSERT_EQUAL(plan->edge_count, expected);
    for (size_t i = 0; i < plan->edge_count; i++) {
        const struct edge *edge = &plan->edges[i];
        bool activations = edge->payload == PAYLOAD_ACTIVATIONS;
        const struct part *upper =
            &plan->parts[activations ? edge->to_part : edge->from_part];
        uint64_t bytes =
            4 * samples * steps * model_crossing_count(plan->model, upper->first_layer);
        bool inside = edge->from_processor == edge->to_processor;
        CU_ASSERT(activations || edge->payload == PAYLOAD_GRADIENTS);
        CU_ASSERT_EQUAL(edge->to_part,
                        activations ? edge->from_part + 1 : edge->from_part - 1);
        CU_ASSERT_EQUAL(m->edges[i].bytes, inside ? 0 : bytes);
        *(activations ? &forward : &back) += m->edges[i].bytes;
    }
    CU_ASSERT_EQUAL(back, expected > plan->part_count - 1 ? forward : 0);
    CU_ASSERT_EQUAL(m->bytes, forward + back);
}

static void edges(void)
{
    struct simulation *s =
        train(momentum, 12, 4, 2, true, slow_link,
              "{\"name\": \"c\", \"kind\": \"local\", \"stages\": [1, 1, 1, 2]}, "
              "{\"name\": \"lw\", \"kind\": \"local\", \"stages\": 2, \"granularity\": "
              "\"layerwise\"}, "
              "{\"name\": \"o\", \"kind\": \"local\", \"stages\": 5, \"granularity\": "
              "\"overlapping\"}, "
              "{\"name\": \"o2\", \"kind\": \"local\", \"stages\": 2, \"granularity\": "
              "\"overlapping\"}");
    check_edges(s, 0, 12, 2, 3);
    check_edges(s, 1, 12, 2, 4);
    check_edges(s, 2, 12, 2, 8);
    check_edges(s, 3, 12, 2, 8);
    simulation_free(s);
}

/* On one processor times add up: every block and every head is one linear layer. */
static void costs(void)
{
    const double f = 1.5, b = 2.75;
    const size_t n = 6;
    const uint64_t m = 4, steps = 2;
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %d, \"batch\": "
        "%d, "
        "\"micro_batch\": 3, \"methods\": ["
        "{\"name\": \"lw\", \"kind\": \"local\", \"stages\": 1, \"granularity\": "
        "\"layerwise\"}, "
        "{\"name\": \"c3\", \"kind\": \"local\", \"stages\": 1, \"heads_every\": 3}, "
        "{\"name\": \"o\", \"kind\": \"local\", \"stages\": 1, \"granularity\": "
        "\"overlapping\"}, "
        "{\"name\": \"o3\", \"kind\": \"local\", \"stages\": 1, \"granularity\": "
        "\"overlapping\", \"heads_every\": 3}, "
        "{\"name\": \"l\", \"kind\": \"local\", \"stages\": 1, \"granularity\": \"last\", "
        "\"heads_every\": 2}]}",
        even_model(5, n), table_machine(1, "full", true, f, b, free_link), (int)steps,
        (int)(3 * m));
    const double times = (double)(m * steps), all = (double)n;
    CHECK_CLOSE(s->methods[0]->result.time_s, times * (2 * all - 1) * (f + b), 1e-9);
    CHECK_CLOSE(s->methods[1]->result.time_s, times * (all + 1) * (f + b), 1e-9);
    /* Each chunk but the last goes back once more, without its head. */
    CHECK_CLOSE(s->methods[2]->result.time_s,
                times * ((2 * all - 1) * (f + b) + (all - 1) * b), 1e-9);
    CHECK_CLOSE(s->methods[3]->result.time_s, times * ((all + 1) * (f + b) + 3 * b), 1e-9);
    CHECK_CLOSE(s->methods[4]->result.time_s, times * (all * f + 2 * b), 1e-9);
    simulation_free(s);
}

/* Chunks on processors of their own: no flush between steps. With heads as long as a
 * block, a chunk takes 2 (f + b) a micro-batch, and the last one has half as much to do:
 * it is done one micro-batch's work after chunk p - 2, p - 2 forwards of the others
 * having gone before. */
static void pipelining(void)
{
    const double f = 1.5, b = 2.75;
    for (size_t p = 2; p <= 6; p++) {
        const uint64_t m = 4, steps = 3;
        struct simulation *s = simulate(
            "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %d, "
            "\"batch\": %d, \"micro_batch\": 3, \"methods\": ["
            "{\"name\": \"a\", \"kind\": \"local\", \"stages\": %zu}, "
            "{\"name\": \"s\", \"kind\": \"local\", \"stages\": %zu, \"synchronous\": "
            "true}]}",
            even_model(5, p), table_machine(p, "line", true, f, b, free_link), (int)steps,
            (int)(3 * m), p, p);
        double busy = 2 * (f + b), ahead = (double)(p - 1) * 2 * f;
        double all = (double)(m * steps);
        /* The last chunk waits for each micro-batch; its own work is f + b. */
        double last_start = ahead + (all - 1) * busy;
        double expected = fmax(last_start + f + b, (double)(p - 2) * 2 * f + all * busy);
        CHECK_CLOSE(s->methods[0]->result.time_s, expected, 1e-9);
        double step = fmax(ahead + ((double)m - 1) * busy + f + b,
                           (double)(p - 2) * 2 * f + (double)m * busy);
        CHECK_CLOSE(s->methods[1]->result.time_s, (double)steps * step, 1e-9);
        simulation_free(s);
    }
}

/* A slow chunk: what waits for it lies in its memory, as many messages as the queue holds;
 * then the sender stands. */
static void full_queue(void)
{
    const uint64_t widths[] = {8, 600, 4};
    for (uint64_t capacity = 1; capacity <= 5; capacity++) {
        struct simulation *s =
            simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 2, "
                     "\"batch\": "
                     "48, \"micro_batch\": 4, \"methods\": [{\"kind\": \"local\", "
                     "\"stages\": [1, 2], "
                     "\"queue_capacity\": %d}]}",
                     linear_model(6, widths, 3),
                     roofline_machine(2, "full", true, 1 << 24, fast_link), (int)capacity);
        const struct simulated *m = s->methods[0];
        CU_ASSERT_EQUAL(m->processors[1].category_peak_bytes[MEMORY_QUEUE],
                        capacity * 4 * 8 * 4);
        CU_ASSERT(has_wait(m, "wait for queue space", 0));
        CU_ASSERT_FALSE(has_wait(m, "wait for queue space", 1));
        simulation_free(s);
    }
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 2, \"batch\": "
        "48, "
        "\"micro_batch\": 4, \"methods\": [{\"kind\": \"local\", \"stages\": [1, 2], "
        "\"queue_capacity\": 24}]}",
        linear_model(6, widths, 3), roofline_machine(2, "full", true, 1 << 24, fast_link));
    CU_ASSERT_FALSE(has_wait(s->methods[0], "wait for queue space", 0));
    simulation_free(s);
}

/* The stash: one micro-batch a chunk; two where the overlap comes a micro-batch late. */
static void stash(void)
{
    const uint64_t widths[] = {8, 8, 8, 8};
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 2, \"batch\": "
        "12, "
        "\"micro_batch\": 2, \"methods\": ["
        "{\"name\": \"c\", \"kind\": \"local\", \"stages\": 4}, "
        "{\"name\": \"o\", \"kind\": \"local\", \"stages\": 4, \"granularity\": "
        "\"overlapping\"}, "
        "{\"name\": \"o1\", \"kind\": \"local\", \"stages\": 4, \"granularity\": "
        "\"overlapping\", \"update_every\": 1}]}",
        linear_model(8, widths, 4), roofline_machine(4, "full", true, 1 << 24, fast_link));
    /* Kept: the layer's input and, in front of a head, its output; the logits. */
    const uint64_t sample = 4 * 2, kept = 8 + 8, logits = 8;
    for (int p = 0; p < 4; p++) {
        uint64_t one = p < 3 ? sample * (kept + logits) : sample * (8 + logits);
        CU_ASSERT_EQUAL(s->methods[0]->processors[p].category_peak_bytes[MEMORY_STASH],
                        one);
        CU_ASSERT_EQUAL(s->methods[1]->processors[p].category_peak_bytes[MEMORY_STASH],
                        p < 3 ? one + sample * kept : one);
        CU_ASSERT_EQUAL(s->methods[2]->processors[p].category_peak_bytes[MEMORY_STASH],
                        one);
    }
    simulation_free(s);
}

/* Chunks of one processor compute one after the other: one workspace, the largest. */
static void workspace(void)
{
    const uint64_t widths[] = {100, 3, 50, 7};
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 1, \"batch\": "
        "2, "
        "\"methods\": ["
        "{\"name\": \"1\", \"kind\": \"local\", \"stages\": 1, \"granularity\": "
        "\"layerwise\"}, "
        "{\"name\": \"4\", \"kind\": \"local\", \"stages\": 4, \"granularity\": "
        "\"layerwise\"}]}",
        linear_model(9, widths, 4), roofline_machine(4, "full", true, 1 << 24, fast_link));
    uint64_t largest = 0, weights = 0;
    for (int p = 0; p < 4; p++) {
        const uint64_t *peak = s->methods[1]->processors[p].category_peak_bytes;
        weights += peak[MEMORY_WEIGHTS];
        largest = peak[MEMORY_WORKSPACE] > largest ? peak[MEMORY_WORKSPACE] : largest;
    }
    const uint64_t *peak = s->methods[0]->processors[0].category_peak_bytes;
    CU_ASSERT_EQUAL(peak[MEMORY_WORKSPACE], largest);
    CU_ASSERT_EQUAL(peak[MEMORY_WEIGHTS], weights);
    simulation_free(s);
}

/* The same events, whatever ran before. */
static void deterministic(void)
{
    static const char method[] =
        "{\"kind\": \"local\", \"stages\": 3, \"granularity\": \"overlapping\"}";
    struct simulation *a = train(momentum, 12, 2, 4, true, slow_link, method);
    struct simulation *b = train(momentum, 12, 2, 4, true, slow_link, method);
    const struct simulated *x = a->methods[0], *y = b->methods[0];
    CU_ASSERT_EQUAL_FATAL(x->event_count, y->event_count);
    for (size_t i = 0; i < x->event_count; i++) {
        const struct event *p = &x->events[i], *q = &y->events[i];
        CU_ASSERT(p->kind == q->kind && p->processor == q->processor &&
                  p->start_s == q->start_s && p->end_s == q->end_s &&
                  p->memory_after_bytes == q->memory_after_bytes && p->value == q->value);
    }
    CU_ASSERT(same_weights(x, y, 5, 5));
    simulation_free(a);
    simulation_free(b);
}

/* Chunks are at different steps at one time; with a barrier they are not. */
static size_t furthest_apart(const struct simulated *s)
{
    uint64_t at[8] = {0}, apart = 0;
    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *event = &s->events[i];
        if (event->kind != EVENT_COMPUTE)
            continue;
        at[event->processor] = event->step;
        for (size_t p = 0; p < s->processor_count; p++)
            if (at[p] + apart < event->step)
                apart = event->step - at[p];
    }
    return (size_t)apart;
}

static void synchronous(void)
{
    const uint64_t widths[] = {8, 300, 8, 4};
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 6, \"batch\": "
        "4, "
        "\"fidelity\": \"message\", \"methods\": ["
        "{\"name\": \"a\", \"kind\": \"local\", \"stages\": 4, \"queue_capacity\": 3}, "
        "{\"name\": \"s\", \"kind\": \"local\", \"stages\": 4, \"queue_capacity\": 3, "
        "\"synchronous\": true}]}",
        linear_model(6, widths, 4), roofline_machine(4, "full", true, 1 << 24, fast_link));
    CU_ASSERT(furthest_apart(s->methods[0]) >= 2);
    CU_ASSERT(furthest_apart(s->methods[1]) <= 1);
    CU_ASSERT(s->methods[1]->result.time_s > s->methods[0]->result.time_s);
    simulation_free(s);
}

static void heads_by_name(void)
{
    struct error error;
    struct experiment *e = read_experiment(
        "{\"model\": {\"input\": [3, 8, 8], \"blocks\": [{\"name\": \"a\", \"layers\": "
        "[{\"kind\": \"conv2d\", \"channels\": 4, \"padding\": 1}]}, {\"name\": \"b\", "
        "\"layers\": [{\"kind\": \"flatten\"}, {\"kind\": \"linear\", \"out\": 5}]}]}, "
        "\"platform\": \"ipu-m2000\", \"numerics\": false, \"batch\": 4, \"methods\": ["
        "{\"name\": \"a\", \"kind\": \"local\", \"stages\": 2}, "
        "{\"name\": \"l\", \"kind\": \"local\", \"stages\": 2, \"head\": \"linear\"}]}",
        &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    uint64_t body = model_parameter_count(e->model);
    CU_ASSERT_EQUAL(model_parameter_count(e->plans[0]->model) - body, 4 * 5 + 5);
    CU_ASSERT_EQUAL(model_parameter_count(e->plans[1]->model) - body, 4 * 64 * 5 + 5);
    experiment_free(e);
}

static void refusals(void)
{
    static const struct {
        const char *method, *part;
    } cases[] = {
        {"\"granularity\": \"layerwize\"", "layerwise"},
        {"\"granularity\": \"layerwise\", \"heads_every\": 2", "chunked"},
        {"\"granularity\": \"last\", \"head\": \"linear\"", "no effect"},
        {"\"granularity\": \"last\", \"loss\": \"cross_entropy\"", "no effect"},
        {"\"head\": \"liner\"", "linear"},
        {"\"head\": \"projection\", \"stages\": 2", "head"},
        {"\"loss\": \"hinge\"", "cross_entropy"},
        {"\"update_every\": 3", "update_every 3"},
        {"\"update_every\": 0", "update_every"},
        {"\"stages\": 6, \"granularity\": \"layerwise\"", "5 blocks"},
        {"\"stages\": 4, \"heads_every\": 2", "3 runs of 2"},
        {"\"stages\": [1, 4], \"heads_every\": 2", "stage 0 ends after block 1"},
        {"\"queue_capacity\": 0", "queue_capacity"},
        {"\"synchronous\": 1", "synchronous"},
        {"\"recompute\": \"stage\"", "recompute"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096];
        struct error error;
        snprintf(
            text, sizeof text,
            "{\"model\": %s, \"platform\": \"ipu-m2000\", \"numerics\": false, \"batch\": "
            "8, \"micro_batch\": 2, \"methods\": [{\"kind\": \"local\", %s}]}",
            model_text, cases[i].method);
        struct experiment *e = read_experiment(text, &error);
        CU_ASSERT_PTR_NULL(e);
        if (e != NULL || strstr(error.message, cases[i].part) == NULL)
            printf("\n  %s: %s\n", cases[i].method, error.message);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, cases[i].part));
        experiment_free(e);
    }
}

static const struct check checks[] = {
    {"one chunk is backprop", one_chunk},
    {"first updates against whole networks", gradients},
    {"layerwise and overlapping differ below the last chunk", gradients_differ},
    {"several micro-batches", micro_batches},
    {"placement and links change no number", placement_is_free},
    {"several updates a step", update_every},
    {"several updates a step of replicas", update_every_replicas},
    {"last: the others stay as they were", last},
    {"last: memory", last_memory},
    {"edges", edges},
    {"costs add up", costs},
    {"no flush", pipelining},
    {"full queues", full_queue},
    {"stash", stash},
    {"one workspace a processor", workspace},
    {"deterministic", deterministic},
    {"synchronous", synchronous},
    {"heads by name", heads_by_name},
    {"refusals", refusals},
};
CHECK_MAIN("local", checks)
