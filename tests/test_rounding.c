/* Narrow number formats: against the definition, exhaustively where that is possible. */
#include "engine/rounding.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static scalar rounded(const struct rounding *format, double value)
{
    scalar one = (scalar)value;
    rounding_nearest(format, &one, 1);
    return one;
}

/* All finite numbers of the format, ascending, from its bits: sign left out. */
static size_t numbers(const struct rounding *f, double *out)
{
    size_t count = 0, fractions = (size_t)1 << f->mantissa_bits;
    out[count++] = 0;
    for (size_t m = 1; m < fractions; m++)
        out[count++] = ldexp((double)m, f->minimum_exponent - f->mantissa_bits);
    for (int e = f->minimum_exponent;; e++)
        for (size_t m = 0; m < fractions; m++) {
            double value = ldexp((double)(fractions + m), e - f->mantissa_bits);
            if (value > f->largest)
                return count;
            out[count++] = value;
        }
}

static void check_grid(const struct rounding *f)
{
    double *grid = calloc(1u << 17, sizeof *grid);
    CU_ASSERT_PTR_NOT_NULL_FATAL(grid);
    size_t count = numbers(f, grid), wrong = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += rounded(f, grid[i]) != (scalar)grid[i];
        wrong += rounded(f, -grid[i]) != (scalar)-grid[i];
        if (i + 1 == count)
            continue;
        double middle = (grid[i] + grid[i + 1]) / 2, even = i % 2 == 0 ? grid[i] : grid[i + 1];
        double gap = grid[i + 1] - grid[i];
        wrong += rounded(f, middle) != (scalar)even;
        wrong += rounded(f, middle + gap / 8) != (scalar)grid[i + 1];
        wrong += rounded(f, middle - gap / 8) != (scalar)grid[i];
    }
    CU_ASSERT_EQUAL(grid[count - 1], f->largest);
    CU_ASSERT_EQUAL(wrong, 0);
    free(grid);
}

static void nearest_number(void)
{
    check_grid(&rounding_fp16);
    check_grid(&rounding_bf16);
    check_grid(&rounding_fp8);
}

static void beyond(void)
{
    CU_ASSERT(isinf(rounded(&rounding_fp16, 65520)));
    CU_ASSERT_EQUAL(rounded(&rounding_fp16, 65519), 65504);
    CU_ASSERT_EQUAL(rounded(&rounding_fp8, 1e9), 448);
    CU_ASSERT_EQUAL(rounded(&rounding_fp8, -INFINITY), -448);
    CU_ASSERT(isinf(rounded(&rounding_bf16, INFINITY)));
    CU_ASSERT(isnan(rounded(&rounding_fp8, NAN)));
    CU_ASSERT_EQUAL(rounded(&rounding_fp16, 1e-9), 0);
    CU_ASSERT(signbit(rounded(&rounding_fp16, -1e-9)) != 0);
}

/* bf16 is the upper half of an fp32. */
static void bits_of_bf16(void)
{
    const struct random_key key = {.seed = 3, .purpose = RANDOM_TEST};
    size_t wrong = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)random_u64(key, i), back;
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value) || !isfinite(rounded(&rounding_bf16, value)))
            continue;
        uint32_t expected = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
        float after = (float)rounded(&rounding_bf16, value);
        memcpy(&back, &after, sizeof back);
        wrong += back != expected;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void stochastic(void)
{
    enum { DRAWS = 20000 };
    static scalar values[DRAWS];
    const struct random_key key = {.seed = 5, .purpose = RANDOM_ROUNDING};
    const double value = 1 + 0.3 / 1024; /* three tenths of fp16's spacing above 1 */
    double sum = 0;
    size_t wrong = 0;
    for (size_t i = 0; i < DRAWS; i++)
        values[i] = (scalar)value;
    rounding_stochastic(&rounding_fp16, values, DRAWS, key, 0);
    for (size_t i = 0; i < DRAWS; i++) {
        sum += values[i];
        wrong += values[i] != 1 && values[i] != (scalar)(1 + 1.0 / 1024);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(fabs(sum / DRAWS - value) < 4 * 0.46 / 1024 / sqrt(DRAWS));
    scalar seventh = (scalar)value; /* draws the same, whoever asks */
    rounding_stochastic(&rounding_fp16, &seventh, 1, key, 7);
    CU_ASSERT_EQUAL(seventh, values[7]);
    scalar exact = 1.5;
    rounding_stochastic(&rounding_fp8, &exact, 1, key, 0);
    CU_ASSERT_EQUAL(exact, 1.5);
}

static const struct check checks[] = {
    {"the nearest number, halves to even", nearest_number},
    {"beyond the largest, and below the smallest", beyond},
    {"bf16 by its bits", bits_of_bf16},
    {"stochastic rounding keeps the mean", stochastic},
};

CHECK_MAIN("rounding", checks)
