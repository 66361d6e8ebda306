/* A ring's moves over any stretch, for algorithms made of rings. */
#ifndef PODSIM_SIM_COLLECTIVES_RING_H
#define PODSIM_SIM_COLLECTIVES_RING_H

#include "sim/collective.h"

/* Rounds of a ring of `ranks` >= 1. */
uint64_t ring_rounds(enum collective_goal goal, uint32_t ranks);
/* The move of the rank at `place` of the ring; `to` and `from` are places, too. The
 * stretch is scalars [first, first + count). After a reduce-scatter a place holds the
 * piece of its number. */
void ring_move(enum collective_goal goal, uint32_t ranks, uint32_t place, uint64_t round,
               uint64_t first, uint64_t count, struct collective_move *move);

#endif
