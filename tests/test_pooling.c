/* Pooling against plain loops over each window: ties, infinities, NaN, windows at edges. */
#include "tests/layer_bench.h"

static const struct layer_case cases[] = {
    {"max_pool", {{"kernel", 3}, {"stride", 2}, {"padding", 1}}, 2, 1, {{3, {3, 9, 8}}}, 0},
    {"max_pool", {{"kernel", 2}, {"stride", 3}, {"padding", 1}}, 1, 1, {{3, {2, 7, 5}}}, 0},
    {"max_pool", {{"kernel", 5}, {"stride", 1}, {"padding", 2}}, 1, 1, {{3, {1, 2, 1}}}, 0},
    {"max_pool", {{"kernel", 1}, {"stride", 4}}, 1, 1, {{3, {1, 6, 9}}}, 0},
    {"max_pool", {{"kernel", 4}, {"stride", 7}, {"padding", 2}}, 3, 1, {{3, {2, 16, 17}}}, 0},
    {"average_pool", {{"kernel", 3}, {"stride", 2}, {"padding", 1}}, 2, 1, {{3, {3, 9, 8}}}, 0},
    {"average_pool", {{"kernel", 5}, {"stride", 1}, {"padding", 2}}, 1, 1, {{3, {1, 2, 1}}}, 0},
    {"average_pool", {{"kernel", 1}, {"stride", 4}}, 1, 1, {{3, {1, 6, 9}}}, 0},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };
enum { KERNEL, STRIDE, PADDING };

/* The pixels of one window, as places in their channel, row by row. */
static size_t window_places(const struct layer *l, size_t oy, size_t ox, size_t places[64])
{
    const uint64_t *in = l->input_shape[0].extent;
    size_t count = 0, k = layer_size(l, KERNEL);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            size_t y = oy * layer_size(l, STRIDE) + i - layer_size(l, PADDING);
            size_t x = ox * layer_size(l, STRIDE) + j - layer_size(l, PADDING);
            if (y < in[1] && x < in[2])
                places[count++] = y * in[2] + x;
        }
    return count;
}

/* Adds one window's gradient where it belongs; the window's value comes back. */
static double pool(const struct layer *l, const scalar *pixels, double dy, size_t oy,
                   size_t ox, double *dx)
{
    size_t places[64] = {0}, count = window_places(l, oy, ox, places), best = places[0];
    double sum = 0, share = 1 / pow(l->option[KERNEL], 2);
    if (strcmp(l->kind->name, "max_pool") == 0) {
        for (size_t i = 1; i < count; i++)
            if (pixels[places[i]] > pixels[best])
                best = places[i];
        dx[best] += dy;
        return (double)pixels[best];
    }
    for (size_t i = 0; i < count; i++) {
        sum += (double)pixels[places[i]];
        dx[places[i]] += dy * share;
    }
    return sum * share;
}

/* `levels` > 0: so few different pixels that windows have ties, the lowest being -inf. */
static void check_case(const struct layer_case *from, size_t levels)
{
    struct bench b;
    CU_ASSERT_TRUE_FATAL(bench_open(&b, from));
    const uint64_t *in = b.layer.input_shape[0].extent, *out = b.layer.output_shape.extent;
    size_t image = in[1] * in[2], area = out[1] * out[2];
    for (size_t i = 0; levels > 0 && i < b.input_size[0]; i++) {
        double level = floor(((double)b.input[0][i] + 1) / 2 * (double)levels);
        b.input[0][i] = level > 0 ? (scalar)level : -(scalar)INFINITY;
    }
    double *dx = checked_calloc(image, sizeof *dx);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dx);
    bench_forward(&b);
    bench_backward(&b, true, false, false);
    for (size_t c = 0; c < from->batch * in[0]; c++) {
        memset(dx, 0, image * sizeof *dx);
        for (size_t p = 0; p < area; p++) {
            double y = pool(&b.layer, b.input[0] + c * image,
                            (double)b.d_output[c * area + p], p / out[2], p % out[2], dx);
            double got = (double)b.output[c * area + p];
            CU_ASSERT(got == y || fabs(got - y) <= 1e-6);
        }
        for (size_t p = 0; p < image; p++)
            CU_ASSERT(fabs((double)b.d_input[0][c * image + p] - dx[p]) <= 1e-6);
    }
    free(dx);
    bench_close(&b);
}

static void test_windows(void)
{
    for (size_t i = 0; i < CASE_COUNT; i++)
        check_case(&cases[i], 0);
}

/* The first of equals has the gradient, also where all are -inf. */
static void test_ties(void)
{
    for (size_t i = 0; i < CASE_COUNT; i++)
        for (size_t levels = 1; levels < 4; levels++)
            if (strcmp(cases[i].kind, "max_pool") == 0)
                check_case(&cases[i], levels);
}

/* A NaN is in every window that holds it, and in no other. */
static void test_nan(void)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        struct bench b;
        size_t places[64];
        CU_ASSERT_TRUE_FATAL(bench_open(&b, &cases[i]));
        const uint64_t *in = b.layer.input_shape[0].extent;
        const uint64_t *out = b.layer.output_shape.extent;
        for (size_t bad = 0; bad < in[1] * in[2]; bad++) {
            scalar good = b.input[0][bad];
            b.input[0][bad] = NAN;
            bench_forward(&b);
            for (size_t p = 0; p < out[1] * out[2]; p++) {
                size_t count = window_places(&b.layer, p / out[2], p % out[2], places);
                bool holds = false;
                for (size_t k = 0; k < count; k++)
                    holds = holds || places[k] == bad;
                CU_ASSERT_EQUAL(isnan(b.output[p]) != 0, holds);
            }
            b.input[0][bad] = good;
        }
        bench_close(&b);
    }
}

static const struct check checks[] = {
    {"every window", test_windows},
    {"ties and infinities", test_ties},
    {"NaN", test_nan},
};

CHECK_MAIN("pooling", checks)
