/* The ring: n - 1 rounds in which sums travel, n - 1 in which they are handed on. Every
 * rank sends 2 (n - 1) / n of the array; with pieces as even as can be the time is
 * 2 (n - 1) (L + S / (n B)) (Patarasuk and Yuan 2009). After the first half rank r holds
 * the whole sum of piece r. */
#include "sim/collective.h"

static bool supports(enum collective_goal goal)
{
    (void)goal;
    return true;
}

static uint64_t rounds(const struct collective *c)
{
    return (c->goal == GOAL_ALL_REDUCE ? 2 : 1) * (uint64_t)(c->ranks - 1);
}

/* (rank - back) mod n, for any back <= 2 n. */
static uint32_t behind(const struct collective *c, uint32_t rank, uint64_t back)
{
    return (uint32_t)((rank + 2 * (uint64_t)c->ranks - back) % c->ranks);
}

static void move(const struct collective *c, uint32_t rank, uint64_t round,
                 struct collective_move *move)
{
    bool gathers = c->goal == GOAL_ALL_GATHER ||
                   (c->goal == GOAL_ALL_REDUCE && round >= c->ranks - 1);
    uint64_t back = gathers ? round % (c->ranks - 1) : round + 1;
    move->sends = move->receives = true;
    move->reduces = !gathers;
    move->to = behind(c, rank, (uint64_t)c->ranks - 1);
    move->from = behind(c, rank, 1);
    collective_piece(c->count, c->ranks, behind(c, rank, back), &move->send_first,
                     &move->send_count);
    collective_piece(c->count, c->ranks, behind(c, rank, back + 1), &move->receive_first,
                     &move->receive_count);
}

const struct collective_algorithm collective_ring = {
    .name = "ring",
    .summary = "2 (n - 1) rounds of 1/n of the data each, best for large arrays",
    .supports = supports,
    .rounds = rounds,
    .move = move,
};
