/* Convolution by the library and by the reference, each against plain loops in double. */
#include "tests/layer_bench.h"

#include "engine/convolution.h"

#include <dlfcn.h>
#include <pthread.h>

static const struct layer_case cases[] = {
    {"conv2d", {{"channels", 16}, {"padding", 1}}, 2, 1, {{3, {16, 8, 8}}}, 0},
    {"conv2d", {{"channels", 64}, {"kernel", 7}, {"stride", 2}, {"padding", 3}}, 2, 1, {{3, {3, 33, 31}}}, 0},
    {"conv2d", {{"channels", 32}, {"stride", 2}, {"padding", 1}}, 3, 1, {{3, {16, 9, 8}}}, 0},
    {"conv2d", {{"channels", 48}, {"kernel", 1}}, 2, 1, {{3, {32, 5, 7}}}, 0},
    {"conv2d", {{"channels", 48}, {"kernel", 1}, {"stride", 2}}, 2, 1, {{3, {32, 8, 7}}}, 0},
    {"conv2d", {{"channels", 64}, {"padding", 1}, {"groups", 8}}, 2, 1, {{3, {64, 6, 5}}}, 0},
    {"conv2d", {{"channels", 30}, {"padding", 1}, {"groups", 3}, {"stride", 2}}, 2, 1, {{3, {9, 7, 7}}}, 0},
    {"conv2d", {{"channels", 19}, {"padding", 1}, {"groups", 19}, {"bias", 1}}, 2, 1, {{3, {19, 6, 5}}}, 0},
    {"conv2d", {{"channels", 5}, {"kernel", 2}, {"bias", 1}}, 3, 1, {{3, {7, 3, 4}}}, 0},
    {"conv2d", {{"channels", 17}, {"kernel", 5}, {"padding", 2}, {"bias", 1}}, 1, 1, {{3, {13, 11, 3}}}, 0},
    {"conv2d", {{"channels", 3}, {"kernel", 3}, {"stride", 4}, {"padding", 2}}, 2, 1, {{3, {3, 6, 9}}}, 0},
    {"conv2d", {{"channels", 2}, {"kernel", 3}, {"stride", 5}, {"padding", 4}}, 1, 1, {{3, {2, 2, 3}}}, 0},
    {"conv2d", {{"channels", 1}, {"kernel", 1}, {"padding", 2}}, 1, 1, {{3, {1, 1, 1}}}, 0},
    {"conv2d", {{"channels", 1}, {"kernel", 1}}, 1, 1, {{3, {1, 1, 1}}}, 0},
    {"conv2d", {{"channels", 33}, {"kernel", 1}, {"bias", 1}}, 1, 1, {{3, {65, 1, 1}}}, 0},
    {"conv2d", {{"channels", 4}, {"kernel", 9}}, 5, 1, {{3, {2, 9, 9}}}, 0},
    /* Channels and tiles enough for Winograd's products. */
    {"conv2d", {{"channels", 32}, {"padding", 1}}, 2, 1, {{3, {32, 16, 16}}}, 0},
    {"conv2d", {{"channels", 49}, {"padding", 1}, {"bias", 1}}, 3, 1, {{3, {35, 17, 14}}}, 0},
    {"conv2d", {{"channels", 33}}, 1, 1, {{3, {64, 23, 30}}}, 0},
    {"conv2d", {{"channels", 128}, {"padding", 1}}, 33, 1, {{3, {64, 1, 3}}}, 0},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

enum { CHANNELS, KERNEL, STRIDE, PADDING, GROUPS, BIAS }; /* options of conv2d */

/* What plain loops give. */
struct truth {
    double *y, *dx, *dw;
    size_t y_count, dx_count, dw_count;
};

static double *doubles(size_t count)
{
    double *a = checked_calloc(count, sizeof *a);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    return a;
}

/* One multiply-add of the forward pass and its two of the backward pass. */
static void count_in(struct truth *t, const struct bench *b, size_t x, size_t w, size_t y)
{
    double dy = (double)b->d_output[y];
    t->y[y] += (double)b->input[0][x] * (double)b->parameter[0][w];
    t->dx[x] += dy * (double)b->parameter[0][w];
    t->dw[w] += dy * (double)b->input[0][x];
}

static void window_of(struct truth *t, const struct bench *b, size_t n, size_t o, size_t oy,
                      size_t ox)
{
    const struct layer *l = &b->layer;
    const uint64_t *in = l->input_shape[0].extent, *out = l->output_shape.extent;
    size_t k = layer_size(l, KERNEL), groups = layer_size(l, GROUPS);
    size_t members = in[0] / groups, group = o / (out[0] / groups);
    size_t y = ((n * out[0] + o) * out[1] + oy) * out[2] + ox;
    for (size_t c = 0; c < members; c++)
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < k; j++) {
                size_t iy = oy * layer_size(l, STRIDE) + i - layer_size(l, PADDING);
                size_t ix = ox * layer_size(l, STRIDE) + j - layer_size(l, PADDING);
                if (iy >= in[1] || ix >= in[2])
                    continue;
                size_t x = ((n * in[0] + group * members + c) * in[1] + iy) * in[2] + ix;
                count_in(t, b, x, ((o * members + c) * k + i) * k + j, y);
            }
    if (l->option[BIAS] != 0)
        t->y[y] += (double)b->parameter[1][o];
}

