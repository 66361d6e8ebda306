/* Weights and optimiser state in streaming memory. */
#include "tests/simulate.h"

static struct simulation *run(const char *offload, unsigned long long streaming)
{
    return simulate(
        "{\"model\": {\"preset\": \"mlp\", \"input\": [64], \"depth\": 1, \"hidden\": 32, "
        "\"classes\": 10}, \"numerics\": false, \"batch\": 6, \"micro_batch\": 2, \"steps\": 2, "
        "\"offload\": %s, \"optimizer\": {\"kind\": \"adam\"}, \"precision\": {\"weights\": "
        "\"fp16\", \"optimizer\": \"fp32\"}, \"platform\": {\"name\": \"t\", \"processors\": "
        "{\"name\": \"p\", \"count\": 1, \"kind\": \"ipu\", \"peak_flops_per_s\": {\"fp32\": "
        "1e9, \"fp16\": 1e9}, \"efficiency\": 1, \"memory_bytes\": 1000000, "
        "\"memory_bandwidth_bytes_per_s\": 1e12, \"streaming\": {\"bytes\": %llu, "
        "\"bandwidth_bytes_per_s\": 1e6}}, \"topology\": {\"kind\": \"line\", \"link\": "
        "{\"bandwidth_bytes_per_s\": 1e9, \"latency_s\": 0}}}, \"methods\": [\"backprop\"]}",
        offload, streaming);
}

enum {
    PARAMETERS = 64 * 32 + 32 + 32 * 10 + 10,
    WEIGHT_BYTES = 2 * PARAMETERS,
    OPTIMIZER_BYTES = 2 * 4 * PARAMETERS,
    LARGEST_LAYER_BYTES = 2 * (64 * 32 + 32)
};

struct figures {
    double time_s;
    uint64_t peak_bytes;
};

static struct figures of(const char *offload)
{
    struct simulation *s = run(offload, 1000000);
    CU_ASSERT_FATAL(s->methods[0]->done);
    struct figures f = {s->methods[0]->result.time_s,
                        s->methods[0]->processors[0].peak_bytes};
    simulation_free(s);
    return f;
}

static void closed_forms(void)
{
    struct figures none = of("[]"), optimizer = of("[\"optimizer\"]"),
                   weights = of("[\"weights\"]"), both = of("[\"weights\", \"optimizer\"]");
    const double bandwidth = 1e6, steps = 2, passes = 2 * 3; /* forward, backward */
    CHECK_CLOSE(optimizer.time_s - none.time_s, steps * 2 * OPTIMIZER_BYTES / bandwidth, 1e-9);
    CHECK_CLOSE(weights.time_s - none.time_s,
                steps * (passes + 2) * WEIGHT_BYTES / bandwidth, 1e-9);
    CHECK_CLOSE(both.time_s - none.time_s,
                (optimizer.time_s - none.time_s) + (weights.time_s - none.time_s), 1e-9);
    CU_ASSERT_EQUAL(none.peak_bytes - optimizer.peak_bytes, OPTIMIZER_BYTES);
    CU_ASSERT_EQUAL(none.peak_bytes - weights.peak_bytes, WEIGHT_BYTES - LARGEST_LAYER_BYTES);
}

static void refused(void)
{
    struct error error;
    struct experiment *e = read_experiment(
        "{\"model\": \"mlp\", \"numerics\": false, \"platform\": \"two-processors\", "
        "\"offload\": [\"weigths\"], \"methods\": [\"backprop\"]}",
        &error);
    CU_ASSERT_PTR_NULL(e);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "offload[0]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "weights"));
}

static const struct check checks[] = {
    {"time and memory by their closed forms", closed_forms},
    {"an unknown role is refused", refused},
};

CHECK_MAIN("offload", checks)
