/* Errors of the functions for vector loops, and that widths do not change a bit. */
#include "tests/check.h"

#include "engine/vector_math.h"

/* All floats in steps that are coprime to the mantissa's size. */
enum { STEP = 1009 };

static double units(float actual, double exact)
{
    float nearest = fabsf((float)exact);
    double unit = (double)nextafterf(nearest, INFINITY) - (double)nearest;
    return fabs((double)actual - exact) / unit;
}

static float float_of(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

static void test_exp(void)
{
    double worst = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STEP) {
        float x = float_of(bits);
        if (x >= -86.9F && x < 88.7F)
            worst = fmax(worst, units(vector_exp(x), exp((double)x)));
    }
    CU_ASSERT(worst < 1);
    CU_ASSERT_EQUAL(vector_exp(0), 1);
    CU_ASSERT_EQUAL(vector_exp(-87), 0);
    CU_ASSERT_EQUAL(vector_exp(-INFINITY), 0);
    CU_ASSERT_EQUAL(vector_exp(-1e30F), 0);
    CU_ASSERT_EQUAL(vector_exp(88.8F), INFINITY);
    CU_ASSERT_EQUAL(vector_exp(INFINITY), INFINITY);
    CU_ASSERT(isnan(vector_exp(NAN)));
}

static void test_tanh(void)
{
    double worst = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STEP) {
        float x = float_of(bits);
        if (fabsf(x) > 1e-30F)
            worst = fmax(worst, units(vector_tanh(x), tanh((double)x)));
    }
    CU_ASSERT(worst < 1.3);
    CU_ASSERT_EQUAL(vector_tanh(0), 0);
    CU_ASSERT_EQUAL(vector_tanh(INFINITY), 1);
    CU_ASSERT_EQUAL(vector_tanh(-INFINITY), -1);
    CU_ASSERT(isnan(vector_tanh(NAN)));
}

static void test_normal(void)
{
    double worst = 0, worst_bell = 0;
    float bell;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STEP) {
        float x = float_of(bits);
        if (isnan(x))
            continue;
        float normal = vector_normal(x, &bell);
        worst = fmax(worst, fabs((double)normal - erfc((double)x * -sqrt(0.5)) / 2));
        worst_bell = fmax(worst_bell, fabs((double)bell - exp((double)x * (double)x / -2)));
    }
    CU_ASSERT(worst < 3e-7);
    CU_ASSERT(worst_bell < 1.5e-7);
    CU_ASSERT_EQUAL(vector_normal(0, &bell), 0.5);
    CU_ASSERT_EQUAL(bell, 1);
    CU_ASSERT_EQUAL(vector_normal(INFINITY, &bell), 1);
    CU_ASSERT_EQUAL(vector_normal(-INFINITY, &bell), 0);
    CU_ASSERT_EQUAL(bell, 0);
    CU_ASSERT(isnan(vector_normal(NAN, &bell)));
}

enum { COUNT = 100003 };

VECTOR_CLONES
static void wide(const float *restrict x, size_t count, float *restrict y)
{
    for (size_t i = 0; i < count; i++) {
        float bell, normal = vector_normal(x[i], &bell);
        y[i] = normal + vector_tanh(x[i]) * bell + vector_exp(x[i]);
    }
}

/* One at a time: as noinline keeps the compiler from vectors. */
__attribute__((noinline)) static float narrow(float x)
{
    float bell, normal = vector_normal(x, &bell);
    return normal + vector_tanh(x) * bell + vector_exp(x);
}

static void test_widths(void)
{
    static float x[COUNT], y[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        x[i] = ((float)i - COUNT / 2) * 40.0F / COUNT;
    wide(x, COUNT, y);
    size_t different = 0;
    for (size_t i = 0; i < COUNT; i++) {
        float one = narrow(x[i]);
        different += memcmp(&one, &y[i], sizeof one) != 0;
    }
    CU_ASSERT_EQUAL(different, 0);
}

static const struct check checks[] = {
    {"exp", test_exp},
    {"tanh", test_tanh},
    {"normal distribution", test_normal},
    {"the same bits at any width", test_widths},
};
CHECK_MAIN("vector math", checks)
