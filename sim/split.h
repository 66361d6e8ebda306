/* Sums over the ranks of tensor parallelism (Shoeybi et al. 2019, section 3): what a split
 * layer group makes, and the gradient that it gives back, are terms of them. */
#ifndef PODSIM_SIM_SPLIT_H
#define PODSIM_SIM_SPLIT_H

#include "sim/plan.h"

/* Parts that hold the same layers, one of every rank of plan->slice_ranks, get the
 * collectives of the groups that they hold. Call before the programs are emitted. */
bool split_sums(struct plan *plan, uint32_t *parts, struct error *error);

#endif