static struct truth truth_of(const struct bench *b)
{
    const uint64_t *out = b->layer.output_shape.extent;
    struct truth t = {.y_count = b->output_size,
                      .dx_count = b->input_size[0],
                      .dw_count = (size_t)b->layer.tensor[0].count};
    t.y = doubles(t.y_count);
    t.dx = doubles(t.dx_count);
    t.dw = doubles(t.dw_count);
    for (size_t n = 0; n < b->from->batch; n++)
        for (size_t o = 0; o < out[0]; o++)
            for (size_t oy = 0; oy < out[1]; oy++)
                for (size_t ox = 0; ox < out[2]; ox++)
                    window_of(&t, b, n, o, oy, ox);
    return t;
}

static void truth_free(struct truth *t)
{
    free(t->y);
    free(t->dx);
    free(t->dw);
}

/* Every element, relative to the largest; `times` the expected value, plus one. */
static bool close_to(const scalar *actual, const double *expected, size_t count,
                     double times, double plus)
{
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double value = times * expected[i] + plus;
        largest = fmax(largest, fabs(value));
        worst = fmax(worst, fabs((double)actual[i] - value));
    }
    return worst <= 1e-5 * largest;
}

static void fill_with(scalar *values, size_t count, scalar value)
{
    for (size_t i = 0; i < count; i++)
        values[i] = value;
}

static void check_bias(const struct bench *b, double times)
{
    const uint64_t *out = b->layer.output_shape.extent;
    for (size_t o = 0; o < out[0]; o++) {
        double sum = 0, area = (double)(out[1] * out[2]);
        for (size_t n = 0; n < b->from->batch; n++)
            for (size_t p = 0; p < out[1] * out[2]; p++)
                sum += (double)b->d_output[(n * out[0] + o) * out[1] * out[2] + p];
        CU_ASSERT(fabs((double)b->d_parameter[1][o] - times * sum) <= 1e-5 * (area + times));
    }
}

/* Overwritten, added, and the two gradients asked for apart. */
static void check_layer(struct bench *b, const struct truth *t)
{
    fill_with(b->output, b->output_size, NAN);
    bench_forward(b);
    CU_ASSERT(close_to(b->output, t->y, t->y_count, 1, 0));
    fill_with(b->d_input[0], b->input_size[0], NAN);
    bench_backward(b, true, true, false);
    CU_ASSERT(close_to(b->d_input[0], t->dx, t->dx_count, 1, 0));
    CU_ASSERT(close_to(b->d_parameter[0], t->dw, t->dw_count, 1, 0));
    bench_backward(b, false, true, false);
    CU_ASSERT(close_to(b->d_parameter[0], t->dw, t->dw_count, 2, 0));
    fill_with(b->d_input[0], b->input_size[0], 1);
    bench_backward(b, true, false, true);
    CU_ASSERT(close_to(b->d_input[0], t->dx, t->dx_count, 1, 1));
    CU_ASSERT(close_to(b->d_parameter[0], t->dw, t->dw_count, 2, 0));
    if (b->layer.tensor_count > 1)
        check_bias(b, 2);
}

