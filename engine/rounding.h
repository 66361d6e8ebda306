/* Values of narrower number formats, kept in scalars: what a value becomes when it is
 * stored as fp16, bf16 or fp8 (E4M3: Micikevicius et al. 2022, without its infinities). */
#ifndef PODSIM_ENGINE_ROUNDING_H
#define PODSIM_ENGINE_ROUNDING_H

#include "base/random.h"
#include "engine/scalar.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 1 + mantissa_bits significant bits; below 2^minimum_exponent the spacing stays (subnormal
 * numbers); beyond `largest`: infinity where the format has one, else the largest. */
struct rounding {
    int mantissa_bits;
    int minimum_exponent;
    double largest;
    bool saturates;
};

extern const struct rounding rounding_fp16, rounding_bf16, rounding_fp8;

/* To the nearest, halves to even. NaN stays NaN. In place. */
void rounding_nearest(const struct rounding *format, scalar *values, size_t count);
/* Up or down with the probability of the distance, so that the mean is kept: element i
 * draws number first + i of the key. */
void rounding_stochastic(const struct rounding *format, scalar *values, size_t count,
                         struct random_key key, uint64_t first);

#endif
