/* exp, tanh and the normal distribution, which the compiler can put into vector loops; the
 * same bits whatever the vector width. The largest errors over all arguments
 * (tests/test_vector_math.c): exp 1 and tanh 1.3 units in the last place, the distribution
 * 3e-7. The polynomials are least-maximum fits made for these intervals. In double all
 * are those of libm. */
#ifndef PODSIM_ENGINE_VECTOR_MATH_H
#define PODSIM_ENGINE_VECTOR_MATH_H

#include "engine/scalar.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In front of a function whose loops are worth wider vectors than every x86-64 has: the
 * version is chosen at load time. Multiply-adds are never contracted, so that all versions
 * give the same bits. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR_CLONES
#endif

#ifdef PODSIM_DOUBLE

static inline scalar vector_exp(scalar x)
{
    return exp(x);
}

static inline scalar vector_tanh(scalar x)
{
    return tanh(x);
}

static inline scalar vector_normal(scalar x, scalar *bell)
{
    *bell = exp(x * x / -2);
    return erfc(x * -0.70710678118654752440) / 2;
}

#else

/* x = n ln 2 + r; exp(x) = 2^n exp(r). Results below 1.9e-38 are 0; NaN stays NaN. */
static inline scalar vector_exp(scalar x)
{
    const float shift = 0x1.8p23F; /* adding it rounds to an integer, in the low bits */
    float bounded = x > 89.0F ? 89.0F : x;
    float shifted = bounded * 1.44269504F + shift;
    float n = shifted - shift;
    float r = bounded - n * 0x1.62e4p-1F;
    r = r - n * 0x1.7f7d1cf8p-20F;
    float p = 1.381314243e-03F;
    p = p * r + 8.369418792e-03F;
    p = p * r + 4.166845605e-02F;
    p = p * r + 1.666651517e-01F;
    p = p * r + 4.999999404e-01F;
    p = (p * r * r + r) + 1;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 126) << 23; /* 2^(n - 1): n may be 128 */
    float power;
    memcpy(&power, &bits, sizeof power);
    float result = 2 * p * power;
    return x < -86.9F ? 0 : result;
}

static inline scalar vector_tanh(scalar x)
{
    float a = fabsf(x), s = x * x;
    float p = -5.515167024e-03F;
    p = p * s + 2.046942338e-02F;
    p = p * s + -5.368802324e-02F;
    p = p * s + 1.333083063e-01F;
    p = p * s + -3.333325982e-01F;
    float near = x + x * s * p;
    float far = copysignf(1 - 2 / (vector_exp(2 * a) + 1), x);
    return a < 0.65F ? near : far;
}

/* Phi(x), the normal distribution, and in *bell exp(-x^2 / 2). The smaller tail is
 * bell t Q(t) with t = 1 / (1 + |x| / 4). */
static inline scalar vector_normal(scalar x, scalar *bell)
{
    float a = fabsf(x), t = 1 / (1 + 0.25F * a);
    float q = 2.689249525e-02F;
    q = q * t + -1.586026432e-01F;
    q = q * t + 3.083600373e-01F;
    q = q * t + -2.201477390e-01F;
    q = q * t + 2.119834928e-01F;
    q = q * t + 2.841670111e-02F;
    q = q * t + 1.049491077e-01F;
    q = q * t + 9.834008263e-02F;
    q = q * t + 9.980844217e-02F;
    *bell = vector_exp(a * a * -0.5F);
    float tail = *bell * (t * q);
    return x > 0 ? 1 - tail : tail;
}

#endif

#endif
