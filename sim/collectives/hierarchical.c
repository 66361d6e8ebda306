/* Rings inside groups of neighbouring ranks, and across them: reduce-scatter inside, so
 * that member i of a group holds the group's sum of piece i; all-reduce of piece i over the
 * members i of all groups; all-gather inside. Only 1 / group of the array leaves a group
 * through each member. Ranks beyond the last whole group are folded into it. */
#include "sim/collectives/ring.h"

struct place {
    uint32_t members, groups; /* whole groups only */
    uint32_t group, member;
    bool folds; /* some rank is beyond the groups */
};

static struct place place_of(const struct collective *c, uint32_t rank)
{
    struct place p;
    p.members = c->group == 0 || c->group > c->ranks ? c->ranks : c->group;
    p.groups = c->ranks / p.members;
    p.group = rank / p.members;
    p.member = rank % p.members;
    p.folds = c->ranks % p.members != 0;
    return p;
}

static bool supports(enum collective_goal goal)
{
    return goal == GOAL_ALL_REDUCE;
}

static uint64_t rounds(const struct collective *c)
{
    struct place p = place_of(c, 0);
    return 2 * (uint64_t)p.folds + ring_rounds(GOAL_REDUCE_SCATTER, p.members) +
           ring_rounds(GOAL_ALL_REDUCE, p.groups) + ring_rounds(GOAL_ALL_GATHER, p.members);
}

/* The first and the last round, when ranks are folded. */
static void fold(const struct collective *c, const struct place *p, uint32_t rank,
                 bool before, struct collective_move *move)
{
    bool beyond = p->group == p->groups;
    uint64_t other = beyond ? (uint64_t)rank - p->members : (uint64_t)rank + p->members;
    if (other >= c->ranks || (!beyond && p->group + 1 != p->groups))
        return;
    move->sends = beyond == before;
    move->receives = !move->sends;
    move->reduces = before;
    move->to = move->from = (uint32_t)other;
    move->send_count = move->receive_count = c->count;
}

static void inside(const struct collective *c, const struct place *p,
                   enum collective_goal goal, uint64_t round, struct collective_move *move)
{
    ring_move(goal, p->members, p->member, round, 0, c->count, move);
    move->to += p->group * p->members;
    move->from += p->group * p->members;
}

static void across(const struct collective *c, const struct place *p, uint64_t round,
                   struct collective_move *move)
{
    uint64_t first, count;
    collective_piece(c->count, p->members, p->member, &first, &count);
    ring_move(GOAL_ALL_REDUCE, p->groups, p->group, round, first, count, move);
    move->to = move->to * p->members + p->member;
    move->from = move->from * p->members + p->member;
}

static void move(const struct collective *c, uint32_t rank, uint64_t round,
                 struct collective_move *move)
{
    struct place p = place_of(c, rank);
    uint64_t scatter = ring_rounds(GOAL_REDUCE_SCATTER, p.members);
    uint64_t ring = ring_rounds(GOAL_ALL_REDUCE, p.groups);
    if (p.folds && (round == 0 || round + 1 == rounds(c))) {
        fold(c, &p, rank, round == 0, move);
        return;
    }
    round -= p.folds;
    if (p.group == p.groups)
        return;
    if (round < scatter)
        inside(c, &p, GOAL_REDUCE_SCATTER, round, move);
    else if (round < scatter + ring)
        across(c, &p, round - scatter, move);
    else
        inside(c, &p, GOAL_ALL_GATHER, round - scatter - ring, move);
}

const struct collective_algorithm collective_hierarchical = {
    .name = "hierarchical",
    .summary = "rings inside groups of ranks and across them, for machines made of nodes",
    .supports = supports,
    .rounds = rounds,
    .move = move,
};
