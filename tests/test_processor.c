/* What a pass costs, by kind of processor, against the model on paper. */
#include "tests/platform_sample.h"

#include <stdlib.h>

static struct platform *machine(const char *processor, struct error *error)
{
    struct text text = {0};
    text_append(&text, "{'name': 'sample', 'processors': {'name': 'x', %s}}", processor);
    for (char *c = text.data; c != NULL && *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    struct platform *platform = sample_parse(text_string(&text), error);
    text_free(&text);
    return platform;
}

static struct platform *good(const char *processor)
{
    struct error error = {0};
    struct platform *platform = machine(processor, &error);
    if (platform == NULL)
        fprintf(stderr, "\n%s\n", error.message);
    CU_ASSERT_FATAL(platform != NULL);
    return platform;
}

static void check_refused(const char *processor, const char *message)
{
    struct error error = {0};
    struct platform *platform = machine(processor, &error);
    CU_ASSERT_PTR_NULL(platform);
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, message));
    if (strstr(error.message, message) == NULL)
        fprintf(stderr, "\nexpected: %s\nfound:    %s\n", message, error.message);
    platform_free(platform);
}

static struct work work_of(enum operation_class operation, enum number_format format,
                           uint64_t flops, uint64_t bytes)
{
    return (struct work){operation, "linear", "fc1", "forward", format, flops, bytes};
}

static double seconds(const struct platform *platform, struct work work)
{
    struct error error = {0};
    double result = -1;
    CU_ASSERT_TRUE(
        processor_seconds(platform_processor(platform, 0), &work, &result, &error));
    return result;
}

#define IPU                                                                                \
    "'kind': 'ipu', 'peak_flops_per_s': {'fp32': 1e12, 'fp16': 4e12}, "                    \
    "'memory_bandwidth_bytes_per_s': 1e11, 'memory_bytes': 1000"

static void test_compute_or_memory(void)
{
    struct platform *x = good(IPU ", 'overhead_s': 1e-6, 'efficiency': 0.5");
    /* 1e9 FLOPs at 0.5e12 are 2 ms; 1e9 bytes at 1e11 are 10 ms. */
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 1000000000, 0)), 0.002001,
                1e-14);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP16, 1000000000, 0)), 0.000501,
                1e-14);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 1000000000, 1000000000)),
                0.010001, 1e-14);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MEMORY, FORMAT_FP32, 0, 0)), 1e-6, 1e-14);
    CU_ASSERT_FALSE(platform_processor(x, 0)->overlap);
    CU_ASSERT_STRING_EQUAL(platform_processor(x, 0)->name, "x");
    platform_free(x);
}

static void test_beyond_32_bits(void)
{
    struct platform *x = good(IPU);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, UINT64_MAX, 0)),
                18446744.073709551615, 1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 0, UINT64_C(1) << 40)),
                10.99511627776, 1e-12);
    platform_free(x);
}

static void test_missing_format(void)
{
    struct platform *x = good(IPU);
    struct work work = work_of(OPERATION_MATMUL, FORMAT_FP8, 1, 1);
    struct error error = {0};
    double result;
    CU_ASSERT_FALSE(processor_seconds(platform_processor(x, 0), &work, &result, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    CU_ASSERT_STRING_EQUAL(
        error.message,
        "processor x: no peak_flops_per_s for fp8, which forward of fc1 needs");
    platform_free(x);
}

static void test_no_finite_time(void)
{
    struct platform *x =
        good("'kind': 'ipu', 'peak_flops_per_s': 1e-300, 'efficiency': 1e-9,"
             "'memory_bandwidth_bytes_per_s': 1, 'memory_bytes': 1");
    struct work work = work_of(OPERATION_MATMUL, FORMAT_FP32, 1000, 0);
    struct error error = {0};
    double result;
    CU_ASSERT_FALSE(processor_seconds(platform_processor(x, 0), &work, &result, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    platform_free(x);
}

static void test_efficiency_by_class(void)
{
    struct platform *x =
        good(IPU ", 'efficiency': {'convolution': 0.25, 'other': 0.1, 'matmul': "
                 "[[1e3, 0.1], [1e6, 0.4], [1e9, 0.8]]}");
    CHECK_CLOSE(seconds(x, work_of(OPERATION_CONVOLUTION, FORMAT_FP32, 1000000, 0)), 4e-6,
                1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_ELEMENTWISE, FORMAT_FP32, 1000000, 0)), 1e-5,
                1e-12);
    /* The curve: constant below and above, linear in log(FLOPs) between. */
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 10, 0)), 10 / 0.1e12,
                1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 1000000, 0)),
                1e6 / 0.4e12, 1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 10000, 0)), 1e4 / 0.2e12,
                1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 10000000000, 0)),
                1e10 / 0.8e12, 1e-12);
    platform_free(x);
}