static void check_all(bool reference)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        struct bench b;
        convolution_force_reference(reference);
        CU_ASSERT_TRUE_FATAL(bench_open(&b, &cases[i]));
        CU_ASSERT(!reference || b.prepared == NULL);
        struct truth truth = truth_of(&b);
        check_layer(&b, &truth);
        truth_free(&truth);
        bench_close(&b);
    }
    convolution_force_reference(false);
}

static void test_library(void)
{
    check_all(false);
}

static void test_reference(void)
{
    check_all(true);
}

/* Where the library is linked, it is what computes. */
static void test_library_is_used(void)
{
    struct bench b;
    CU_ASSERT_TRUE_FATAL(bench_open(&b, &cases[0]));
    CU_ASSERT_EQUAL(b.prepared != NULL, dlsym(RTLD_DEFAULT, "dnnl_version") != NULL);
    bench_close(&b);
}

static void use_threads(int count)
{
    void (*set)(int);
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&set, &symbol, sizeof symbol);
    if (set != NULL)
        set(count);
}

/* The same bits again, with another object, whatever the number of threads was. */
static void test_same_bits(void)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        struct bench a, b;
        CU_ASSERT_TRUE_FATAL(bench_open(&a, &cases[i]));
        bench_forward(&a);
        bench_backward(&a, true, true, false);
        use_threads(3);
        CU_ASSERT_TRUE_FATAL(bench_open(&b, &cases[i]));
        use_threads(2);
        bench_forward(&b);
        use_threads(2);
        bench_backward(&b, true, false, false);
        use_threads(5);
        bench_backward(&b, false, true, false);
        CU_ASSERT(memcmp(a.output, b.output, a.output_size * sizeof(scalar)) == 0);
        CU_ASSERT(
            memcmp(a.d_input[0], b.d_input[0], a.input_size[0] * sizeof(scalar)) == 0);
        CU_ASSERT(memcmp(a.d_parameter[0], b.d_parameter[0],
                         a.layer.tensor[0].count * sizeof(scalar)) == 0);
        bench_close(&a);
        bench_close(&b);
    }
}

struct turn {
    struct bench bench;
    bool opened;
};

static void *take_turn(void *argument)
{
    struct turn *turn = argument;
    turn->opened = bench_open(&turn->bench, turn->bench.from);
    bench_forward(&turn->bench);
    bench_backward(&turn->bench, true, true, false);
    return NULL;
}

/* On a stack as small as those of simulated processors, from preparation on. */
static void test_small_stack(void)
{
    pthread_attr_t small;
    CU_ASSERT_EQUAL_FATAL(pthread_attr_init(&small), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_attr_setstacksize(&small, 128 << 10), 0);
    for (size_t i = 0; i < CASE_COUNT; i++) {
        pthread_t thread;
        struct bench here;
        struct turn turn = {.bench.from = &cases[i]};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, &small, take_turn, &turn), 0);
        pthread_join(thread, NULL);
        CU_ASSERT_TRUE_FATAL(turn.opened && bench_open(&here, &cases[i]));
        bench_forward(&here);
        CU_ASSERT(memcmp(here.output, turn.bench.output,
                         here.output_size * sizeof(scalar)) == 0);
        bench_close(&here);
        bench_close(&turn.bench);
    }
    pthread_attr_destroy(&small);
}

static bool described(const struct layer_case *from, struct layer *layer,
                      struct error *error)
{
    *layer = (struct layer){.kind = layer_kind_find(from->kind),
                            .tied_to = SIZE_MAX,
                            .input_count = 1,
                            .input_shape = {from->inputs[0]}};
    bench_options(layer, from->options);
    return layer_describe(layer, error);
}

