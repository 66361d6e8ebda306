/* Bytes over every edge against the methods' closed forms. The expectations are made from
 * the widths at the cuts alone. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const struct text_link some_link = {2e9, 3e-6};

static const struct {
    const char *name;
    uint64_t bytes;
} formats[] = {{"fp32", 4}, {"fp16", 2}, {"bf16", 2}, {"fp8", 1}};

/* A model of `count` blocks whose outputs have these widths. */
static const uint64_t widths[] = {11, 64, 1, 7, 33, 128, 5, 17, 10};

/* "stages" for p stages of a model of `blocks` blocks: one each, the last takes the rest.
 */
static const char *cut_text(char text[128], size_t p, size_t blocks)
{
    text[0] = '\0';
    for (size_t i = 0; i + 1 < p; i++)
        strcat(text, "1, ");
    snprintf(text + strlen(text), 16, "%zu", blocks - (p - 1));
    return text;
}

/* What every edge between stages carries in a step, sum over both payloads. */
static void check_stage_edges(const struct simulation *s, size_t method, size_t p,
                              uint64_t samples, uint64_t word, uint64_t steps,
                              bool gradients)
{
    const struct simulated *m = s->methods[method];
    const struct plan *plan = s->experiment->plans[method];
    uint64_t micro_batches = plan->micro_batches, sum = 0;
    size_t seen = 0;
    for (size_t i = 0; i < plan->edge_count; i++) {
        const struct edge *edge = &plan->edges[i];
        uint32_t from = edge->from_processor, to = edge->to_processor;
        uint64_t crossing = widths[from < to ? from : to];
        CU_ASSERT(to == from + 1 || (gradients && from == to + 1));
        CU_ASSERT_EQUAL(m->edges[i].bytes, crossing * samples * word * steps);
        CU_ASSERT_EQUAL(m->edges[i].messages, micro_batches * steps);
        seen++;
    }
    for (size_t i = 0; i + 1 < p; i++)
        sum += widths[i];
    CU_ASSERT_EQUAL(seen, (gradients ? 2 : 1) * (p - 1));
    CU_ASSERT_EQUAL(m->bytes, (gradients ? 2 : 1) * sum * samples * word * steps);
}

static void check_chain(size_t p, uint64_t micro_batches, size_t format)
{
    const size_t blocks = sizeof widths / sizeof widths[0];
    const uint64_t micro_batch = 3, steps = 2, samples = micro_batches * micro_batch;
    char cut[128], methods[2048];
    cut_text(cut, p, blocks);
    snprintf(methods, sizeof methods,
             "{\"name\": \"g\", \"kind\": \"pipeline\", \"schedule\": \"gpipe\", "
             "\"stages\": [%s]}, "
             "{\"name\": \"f\", \"kind\": \"pipeline\", \"schedule\": \"1f1b\", "
             "\"stages\": [%s]}, "
             "{\"name\": \"r\", \"kind\": \"pipeline\", \"recompute\": \"stage\", "
             "\"stages\": [%s]}, "
             "{\"name\": \"l\", \"kind\": \"local\", \"stages\": [%s]}",
             cut, cut, cut, cut);
    struct simulation *s =
        simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %d, "
                 "\"batch\": %d, "
                 "\"micro_batch\": %d, \"precision\": \"%s\", \"methods\": [%s]}",
                 linear_model(19, widths, blocks),
                 roofline_machine(p, "ring", true, 1 << 30, some_link), (int)steps,
                 (int)samples, (int)micro_batch, formats[format].name, methods);
    for (size_t i = 0; i < 3; i++)
        check_stage_edges(s, i, p, samples, formats[format].bytes, steps, true);
    check_stage_edges(s, 3, p, samples, formats[format].bytes, steps, false);
    CU_ASSERT_EQUAL(2 * s->methods[3]->bytes, s->methods[0]->bytes);
    simulation_free(s);
}

static void chains(void)
{
    static const uint64_t micro_batches[] = {1, 2, 3, 5, 8};
    for (size_t p = 1; p <= 7; p++)
        for (size_t m = 0; m < 5; m++)
            for (size_t f = 0; f < 4; f++)
                check_chain(p, micro_batches[m], f);
}

