#include "sim/collectives/fold.h"

struct fold fold_of(uint32_t ranks, uint32_t rank)
{
    struct fold fold = {.ranks = 1};
    while (fold.ranks <= ranks / 2)
        fold.ranks *= 2;
    fold.pairs = ranks - fold.ranks;
    if (rank >= 2 * fold.pairs)
        fold.place = rank - fold.pairs;
    else
        fold.place = rank % 2 == 0 ? PLAN_NONE : rank / 2;
    return fold;
}

uint32_t fold_rank(const struct fold *fold, uint32_t place)
{
    return place < fold->pairs ? 2 * place + 1 : place + fold->pairs;
}

uint64_t fold_rounds(uint32_t ranks)
{
    return (ranks & (ranks - 1)) != 0;
}

/* The whole array from one rank to its neighbour. */
static void hand_over(const struct collective *c, bool sends, uint32_t other, bool reduces,
                      struct collective_move *move)
{
    move->sends = sends;
    move->receives = !sends;
    move->reduces = reduces;
    move->to = move->from = other;
    move->send_count = move->receive_count = c->count;
}

bool fold_move(const struct collective *c, const struct fold *fold, uint32_t rank,
               uint64_t round, uint64_t core_rounds, struct collective_move *move,
               uint64_t *core_round)
{
    uint64_t extra = fold_rounds(c->ranks);
    bool before = round < extra, after = round >= extra + core_rounds;
    bool even = rank % 2 == 0;
    *core_round = round - extra;
    if (!before && !after)
        return fold->place == PLAN_NONE;
    if (rank < 2 * fold->pairs)
        hand_over(c, even == before, even ? rank + 1 : rank - 1, before, move);
    return true;
}