static void test_tiles(void)
{
    struct platform *x = good(
        "'kind': 'ipu', 'peak_flops_per_s': 1e12, 'memory_bandwidth_bytes_per_s': 1e12,"
        "'tiles': 100, 'memory_bytes_per_tile': 7, 'grain_flops_per_tile': 1000");
    CU_ASSERT_EQUAL(platform_processor(x, 0)->memory_bytes, 700);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 1, 0)), 1 / 1e10, 1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 1000, 0)), 1e3 / 1e10,
                1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 1001, 0)), 1001 / 2e10,
                1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 99001, 0)), 99001 / 1e12,
                1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 5000000, 0)), 5e-6,
                1e-12);
    platform_free(x);
    check_refused(IPU ", 'memory_bytes_per_tile': 3", "needs \"tiles\" beside it");
    check_refused(IPU ", 'grain_flops_per_tile': 3", "needs \"tiles\" beside it");
    check_refused(IPU ", 'tiles': 9, 'memory_bytes_per_tile': 100",
                  "memory_bytes 1000 is above tiles x memory_bytes_per_tile = 900");
    check_refused(IPU ", 'tiles': 1000000000, 'memory_bytes_per_tile': 1000000000",
                  "is too much for 1000000000 tiles");
}

static void test_exchange_and_streaming(void)
{
    struct platform *x =
        good(IPU ", 'exchange': {'bandwidth_bytes_per_s': 1e10, 'fraction': "
                 "0.5, 'sync_s': 1e-6}, 'streaming': {'bytes': 5000000000, "
                 "'bandwidth_bytes_per_s': 2e9}, 'sync_s': 3e-6");
    /* 1e6 bytes: 10 us of memory, then 1 us of sync and 50 us of exchange. */
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 1, 1000000)), 61e-6,
                1e-12);
    CU_ASSERT_EQUAL(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 0, 0)), 0);
    CU_ASSERT_EQUAL(platform_processor(x, 0)->streaming_bytes, 5000000000);
    CU_ASSERT_EQUAL(platform_processor(x, 0)->streaming_bandwidth_bytes_per_s, 2e9);
    CU_ASSERT_EQUAL(platform_processor(x, 0)->sync_s, 3e-6);
    platform_free(x);
}

#define ROOFLINE                                                                           \
    "'kind': 'roofline', 'peak_flops_per_s': 1e12, 'memory_bytes': 1000000, "              \
    "'memory_bandwidth_bytes_per_s': 1e9"

static void test_roofline(void)
{
    struct platform *x =
        good(ROOFLINE ", 'caches': [{'bytes': 100, 'bandwidth_bytes_per_s': 1e11}, "
                      "{'bytes': 1000, 'bandwidth_bytes_per_s': 1e10}]");
    CU_ASSERT_TRUE(platform_processor(x, 0)->overlap);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MEMORY, FORMAT_FP32, 0, 100)), 1e-9, 1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MEMORY, FORMAT_FP32, 0, 101)), 1.01e-8, 1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MEMORY, FORMAT_FP32, 0, 1001)), 1.001e-6,
                1e-12);
    /* The ridge: at 1000 FLOPs a byte both take equally long. */
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 2000000, 2000)), 2e-6,
                1e-12);
    CHECK_CLOSE(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 4000000, 2000)), 4e-6,
                1e-12);
    platform_free(x);
    check_refused(ROOFLINE ", 'caches': [{'bytes': 5, 'bandwidth_bytes_per_s': 1}, "
                           "{'bytes': 5, 'bandwidth_bytes_per_s': 1}]",
                  "must be above the cache before, 5");
    check_refused(ROOFLINE ", 'caches': 5", "processors.caches: must be a list");
    check_refused(ROOFLINE ", 'sync_s': 1e-6", "no effect when overlap is true");
}

