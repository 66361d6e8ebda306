/* A binomial tree: sums go up to rank 0, the result goes down the same way. The parent of
 * a rank is the rank without its lowest one bit. Twice log2(n) rounds of all the data. */
#include "sim/collectives/fold.h"

static bool supports(enum collective_goal goal)
{
    return goal == GOAL_ALL_REDUCE;
}

static uint64_t rounds(const struct collective *c)
{
    return 2 * (uint64_t)log2_ceiling(c->ranks);
}

static void move(const struct collective *c, uint32_t rank, uint64_t round,
                 struct collective_move *move)
{
    uint64_t levels = log2_ceiling(c->ranks);
    bool up = round < levels;
    uint64_t bit = UINT64_C(1) << (up ? round : 2 * levels - 1 - round);
    bool child = (rank & bit) != 0;
    if ((rank & (bit - 1)) != 0 || (!child && rank + bit >= c->ranks))
        return;
    move->sends = child == up;
    move->receives = !move->sends;
    move->reduces = up;
    move->to = move->from = (uint32_t)(child ? rank - bit : rank + bit);
    move->send_count = move->receive_count = c->count;
}

const struct collective_algorithm collective_tree = {
    .name = "tree",
    .summary = "binomial tree up and down, 2 log2(n) rounds of all the data",
    .supports = supports,
    .rounds = rounds,
    .move = move,
};
