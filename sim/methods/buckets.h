/* Gradients exchanged bucket by bucket: where a part's layers are cut into buckets, and
 * programs rewritten so that a bucket goes out as soon as its backward is done. */
#ifndef PODSIM_SIM_METHODS_BUCKETS_H
#define PODSIM_SIM_METHODS_BUCKETS_H

#include "sim/method.h"

/* At most `count` buckets of about as many parameters each, cut between layers; a part with
 * fewer layers that have parameters gets fewer. */
bool buckets_cut(struct plan *plan, uint32_t part, uint64_t count, struct error *error);

/* In the programs of the copies [first, end): the exchange of a part's sums. A part with
 * shard_gradients does it after every backward, bucket by bucket. Of the others, those with
 * several sums do it in a side stream, beside the backward of their earlier layers, where
 * all processors of these copies overlap. sums are in the order of backward. */
bool buckets_interleave(struct planner *planner, uint32_t first, uint32_t end,
                        struct error *error);

#endif
