/* Sums in eight lanes: fast, and the same whatever the vector width. */
#ifndef PODSIM_ENGINE_LAYERS_LANES_H
#define PODSIM_ENGINE_LAYERS_LANES_H

#include "engine/scalar.h"

#include <stddef.h>

static inline scalar lanes_total(const scalar lane[8])
{
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static inline scalar lanes_sum(const scalar *restrict x, size_t count)
{
    scalar lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            lane[k] += x[i + k];
    for (size_t k = 0; i + k < count; k++)
        lane[k] += x[i + k];
    return lanes_total(lane);
}

/* Sum of (x - mean)^2. */
static inline scalar lanes_squares(const scalar *restrict x, size_t count, scalar mean)
{
    scalar lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (size_t k = 0; i + k < count; k++)
        lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
    return lanes_total(lane);
}

/* Sum of g (x - mean). */
static inline scalar lanes_product(const scalar *restrict g, const scalar *restrict x,
                                   size_t count, scalar mean)
{
    scalar lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            lane[k] += g[i + k] * (x[i + k] - mean);
    for (size_t k = 0; i + k < count; k++)
        lane[k] += g[i + k] * (x[i + k] - mean);
    return lanes_total(lane);
}

#endif
