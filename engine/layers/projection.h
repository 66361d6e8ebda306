/* The matrix product with bias that linear and the attentions are made of:
 * y = x W' + b with x [rows, in], W [out, in], b [out] or NULL, y [rows, out]. */
#ifndef PODSIM_ENGINE_LAYERS_PROJECTION_H
#define PODSIM_ENGINE_LAYERS_PROJECTION_H

#include "engine/layer.h"

struct projection {
    size_t rows, in, out;
};

void projection_forward(const struct projection *size, const scalar *x,
                        const scalar *weight, const scalar *bias, scalar *y);
void projection_backward_input(const struct projection *size, const scalar *dy,
                               const scalar *weight, bool accumulate, scalar *dx);
/* Adds to both; d_bias may be NULL. */
void projection_backward_weight(const struct projection *size, const scalar *dy,
                                const scalar *x, scalar *d_weight, scalar *d_bias);

/* Multiply-adds for one sample of `rows` rows, and the FLOPs with the bias. */
static inline uint64_t projection_macs(uint64_t rows, uint64_t in, uint64_t out)
{
    return layer_multiply(rows, layer_multiply(in, out));
}

static inline uint64_t projection_flops(uint64_t rows, uint64_t in, uint64_t out, bool bias)
{
    return layer_sum(layer_multiply(2, projection_macs(rows, in, out)),
                     bias ? layer_multiply(rows, out) : 0);
}

#endif
