/* For algorithms that want a power of two of ranks: of the first ones, each even rank
 * adds its array to its right neighbour's, sits the algorithm out, and gets the result
 * at the end. The others, the core, are renumbered. */
#ifndef PODSIM_SIM_COLLECTIVES_FOLD_H
#define PODSIM_SIM_COLLECTIVES_FOLD_H

#include "sim/collective.h"

struct fold {
    uint32_t ranks; /* of the core: the largest power of two */
    uint32_t pairs; /* even ranks that sit out */
    uint32_t place; /* of the rank in the core; PLAN_NONE: it sits out */
};

struct fold fold_of(uint32_t ranks, uint32_t rank);
/* The rank at a place of the core. */
uint32_t fold_rank(const struct fold *fold, uint32_t place);
/* Rounds before, and again after, those of the core: 0 or 1. */
uint64_t fold_rounds(uint32_t ranks);
/* Fills the move of the folding rounds and returns true; else false and the core's
 * round. */
bool fold_move(const struct collective *c, const struct fold *fold, uint32_t rank,
               uint64_t round, uint64_t core_rounds, struct collective_move *move,
               uint64_t *core_round);

static inline uint32_t log2_ceiling(uint32_t ranks)
{
    uint32_t levels = 0;
    while ((UINT64_C(1) << levels) < ranks)
        levels++;
    return levels;
}

#endif
