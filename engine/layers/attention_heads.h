/* Scaled dot-product attention of several heads (Vaswani et al. 2017, section 3.2), the
 * part between the projections. Per sample and head, with q [queries, head], k and v
 * [keys, head]: p = softmax(q k' / sqrt(head)), context = p v. */
#ifndef PODSIM_ENGINE_LAYERS_ATTENTION_HEADS_H
#define PODSIM_ENGINE_LAYERS_ATTENTION_HEADS_H

#include "engine/layer.h"

struct attention_size {
    size_t batch, queries, keys, heads, width;
    bool causal; /* query i sees the keys 0..i only */
};

/* Rows of all heads side by side, `stride` scalars apart. */
struct attention_values {
    const scalar *q, *k, *v;
    size_t q_stride, kv_stride;
};

struct attention_gradients {
    scalar *q, *k, *v; /* overwritten; strides as above */
};

/* p [batch, heads, queries, keys], of which causal heads leave unwritten what nobody reads;
 * context [batch, queries, width]. */
void attention_forward(const struct attention_size *size,
                       const struct attention_values *values, scalar *p, scalar *context);
/* scores: scratch of queries * keys. */
void attention_backward(const struct attention_size *size,
                        const struct attention_values *values, const scalar *p,
                        const scalar *d_context, const struct attention_gradients *d,
                        scalar *scores);

/* Of one sample. Both products are counted in full, also where a causal mask makes half
 * of their terms zero, as is usual. The exponential counts as four FLOPs. */
uint64_t attention_macs(uint64_t queries, uint64_t keys, uint64_t width);
uint64_t attention_forward_flops(uint64_t queries, uint64_t keys, uint64_t width,
                                 uint64_t heads);
uint64_t attention_backward_flops(uint64_t queries, uint64_t keys, uint64_t width,
                                  uint64_t heads);

#endif