/* n models that exchange their logits: with all others, or around a ring. */
static void check_predictions(uint64_t n, bool ring, bool pipelined, size_t format)
{
    const uint64_t batch = 12, classes = 10, steps = 3, word = formats[format].bytes;
    const size_t stages = pipelined ? 2 : 1;
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %d, \"batch\": "
        "%d, "
        "\"micro_batch\": 4, \"precision\": \"%s\", \"methods\": [{\"kind\": "
        "\"codistillation\", "
        "\"models\": %d, \"topology\": \"%s\", \"inner\": %s}]}",
        linear_model(19, widths, 9),
        roofline_machine(stages * n, "full", true, 1 << 30, some_link), (int)steps,
        (int)batch, formats[format].name, (int)n, ring ? "ring" : "all",
        pipelined ? "{\"kind\": \"pipeline\", \"stages\": [4, 5]}" : "\"backprop\"");
    const struct simulated *m = s->methods[0];
    const struct plan *plan = s->experiment->plans[0];
    uint64_t predictions = 0, pairs = ring ? (n > 1 ? n : 0) : n * (n - 1), seen = 0;
    for (size_t i = 0; i < plan->edge_count; i++) {
        if (plan->edges[i].payload != PAYLOAD_PREDICTIONS)
            continue;
        CU_ASSERT_EQUAL(m->edges[i].bytes, batch * classes * word * steps);
        predictions += m->edges[i].bytes;
        seen++;
    }
    CU_ASSERT_EQUAL(seen, pairs);
    CU_ASSERT_EQUAL(predictions, pairs * batch * classes * word * steps);
    CU_ASSERT_EQUAL(m->bytes - predictions,
                    pipelined ? n * 2 * widths[3] * batch * word * steps : 0);
    simulation_free(s);
}

static void predictions(void)
{
    for (uint64_t n = 1; n <= 5; n++)
        for (size_t f = 0; f < 4; f++)
            for (int i = 0; i < 4; i++)
                check_predictions(n, i % 2 == 1, i >= 2, f);
}

/* Transfers and receipts of each edge, counted one by one. */
static void check_received(const struct simulation *s, size_t method)
{
    const struct simulated *m = s->methods[method];
    const struct plan *plan = s->experiment->plans[method];
    uint64_t steps = s->experiment->steps;
    for (uint32_t e = 0; e < plan->edge_count; e++) {
        uint64_t sends = 0, receives = 0, transfers = 0, bytes = 0;
        for (size_t k = 0; k < plan->stream_count; k++)
            for (size_t i = 0; i < plan->streams[k].body.count; i++) {
                const struct instruction *own = &plan->streams[k].body.instructions[i];
                sends += own->operation == OP_SEND && own->target == e;
                receives += own->operation == OP_RECEIVE && own->target == e;
            }
        for (size_t i = 0; i < m->event_count; i++)
            if (m->events[i].kind == EVENT_TRANSFER && m->events[i].edge == e) {
                transfers++;
                bytes += m->events[i].bytes;
            }
        CU_ASSERT_EQUAL(sends, receives);
        CU_ASSERT_EQUAL(transfers, sends * steps);
        CU_ASSERT_EQUAL(bytes, m->edges[e].bytes);
        CU_ASSERT_EQUAL(bytes, transfers * plan->edges[e].message_bytes);
    }
}

static void sent_is_received(void)
{
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 3, \"batch\": "
        "10, "
        "\"micro_batch\": 2, \"methods\": [{\"kind\": \"pipeline\", \"stages\": 5}, "
        "{\"kind\": \"local\", \"stages\": 6}, {\"kind\": \"codistillation\", \"models\": "
        "3, "
        "\"inner\": {\"kind\": \"pipeline\", \"stages\": 2}}]}",
        linear_model(19, widths, 9),
        roofline_machine(6, "line", false, 1 << 30, some_link));
    for (size_t i = 0; i < s->count; i++)
        check_received(s, i);
    simulation_free(s);
}

/* The sum of an all-reduce around a ring: every piece is passed on 2 (n - 1) times. */
static void ring_all_reduce(void)
{
    const uint64_t parameters = (19 + 1) * 11 + (11 + 1) * 64 + (64 + 1) * 10;
    const uint64_t three[] = {11, 64, 10};
    for (uint64_t n = 1; n <= 6; n++)
        for (size_t f = 0; f < 4; f++) {
            struct simulation *s = simulate(
                "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 2, "
                "\"batch\": %d, \"micro_batch\": 2, \"precision\": \"%s\", \"methods\": "
                "[{\"kind\": \"data_parallel\", \"replicas\": %d, \"all_reduce\": "
                "\"ring\"}]}",
                linear_model(19, three, 3),
                roofline_machine(n, "ring", true, 1 << 30, some_link), (int)(4 * n),
                formats[f].name, (int)n);
            CU_ASSERT_EQUAL(s->methods[0]->bytes,
                            2 * 2 * (n - 1) * parameters * formats[f].bytes);
            simulation_free(s);
        }
}