static void test_refusals(void)
{
    static const struct {
        struct layer_case from;
        const char *says;
    } bad[] = {
        {{"conv2d", {{"channels", 4}, {"groups", 2}}, 1, 1, {{3, {3, 5, 5}}}, 0}, "2 groups do not divide 3"},
        {{"conv2d", {{"channels", 3}, {"groups", 2}}, 1, 1, {{3, {4, 5, 5}}}, 0}, "2 groups do not divide 4 input and 3"},
        {{"conv2d", {{"channels", 3}}, 1, 1, {{3, {4, 2, 5}}}, 0}, "3x3 with padding 0 does not fit into 4x2x5"},
        {{"conv2d", {{"channels", 3}, {"kernel", 7}, {"padding", 1}}, 1, 1, {{3, {4, 9, 4}}}, 0}, "does not fit"},
        {{"conv2d", {{"channels", 3}}, 1, 1, {{1, {4}}}, 0}, "takes images"},
        {{"conv2d", {{"channels", 3}, {"stride", 0}}, 1, 1, {{3, {4, 5, 5}}}, 0}, "stride must be from 1"},
        {{"conv2d", {{"channels", 0}}, 1, 1, {{3, {4, 5, 5}}}, 0}, "channels must be from 1"},
        {{"conv2d", {{"channels", 1.5}}, 1, 1, {{3, {4, 5, 5}}}, 0}, "channels must be an integer"},
        {{"conv2d", {{"channels", 1 << 24}}, 1, 1, {{3, {1 << 24, 9, 9}}}, 0}, "too large"},
        {{"batch_norm", {{0}}, 1, 1, {{2, {4, 5}}}, 0}, "takes [channels]"},
        {{"group_norm", {{0}}, 1, 1, {{3, {48, 5, 5}}}, 0}, "32 groups do not divide 48"},
        {{"group_norm", {{"groups", 1}}, 1, 1, {{2, {4, 5}}}, 0}, "takes [channels]"},
        {{"max_pool", {{"kernel", 3}, {"stride", 1}, {"padding", 2}}, 1, 1, {{3, {1, 5, 5}}}, 0}, "more than half"},
        {{"max_pool", {{"kernel", 1}, {"stride", 1}}, 1, 1, {{3, {1, 8192, 8192}}}, 0}, "2^24"},
        {{"average_pool", {{"kernel", 3}, {"stride", 1}, {"padding", 2}}, 1, 1, {{3, {1, 5, 5}}}, 0}, "more than half"},
        {{"average_pool", {{"kernel", 6}, {"stride", 1}}, 1, 1, {{3, {1, 5, 9}}}, 0}, "does not fit"},
        {{"global_average_pool", {{0}}, 1, 1, {{1, {5}}}, 0}, "takes images"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct layer layer;
        struct error error = {0};
        CU_ASSERT_FALSE(described(&bad[i].from, &layer, &error));
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        if (strstr(error.message, bad[i].says) == NULL)
            printf("\n  \"%s\" where \"%s\" is expected\n", error.message, bad[i].says);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, bad[i].says));
    }
}

/* Shapes, parameters and FLOPs beyond 32 bits. */
static void test_large(void)
{
    static const struct layer_case large = {
        "conv2d", {{"channels", 128}, {"kernel", 5}, {"padding", 2}, {"groups", 64}, {"bias", 1}},
        1, 1, {{3, {64, 1 << 15, 1 << 15}}}, 0};
    struct layer layer;
    struct error error;
    CU_ASSERT_TRUE_FATAL(described(&large, &layer, &error));
    CU_ASSERT_EQUAL(shape_count(&layer.output_shape), UINT64_C(1) << 37);
    CU_ASSERT_EQUAL(layer.tensor[0].count, 128 * 25);
    CU_ASSERT_EQUAL(layer.tensor[1].count, 128);
    CU_ASSERT_EQUAL(layer.macs, (UINT64_C(1) << 37) * 25);
    CU_ASSERT_EQUAL(layer.forward_flops, (UINT64_C(1) << 37) * 51);
    CU_ASSERT_EQUAL(layer.backward_input_flops, (UINT64_C(1) << 37) * 50);
    CU_ASSERT_EQUAL(layer.backward_weight_flops, (UINT64_C(1) << 37) * 51);
    CU_ASSERT(layer.keeps_input[0] && !layer.keeps_output);
}

static const struct check checks[] = {
    {"the library against plain loops", test_library},
    {"the reference against plain loops", test_reference},
    {"the library is used where it is linked", test_library_is_used},
    {"the same bits whatever the threads", test_same_bits},
    {"a small stack", test_small_stack},
    {"refusals", test_refusals},
    {"sizes beyond 32 bits", test_large},
};

CHECK_MAIN("convolution", checks)
