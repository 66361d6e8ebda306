/* The ring: n - 1 rounds in which sums travel, n - 1 in which they are handed on. Every
 * rank sends 2 (n - 1) / n of the array; with pieces as even as can be the time is
 * 2 (n - 1) (L + S / (n B)) (Patarasuk and Yuan 2009). */
#include "sim/collectives/ring.h"

uint64_t ring_rounds(enum collective_goal goal, uint32_t ranks)
{
    return (goal == GOAL_ALL_REDUCE ? 2 : 1) * (uint64_t)(ranks - 1);
}

/* (place - back) mod n, for any back <= 2 n. */
static uint32_t behind(uint32_t ranks, uint32_t place, uint64_t back)
{
    return (uint32_t)((place + 2 * (uint64_t)ranks - back) % ranks);
}

void ring_move(enum collective_goal goal, uint32_t ranks, uint32_t place, uint64_t round,
               uint64_t first, uint64_t count, struct collective_move *move)
{
    bool gathers =
        goal == GOAL_ALL_GATHER || (goal == GOAL_ALL_REDUCE && round >= ranks - 1);
    uint64_t back = gathers ? round % (ranks - 1) : round + 1;
    move->sends = move->receives = true;
    move->reduces = !gathers;
    move->to = behind(ranks, place, (uint64_t)ranks - 1);
    move->from = behind(ranks, place, 1);
    collective_piece(count, ranks, behind(ranks, place, back), &move->send_first,
                     &move->send_count);
    collective_piece(count, ranks, behind(ranks, place, back + 1), &move->receive_first,
                     &move->receive_count);
    move->send_first += first;
    move->receive_first += first;
}

static bool supports(enum collective_goal goal)
{
    (void)goal;
    return true;
}

static uint64_t rounds(const struct collective *c)
{
    return ring_rounds(c->goal, c->ranks);
}

static void move(const struct collective *c, uint32_t rank, uint64_t round,
                 struct collective_move *move)
{
    ring_move(c->goal, c->ranks, rank, round, 0, c->count, move);
}

const struct collective_algorithm collective_ring = {
    .name = "ring",
    .summary = "2 (n - 1) rounds of 1/n of the data each, best for large arrays",
    .supports = supports,
    .rounds = rounds,
    .move = move,
};