/* Messages of 8 and 16 GiB and weights of 2 TiB: counts, not numerics. */
static void beyond_four_gigabytes(void)
{
    const uint64_t half = UINT64_C(1) << 19, whole = UINT64_C(1) << 20;
    const uint64_t wide[] = {half, whole, 10};
    const uint64_t batch = UINT64_C(1) << 12, message = half * batch * 4;
    struct simulation *s =
        simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 1, "
                 "\"batch\": %llu, "
                 "\"methods\": [{\"kind\": \"pipeline\", \"stages\": [1, 1, 1]}, "
                 "{\"kind\": \"local\", \"stages\": [1, 1, 1]}]}",
                 linear_model(half, wide, 3),
                 roofline_machine(3, "line", true, UINT64_C(1) << 53, some_link),
                 (unsigned long long)batch);
    const struct simulated *m = s->methods[0];
    const struct trace_processor_total *middle = &m->processors[1];
    CU_ASSERT_EQUAL(m->bytes, 2 * (1 + 2) * message);
    CU_ASSERT_EQUAL(s->methods[1]->bytes, (1 + 2) * message);
    CU_ASSERT_FALSE(m->result.shortage.happened);
    const uint64_t parameters = half * whole + whole;
    CU_ASSERT_EQUAL(middle->category_peak_bytes[MEMORY_WEIGHTS], 4 * parameters);
    CU_ASSERT_EQUAL(middle->category_peak_bytes[MEMORY_GRADIENTS], 4 * parameters);
    CU_ASSERT_EQUAL(middle->category_peak_bytes[MEMORY_OPTIMIZER], 4 * parameters);
    CU_ASSERT_EQUAL(middle->category_peak_bytes[MEMORY_STASH], message); /* its input */
    /* three passes over a product of 2^39 multiply-adds a sample, and small change */
    uint64_t product = 2 * half * whole * batch;
    CU_ASSERT(middle->flops >= 3 * product);
    CU_ASSERT(middle->flops < 3 * product + product / 8);
    cJSON *summaries = simulate_summaries(s->experiment, 2);
    CU_ASSERT_EQUAL(summary_u64(cJSON_GetArrayItem(summaries, 0), "bytes_total"),
                    6 * message);
    cJSON_Delete(summaries);
    simulation_free(s);
}

/* A sum of bytes beyond 2^53, which doubles do not count one by one. */
static void beyond_doubles(void)
{
    const uint64_t wide[] = {(UINT64_C(1) << 30) - 1, 2};
    const uint64_t batch = (UINT64_C(1) << 20) - 1, steps = 3;
    struct simulation *s =
        simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 3, "
                 "\"batch\": %llu, "
                 "\"methods\": [{\"kind\": \"pipeline\", \"stages\": [1, 1]}]}",
                 linear_model(3, wide, 2),
                 roofline_machine(2, "line", true, UINT64_C(1) << 53, some_link),
                 (unsigned long long)batch);
    const uint64_t expected = 2 * steps * batch * wide[0] * 4;
    char text[64];
    struct error error = {0};
    const struct run_options options = {.jobs = 1};
    CU_ASSERT_EQUAL(s->methods[0]->bytes, expected);
    CU_ASSERT(expected > UINT64_C(1) << 53);
    cJSON *raw = run_methods(s->experiment, &options, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(raw);
    snprintf(text, sizeof text, "\"bytes_total\":\t%llu,", (unsigned long long)expected);
    CU_ASSERT_PTR_NOT_NULL(strstr(cJSON_GetArrayItem(raw, 0)->valuestring, text));
    cJSON_Delete(raw);
    simulation_free(s);
}

/* Token numbers go on to the decoder, but have no gradient that could come back. */
static void tokens_have_no_gradient(void)
{
    struct simulation *s = simulate(
        "{\"model\": {\"preset\": \"transformer\", \"width\": 8, \"depth\": 2, \"heads\": 2}, "
        "\"data\": {\"kind\": \"synthetic_translation\", \"source_length\": 5, "
        "\"target_length\": 3, \"train_samples\": 50, \"test_samples\": 10}, \"platform\": %s, "
        "\"steps\": 2, \"batch\": 6, \"micro_batch\": 2, \"methods\": [{\"kind\": "
        "\"pipeline\", \"stages\": [2, 2]}]}",
        roofline_machine(2, "line", true, 1 << 26, some_link));
    const uint64_t memory = 5 * 8, tokens = 5 + 3;
    uint64_t forward = 0, backward = 0;
    for (size_t i = 0; i < s->methods[0]->edge_count; i++) {
        enum payload payload = s->experiment->plans[0]->edges[i].payload;
        forward += payload == PAYLOAD_ACTIVATIONS ? s->methods[0]->edges[i].bytes : 0;
        backward += payload == PAYLOAD_GRADIENTS ? s->methods[0]->edges[i].bytes : 0;
    }
    CU_ASSERT_EQUAL(forward, 2 * 6 * (memory + tokens) * 4);
    CU_ASSERT_EQUAL(backward, 2 * 6 * memory * 4);
    simulation_free(s);
}

static const struct check checks[] = {
    {"pipeline: twice what crosses; local: half of it", chains},
    {"codistillation: n (n - 1) logits, n on a ring", predictions},
    {"what is sent is received", sent_is_received},
    {"all-reduce around a ring", ring_all_reduce},
    {"token numbers have no gradient", tokens_have_no_gradient},
    {"messages above 4 GiB", beyond_four_gigabytes},
    {"totals above 2^53 bytes", beyond_doubles},
};

CHECK_MAIN("method bytes", checks)
