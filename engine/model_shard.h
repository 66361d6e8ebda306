/* Tensor parallelism (Shoeybi et al. 2019, section 3): a model as one of several ranks
 * computes it. Two products with element-wise layers between them become a product with
 * its columns split and one with its rows split; attention is split by heads. What such a
 * group puts out is a term of a sum over the ranks, and so is the gradient that it gives
 * back; the bias after the sum is a layer of its own, and so is a copy of an input that
 * other layers use too. */
#ifndef PODSIM_ENGINE_MODEL_SHARD_H
#define PODSIM_ENGINE_MODEL_SHARD_H

#include "engine/model.h"

/* Where a tensor of the shard lies in the whole model's: seen as [outer, ranks, inner], a
 * rank holds the stretch [:, rank, :]. `replicated`: each rank holds all. */
struct model_slice {
    size_t layer, tensor; /* in the shard */
    size_t whole_layer, whole_tensor;
    uint64_t outer, inner; /* scalars */
    bool replicated;
};

/* Layers [first, end) of the shard that each rank computes its term of. */
struct split_group {
    size_t first_layer, end_layer;
};

struct model_shard {
    struct model *model;
    struct model_slice *slices;
    size_t slice_count, slice_capacity;
    struct split_group *groups;
    size_t group_count, group_capacity;
};

/* ranks >= 2. Refuses a model in which nothing can be split, and sizes that ranks does not
 * divide. */
bool model_shard_make(const struct model *model, uint32_t ranks, struct model_shard *shard,
                      struct error *error);
void model_shard_release(struct model_shard *shard);

#endif
