/* Several rings at once, each with its share of the array: for machines with more links
 * than one ring can use. By default two rings, one in each direction.
 *
 * What a rank sends is numbered through the rings: message j is round j / k of ring j % k.
 * In every round of the whole it sends message j and waits for message j - (k - 1), so that
 * k messages are under way at once. On a processor that waits for its own sends they follow
 * each other, and nothing is gained. */
#include "sim/collectives/ring.h"

static uint32_t ring_count(const struct collective *c)
{
    return c->rings != NULL ? c->ring_count : 2;
}

static bool supports(enum collective_goal goal)
{
    return goal == GOAL_ALL_REDUCE;
}

static uint64_t rounds(const struct collective *c)
{
    uint64_t messages = ring_rounds(c->goal, c->ranks) * ring_count(c);
    return messages == 0 ? 0 : messages + ring_count(c) - 1;
}

static uint32_t place_of(const struct collective *c, uint32_t ring, uint32_t rank)
{
    if (c->rings != NULL)
        return c->places[(size_t)ring * c->ranks + rank];
    return ring == 0 ? rank : c->ranks - 1 - rank;
}

static uint32_t rank_at(const struct collective *c, uint32_t ring, uint32_t place)
{
    if (c->rings != NULL)
        return c->rings[(size_t)ring * c->ranks + place];
    return ring == 0 ? place : c->ranks - 1 - place;
}

static void message(const struct collective *c, uint32_t rank, uint64_t number,
                    struct collective_move *move)
{
    uint32_t rings = ring_count(c), ring = (uint32_t)(number % rings);
    uint64_t first, count;
    collective_piece(c->count, rings, ring, &first, &count);
    ring_move(c->goal, c->ranks, place_of(c, ring, rank), number / rings, first, count,
              move);
    move->to = rank_at(c, ring, move->to);
    move->from = rank_at(c, ring, move->from);
}

static void move(const struct collective *c, uint32_t rank, uint64_t round,
                 struct collective_move *move)
{
    uint64_t behind = ring_count(c) - 1;
    uint64_t messages = ring_rounds(c->goal, c->ranks) * ring_count(c);
    struct collective_move out = {0};
    if (round >= behind) {
        message(c, rank, round - behind, move);
        move->receive_lane = (uint32_t)((round - behind) % (behind + 1));
    }
    move->sends = round < messages;
    if (!move->sends)
        return;
    message(c, rank, round, &out);
    move->send_lane = (uint32_t)(round % (behind + 1));
    move->to = out.to;
    move->send_first = out.send_first;
    move->send_count = out.send_count;
}

const struct collective_algorithm collective_multi_ring = {
    .name = "multi_ring",
    .summary = "several rings at once, each with its share of the array",
    .supports = supports,
    .rounds = rounds,
    .move = move,
    .lanes = ring_count,
};
