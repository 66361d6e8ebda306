/* What codistillation costs: bytes, memory, time. */
#include "tests/codistillation_run.h"

static uint64_t edges_of(const struct simulation *s, size_t method, enum payload payload)
{
    const struct plan *plan = s->experiment->plans[method];
    uint64_t count = 0;
    for (size_t i = 0; i < plan->edge_count; i++)
        count += plan->edges[i].payload == payload &&
                 plan->edges[i].from_processor != plan->edges[i].to_processor;
    return count;
}

/* Bytes of a run without data. */
static void check_bytes(uint64_t models, const char *topology, uint64_t pairs)
{
    const uint64_t steps = 11, period = 3, burn_in = 4, word = 2;
    char methods[2048];
    snprintf(methods, sizeof methods,
             "{\"name\": \"p\", \"kind\": \"codistillation\", \"models\": %d, %s}, "
             "{\"name\": \"b\", \"kind\": \"codistillation\", \"models\": %d, %s, "
             "\"burn_in_steps\": %d}, "
             "{\"name\": \"c\", \"kind\": \"codistillation\", \"models\": %d, %s, "
             "\"exchange\": \"checkpoints\", \"period\": %d}, "
             "{\"name\": \"cp\", \"kind\": \"codistillation\", \"models\": %d, %s, "
             "\"exchange\": \"checkpoints\", \"period\": %d, \"inner\": {\"kind\": "
             "\"pipeline\", \"stages\": 2}}, "
             "{\"name\": \"pi\", \"kind\": \"pipeline\", \"stages\": 2}, "
             "{\"name\": \"pe\", \"kind\": \"codistillation\", \"models\": %d, %s, "
             "\"period\": %d}",
             (int)models, topology, (int)models, topology, (int)burn_in, (int)models,
             topology, (int)period, (int)models, topology, (int)period, (int)models,
             topology, (int)period);
    struct simulation *s =
        simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": %d, "
                 "\"batch\": %d, "
                 "\"micro_batch\": 3, \"precision\": \"fp16\", \"methods\": [%s]}",
                 model_text, roofline_machine(2 * models, "full", true, 1 << 24, fast_link),
                 (int)steps, BATCH, methods);
    const uint64_t logits = BATCH * CLASSES * word;
    const uint64_t checkpoints_sent = (steps - 1) / period;
    CU_ASSERT_EQUAL(edges_of(s, 0, PAYLOAD_PREDICTIONS), pairs);
    CU_ASSERT_EQUAL(s->methods[0]->bytes, pairs * logits * steps);
    CU_ASSERT_EQUAL(s->methods[1]->bytes, pairs * logits * (steps - burn_in));
    CU_ASSERT_EQUAL(s->methods[5]->bytes, pairs * logits * (steps / period));
    CU_ASSERT_EQUAL(edges_of(s, 2, PAYLOAD_PARAMETERS), pairs);
    CU_ASSERT_EQUAL(s->methods[2]->bytes, pairs * PARAMETERS * word * checkpoints_sent);
    /* A teacher's activations cross the pipeline's cut from the first checkpoint on. */
    uint64_t crossing = s->methods[4]->bytes / (2 * steps);
    CU_ASSERT_EQUAL(s->methods[3]->bytes, models * s->methods[4]->bytes +
                                              pairs * PARAMETERS * word * checkpoints_sent +
                                              pairs * crossing * (steps - period));
    simulation_free(s);
}

static void bytes(void)
{
    for (uint64_t n = 2; n <= 5; n++) {
        check_bytes(n, "\"topology\": \"all\"", n * (n - 1));
        check_bytes(n, "\"topology\": \"ring\"", n);
    }
    check_bytes(6, "\"topology\": \"hierarchical\", \"group\": 3", 6 * (2 + 1));
    check_bytes(6, "\"topology\": \"hierarchical\", \"group\": 2", 6 * (1 + 2));
    check_bytes(4, "\"topology\": \"hierarchical\", \"group\": 4", 4 * 3);
    check_bytes(4, "\"topology\": \"hierarchical\", \"group\": 1", 4 * 3);
}

