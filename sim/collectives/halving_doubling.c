/* Reduce-scatter by recursive halving, all-gather by recursive doubling (Rabenseifner
 * 2004): 2 log2(n) rounds, 2 (n - 1) / n of the array, when n is a power of two.
 *
 * For any n: a group of m ranks splits into a lower half of ceil(m / 2) ranks and an upper
 * one. Rank i of one half exchanges with rank i of the other, each giving the pieces that
 * the other half will own. When m is odd the last lower rank has no such partner and gives
 * its share to the last upper rank in a round of its own. So every rank ends with the piece
 * of its own number.
 *
 * halving_doubling_folded instead makes n a power of two by folding, and begins with the
 * nearest partners, as MPICH does. */
#include "sim/collectives/fold.h"

struct level {
    uint32_t first, middle, end; /* ranks: lower half, upper half */
};

/* The group of the rank at a level, counted from the top. */
static struct level level_of(uint32_t ranks, uint32_t rank, uint64_t number)
{
    struct level level = {.end = ranks};
    for (uint64_t i = 0;; i++) {
        uint32_t members = level.end - level.first;
        level.middle = level.first + members - members / 2;
        if (i == number)
            return level;
        if (rank < level.middle)
            level.end = level.middle;
        else
            level.first = level.middle;
    }
}

/* Pieces [from, until) of n. */
static void pieces(uint64_t count, uint32_t ranks, uint32_t from, uint32_t until,
                   uint64_t *first, uint64_t *many)
{
    uint64_t end, last;
    collective_piece(count, ranks, from, first, many);
    collective_piece(count, ranks, until - 1, &end, &last);
    *many = end + last - *first;
}

/* Rounds of one level: a second one for odd groups, which only powers of two never have. */
static uint64_t rounds_of_level(uint32_t ranks)
{
    return 1 + fold_rounds(ranks);
}

static uint64_t halving_rounds(enum collective_goal goal, uint32_t ranks)
{
    return (goal == GOAL_ALL_REDUCE ? 2 : 1) * log2_ceiling(ranks) * rounds_of_level(ranks);
}

/* Halving hands over what the other half will own, doubling what one's own half has. */
static void exchange(uint64_t count, uint32_t ranks, const struct level *level, bool lower,
                     bool gathers, struct collective_move *move)
{
    uint64_t first[2], many[2];
    pieces(count, ranks, level->first, level->middle, &first[0], &many[0]);
    pieces(count, ranks, level->middle, level->end, &first[1], &many[1]);
    int own = lower ? 0 : 1;
    int sent = gathers ? own : 1 - own;
    move->reduces = !gathers;
    move->send_first = first[sent];
    move->send_count = many[sent];
    move->receive_first = first[1 - sent];
    move->receive_count = many[1 - sent];
}

static void halving_move(enum collective_goal goal, uint64_t count, uint32_t ranks,
                         uint32_t rank, uint64_t round, struct collective_move *move)
{
    uint64_t per_level = rounds_of_level(ranks);
    uint64_t levels = log2_ceiling(ranks), number = round / per_level;
    bool gathers = goal == GOAL_ALL_GATHER || number >= levels;
    if (gathers)
        number = levels - 1 - number % levels;
    struct level level = level_of(ranks, rank, number);
    uint32_t lower = level.middle - level.first, upper = level.end - level.middle;
    bool is_lower = rank < level.middle;
    if (upper == 0)
        return;
    if (round % per_level == 0) {
        if (is_lower && rank - level.first >= upper)
            return;
        move->sends = move->receives = true;
        move->to = move->from = is_lower ? rank + lower : rank - lower;
    } else {
        if (lower == upper || (rank != level.middle - 1 && rank != level.end - 1))
            return;
        move->sends = is_lower != gathers;
        move->receives = !move->sends;
        move->to = move->from = is_lower ? level.end - 1 : level.middle - 1;
    }
    exchange(count, ranks, &level, is_lower, gathers, move);
}

static bool supports(enum collective_goal goal)
{
    (void)goal;
    return true;
}

static uint64_t rounds(const struct collective *c)
{
    return halving_rounds(c->goal, c->ranks);
}

static void move(const struct collective *c, uint32_t rank, uint64_t round,
                 struct collective_move *move)
{
    halving_move(c->goal, c->count, c->ranks, rank, round, move);
}

static bool folded_supports(enum collective_goal goal)
{
    return goal == GOAL_ALL_REDUCE;
}

static uint64_t folded_rounds(const struct collective *c)
{
    return halving_rounds(c->goal, fold_of(c->ranks, 0).ranks) + 2 * fold_rounds(c->ranks);
}

/* The place with its bits in reverse: neighbours exchange the largest halves. */
static uint32_t mirrored(uint32_t ranks, uint32_t place)
{
    uint32_t mirror = 0;
    for (uint32_t bit = 1; bit < ranks; bit *= 2, place /= 2)
        mirror = 2 * mirror + place % 2;
    return mirror;
}

static void folded_move(const struct collective *c, uint32_t rank, uint64_t round,
                        struct collective_move *move)
{
    struct fold fold = fold_of(c->ranks, rank);
    uint64_t core_round, core_rounds = halving_rounds(c->goal, fold.ranks);
    if (fold_move(c, &fold, rank, round, core_rounds, move, &core_round))
        return;
    halving_move(c->goal, c->count, fold.ranks, mirrored(fold.ranks, fold.place),
                 core_round, move);
    move->to = fold_rank(&fold, mirrored(fold.ranks, move->to));
    move->from = fold_rank(&fold, mirrored(fold.ranks, move->from));
}

const struct collective_algorithm collective_halving_doubling = {
    .name = "halving_doubling",
    .summary = "2 log2(n) rounds, as few bytes as the ring when n is a power of two",
    .supports = supports,
    .rounds = rounds,
    .move = move,
};

const struct collective_algorithm collective_halving_doubling_folded = {
    .name = "halving_doubling_folded",
    .summary = "the same among a power of two of the ranks, the others folded in (MPICH's)",
    .supports = folded_supports,
    .rounds = folded_rounds,
    .move = folded_move,
};
