/* Recursive doubling: in round k the ranks whose numbers differ in bit k exchange their
 * whole arrays and add. log2(n) rounds, each of S bytes: best for small arrays. Other than
 * powers of two are folded first, which adds two rounds of S. */
#include "sim/collectives/fold.h"

static bool supports(enum collective_goal goal)
{
    return goal == GOAL_ALL_REDUCE;
}

static uint64_t core_rounds(const struct collective *c)
{
    return log2_ceiling(fold_of(c->ranks, 0).ranks);
}

static uint64_t rounds(const struct collective *c)
{
    return core_rounds(c) + 2 * fold_rounds(c->ranks);
}

static void move(const struct collective *c, uint32_t rank, uint64_t round,
                 struct collective_move *move)
{
    struct fold fold = fold_of(c->ranks, rank);
    uint64_t core_round;
    if (fold_move(c, &fold, rank, round, core_rounds(c), move, &core_round))
        return;
    move->sends = move->receives = move->reduces = true;
    move->to = move->from = fold_rank(&fold, fold.place ^ (UINT32_C(1) << core_round));
    move->send_count = move->receive_count = c->count;
}

const struct collective_algorithm collective_recursive_doubling = {
    .name = "recursive_doubling",
    .summary = "log2(n) rounds of all the data, best for small arrays",
    .supports = supports,
    .rounds = rounds,
    .move = move,
};
