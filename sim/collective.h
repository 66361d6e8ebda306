/* Collectives: an algorithm says what a rank sends and receives in every round. One file
 * in sim/collectives/ and one line in the table of sim/collective.c each. */
#ifndef PODSIM_SIM_COLLECTIVE_H
#define PODSIM_SIM_COLLECTIVE_H

#include "sim/plan.h"

/* One rank in one round: the send (if any) is under way before the receive (if any) is
 * waited for. Offsets and counts are scalars within the collective's stretch; a count of
 * 0 still is a message. */
struct collective_move {
    bool sends, receives, reduces; /* reduces: what comes in is added, else it replaces */
    uint32_t to, from;             /* ranks */
    uint64_t send_first, send_count;
    uint64_t receive_first, receive_count;
    uint32_t send_lane, receive_lane; /* messages of one lane follow each other */
};

struct collective_algorithm {
    const char *name;
    const char *summary;
    bool (*supports)(enum collective_goal goal);
    uint64_t (*rounds)(const struct collective *collective);
    void (*move)(const struct collective *collective, uint32_t rank, uint64_t round,
                 struct collective_move *move);
    /* Ways beside each other from one rank to another; NULL: one. */
    uint32_t (*lanes)(const struct collective *collective);
};

/* Of "multi_ring". */
enum { COLLECTIVE_MAX_RINGS = 64 };

size_t collective_algorithm_count(void);
const struct collective_algorithm *collective_algorithm_get(size_t index);
const struct collective_algorithm *collective_algorithm_find(const char *name);

/* Piece `piece` of `pieces` of a stretch: as even as can be, the larger first. */
void collective_piece(uint64_t count, uint32_t pieces, uint32_t piece, uint64_t *first,
                      uint64_t *piece_count);
/* The first scalar of the stretch in a rank's array. */
uint64_t collective_first(const struct collective *collective, uint32_t rank);
/* What the array's scalars are kept and sent in. */
enum number_format collective_format(const struct plan *plan,
                                     const struct collective *collective);
/* The edge between two ranks; PLAN_NONE when there is none. Slots are all these edges. */
uint32_t collective_edge(const struct collective *collective, uint32_t lane, uint32_t from,
                         uint32_t to);
size_t collective_slots(const struct collective *collective);
/* The rank of a part; PLAN_NONE when it takes no part. */
uint32_t collective_rank(const struct collective *collective, uint32_t part);

#endif