static void test_table(void)
{
    struct platform *x =
        good("'kind': 'table', 'memory_bytes': 5, 'layers': {'fc1': {'forward': 0.25, "
             "'update': 0.5}}, 'kinds': {'linear': {'backward': [[100, 1], [300, 2]], "
             "'forward': 9}}");
    struct work work = work_of(OPERATION_MATMUL, FORMAT_FP32, 100, 0);
    struct error error = {0};
    double result;
    CU_ASSERT_EQUAL(seconds(x, work), 0.25);
    work.pass = "recompute";
    CU_ASSERT_EQUAL(seconds(x, work), 0.25);
    work.layer_name = "fc2";
    CU_ASSERT_EQUAL(seconds(x, work), 9);
    work.pass = "backward";
    work.flops = 200;
    CHECK_CLOSE(seconds(x, work), 1.5, 1e-12);
    work.flops = 301;
    CU_ASSERT_FALSE(processor_seconds(platform_processor(x, 0), &work, &result, &error));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "backward of layer fc2: 301 FLOPs"));
    work.pass = "loss";
    CU_ASSERT_FALSE(processor_seconds(platform_processor(x, 0), &work, &result, &error));
    CU_ASSERT_STRING_EQUAL(
        error.message,
        "processor x: no measured seconds for loss of layer fc2 (kind linear)");
    platform_free(x);
    check_refused("'kind': 'table', 'memory_bytes': 5", "has no measured seconds");
    check_refused("'kind': 'table', 'memory_bytes': 5, 'layers': {'a': {'forwards': 1}}",
                  "processors.layers.a: unknown key \"forwards\", nearest known is "
                  "\"forward\"");
}

static void test_slowdown_and_power(void)
{
    struct platform *x = good(IPU ", 'slowdown': 1.5, 'overhead_s': 2, 'power': "
                                  "{'idle_watts': 10, 'busy_watts': 40, 'joules_per_byte': "
                                  "1e-11}");
    CU_ASSERT_EQUAL(seconds(x, work_of(OPERATION_MATMUL, FORMAT_FP32, 0, 0)), 3);
    CU_ASSERT_TRUE(platform_processor(x, 0)->power.known);
    CU_ASSERT_EQUAL(platform_processor(x, 0)->power.busy_watts, 40);
    platform_free(x);
    check_refused(IPU ", 'power': {'idle_watts': 10, 'busy_watts': 4}",
                  "busy_watts 4 is below idle_watts 10");
    check_refused(IPU ", 'slowdown': 0", "processors.slowdown: must be above 0");
}