static void hierarchy(void)
{
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 1, \"batch\": "
        "6, "
        "\"methods\": [{\"kind\": \"codistillation\", \"models\": 6, \"topology\": "
        "\"hierarchical\", \"group\": 3}]}",
        model_text, roofline_machine(6, "full", true, 1 << 24, fast_link));
    const struct plan *plan = s->experiment->plans[0];
    for (size_t i = 0; i < plan->edge_count; i++) {
        uint32_t from = plan->edges[i].from_processor, to = plan->edges[i].to_processor;
        CU_ASSERT(from != to && (from / 3 == to / 3 || from % 3 == to % 3));
    }
    simulation_free(s);
}

/* Teachers' weights, queues and transient values; everything is freed in the end. */
static void memory(void)
{
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 9, \"batch\": "
        "6, "
        "\"methods\": [\"backprop\", "
        "{\"name\": \"c2\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 2}, "
        "{\"name\": \"c4\", \"kind\": \"codistillation\", \"models\": 4, \"exchange\": "
        "\"checkpoints\", \"period\": 2}, "
        "{\"name\": \"r4\", \"kind\": \"codistillation\", \"models\": 4, \"exchange\": "
        "\"checkpoints\", \"period\": 2, \"topology\": \"ring\"}]}",
        model_text, roofline_machine(4, "full", true, 1 << 24, quick_link));
    const uint64_t teachers[] = {0, 1, 3, 1}, processors[] = {1, 2, 4, 4};
    const uint64_t *plain = s->methods[0]->processors[0].category_peak_bytes;
    for (size_t i = 1; i < 4; i++)
        for (uint64_t p = 0; p < processors[i]; p++) {
            const struct trace_processor_total *t = &s->methods[i]->processors[p];
            const uint64_t *peak = t->category_peak_bytes;
            CU_ASSERT_EQUAL(plain[MEMORY_WEIGHTS], 4 * PARAMETERS);
            CU_ASSERT_EQUAL(peak[MEMORY_WEIGHTS], (1 + teachers[i]) * 4 * PARAMETERS);
            CU_ASSERT_EQUAL(peak[MEMORY_GRADIENTS], plain[MEMORY_GRADIENTS]);
            CU_ASSERT_EQUAL(peak[MEMORY_OPTIMIZER], plain[MEMORY_OPTIMIZER]);
            CU_ASSERT_EQUAL(peak[MEMORY_WORKSPACE], plain[MEMORY_WORKSPACE]);
            /* The own weights on their way out and the others' on their way in. */
            CU_ASSERT(peak[MEMORY_QUEUE] >= 4 * PARAMETERS);
            CU_ASSERT_EQUAL(t->final_bytes, 0);
        }
    simulation_free(s);
}

/* Once it is there, a teacher costs a forward a micro-batch. */
static void costs(void)
{
    const double f = 1.5, b = 2.75;
    struct simulation *s = simulate(
        "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 10, \"batch\": "
        "6, "
        "\"micro_batch\": 2, \"methods\": ["
        "{\"name\": \"p\", \"kind\": \"codistillation\"}, "
        "{\"name\": \"c\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 4}, "
        "{\"name\": \"c3\", \"kind\": \"codistillation\", \"models\": 3, \"exchange\": "
        "\"checkpoints\", \"period\": 4, \"burn_in_steps\": 7}]}",
        even_model(5, 3),
        table_machine(3, "full", true, f, b, (struct text_link){1e6, 1e-4}));
    const double plain = 10 * 3 * 3 * (f + b);
    CHECK_CLOSE(s->methods[0]->result.time_s, plain, 1e-4);
    CHECK_CLOSE(s->methods[1]->result.time_s, plain + 6 * 3 * 3 * f, 1e-4);
    CHECK_CLOSE(s->methods[2]->result.time_s, plain + 2 * 3 * 3 * 3 * f, 1e-4);
    simulation_free(s);
}

static const struct check checks[] = {
    {"bytes", bytes},
    {"hierarchy", hierarchy},
    {"memory", memory},
    {"costs", costs},
};

CHECK_MAIN("costs of codistillation", checks)
