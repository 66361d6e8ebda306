/* exp, tanh and erf that the compiler can put into vector loops, in single precision; the
 * same bits whatever the vector width. The largest errors over all arguments, in units in
 * the last place: exp 1, tanh 1.3, erf 1.3 (tests/test_vector_math.c). The polynomials are
 * least-maximum fits made for these intervals. In double they are those of libm. */
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

static inline scalar vector_erf(scalar x)
{
    return erf(x);
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

/* Near 0 an odd polynomial, beyond 1 - exp(-P(|x|)). */
static inline scalar vector_erf(scalar x)
{
    float a = fabsf(x), s = x * x;
    float p = 7.854008436e-05F;
    p = p * s + -8.010242018e-04F;
    p = p * s + 5.188333802e-03F;
    p = p * s + -2.685381472e-02F;
    p = p * s + 1.128358543e-01F;
    p = p * s + -3.761262596e-01F;
    p = p * s + 1.283791661e-01F;
    float near = x + x * p;
    float c = a > 4.0F ? 4.0F : a;
    float q = -1.915050379e-04F;
    q = q * c + 2.999549033e-03F;
    q = q * c + -2.205202915e-02F;
    q = q * c + 1.035669520e-01F;
    q = q * c + 6.375999451e-01F;
    q = q * c + 1.127426147e+00F;
    q = q * c + 2.564366441e-04F;
    float far = copysignf(1 - vector_exp(-q), x);
    return a < 1.0F ? near : far;
}

#endif

#endif