static void test_refusals(void)
{
    check_refused("'kind': 'ipv', 'memory_bytes': 5", "processors.kind: unknown value "
                                                      "\"ipv\", nearest known is \"ipu\"");
    check_refused("'memory_bytes': 5", "processors: the key \"kind\" is missing");
    check_refused(IPU ", 'cahces': []", "processors: unknown key \"cahces\"");
    check_refused("'kind': 'ipu', 'memory_bytes': 5, 'memory_bandwidth_bytes_per_s': 1",
                  "the key \"peak_flops_per_s\" is missing");
    check_refused("'kind': 'ipu', 'peak_flops_per_s': 1, 'memory_bandwidth_bytes_per_s': 1",
                  "the key \"memory_bytes\" is missing");
    check_refused("'kind': 'ipu', 'peak_flops_per_s': {}, 'memory_bytes': 1, "
                  "'memory_bandwidth_bytes_per_s': 1",
                  "peak_flops_per_s: must give at least one number format");
    check_refused("'kind': 'ipu', 'peak_flops_per_s': -1, 'memory_bytes': 1, "
                  "'memory_bandwidth_bytes_per_s': 1",
                  "processors.peak_flops_per_s: must be a number from 0");
    check_refused("'kind': 'ipu', 'peak_flops_per_s': '1e12', 'memory_bytes': 1, "
                  "'memory_bandwidth_bytes_per_s': 1",
                  "peak_flops_per_s");
    check_refused("'kind': 'ipu', 'peak_flops_per_s': 1, 'memory_bytes': 1.5, "
                  "'memory_bandwidth_bytes_per_s': 1",
                  "memory_bytes: must be an integer");
    check_refused("'kind': 'ipu', 'peak_flops_per_s': 1, 'memory_bytes': 1, "
                  "'memory_bandwidth_bytes_per_s': 0",
                  "memory_bandwidth_bytes_per_s: must be above 0");
    check_refused(IPU ", 'efficiency': 1.01", "efficiency: must be a number from 0 to 1");
    check_refused(IPU ", 'efficiency': []", "must be a number or a list of [flops, value]");
    check_refused(IPU ", 'efficiency': [[5, 0.1], [5, 0.2]]",
                  "efficiency[1][0]: must be above the point before, 5");
    check_refused(IPU ", 'efficiency': [[5, 0.1, 3]]", "must be a pair [flops, value]");
    check_refused(IPU ", 'efficiency': {'matmul': 0.5}",
                  "efficiency: gives neither \"convolution\" nor \"other\"");
    check_refused(IPU ", 'overhead_s': -1e-9", "overhead_s: must be a number from 0");
    check_refused(IPU ", 'sync_s': -1", "sync_s: must be a number from 0");
    check_refused(IPU ", 'overlap': 1", "overlap: must be true or false");
    check_refused(IPU ", 'source': 5", "source: must be a string");
}

static void test_precision(void)
{
    static const struct {
        const char *text, *message;
    } bad[] = {{"\"fp12\"", "unknown value \"fp12\""},
               {"{\"weight\": \"fp16\"}", "unknown key \"weight\", nearest known is"},
               {"{\"weights\": 16}", "weights: must be a string"},
               {"[]", "must be a number format"}};
    struct precision precision;
    struct error error = {0};
    struct json_file *file =
        json_file_parse("test", "{\"weights\": \"fp16\", \"gradients\": \"bf16\"}", &error);
    struct json_at root = json_root(file);
    CU_ASSERT_TRUE(precision_read(&root, &precision, &error));
    CU_ASSERT_EQUAL(precision.weights, FORMAT_FP16);
    CU_ASSERT_EQUAL(precision.activations, FORMAT_FP32);
    CU_ASSERT_EQUAL(precision.gradients, FORMAT_BF16);
    CU_ASSERT_EQUAL(precision.optimizer, FORMAT_FP32);
    json_file_free(file);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        file = json_file_parse("test", bad[i].text, &error);
        root = json_root(file);
        CU_ASSERT_FALSE(precision_read(&root, &precision, &error));
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, bad[i].message));
        json_file_free(file);
    }
    CU_ASSERT_EQUAL(number_format_bytes(FORMAT_FP32), 4);
    CU_ASSERT_EQUAL(number_format_bytes(FORMAT_FP16), 2);
    CU_ASSERT_EQUAL(number_format_bytes(FORMAT_BF16), 2);
    CU_ASSERT_EQUAL(number_format_bytes(FORMAT_FP8), 1);
    CU_ASSERT_STRING_EQUAL(number_format_name(FORMAT_FP8), "fp8");
}

static const struct check checks[] = {
    {"compute or memory", test_compute_or_memory},
    {"beyond 32 bits", test_beyond_32_bits},
    {"missing format", test_missing_format},
    {"no finite time", test_no_finite_time},
    {"efficiency by class", test_efficiency_by_class},
    {"tiles", test_tiles},
    {"exchange and streaming memory", test_exchange_and_streaming},
    {"roofline", test_roofline},
    {"table", test_table},
    {"slowdown and power", test_slowdown_and_power},
    {"refusals", test_refusals},
    {"precision", test_precision},
};

CHECK_MAIN("processor", checks)
