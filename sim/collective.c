#include "sim/collective.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

extern const struct collective_algorithm collective_ring, collective_recursive_doubling,
    collective_halving_doubling, collective_halving_doubling_folded, collective_tree,
    collective_hierarchical, collective_multi_ring;

static const struct collective_algorithm *const algorithms[] = {
    &collective_ring,
    &collective_recursive_doubling,
    &collective_halving_doubling,
    &collective_halving_doubling_folded,
    &collective_tree,
    &collective_hierarchical,
    &collective_multi_ring,
};

size_t collective_algorithm_count(void)
{
    return sizeof algorithms / sizeof algorithms[0];
}

const struct collective_algorithm *collective_algorithm_get(size_t index)
{
    return algorithms[index];
}

const struct collective_algorithm *collective_algorithm_find(const char *name)
{
    for (size_t i = 0; i < collective_algorithm_count(); i++)
        if (strcmp(algorithms[i]->name, name) == 0)
            return algorithms[i];
    return NULL;
}

void collective_piece(uint64_t count, uint32_t pieces, uint32_t piece, uint64_t *first,
                      uint64_t *piece_count)
{
    uint64_t small = count / pieces, larger = count % pieces;
    *first = small * piece + (piece < larger ? piece : larger);
    *piece_count = small + (piece < larger);
}

uint64_t collective_first(const struct collective *collective, uint32_t rank)
{
    return collective->firsts != NULL ? collective->firsts[rank] : collective->first;
}

enum number_format collective_format(const struct plan *plan,
                                     const struct collective *collective)
{
    if (collective->activations || collective->activation_gradients)
        return plan->precision.activations;
    return collective->parameters ? plan->precision.weights : plan->precision.gradients;
}

static size_t slot_of(const struct collective *c, uint32_t lane, uint32_t from, uint32_t to)
{
    return ((size_t)lane * c->ranks + from) * c->ranks + to;
}

uint32_t collective_edge(const struct collective *collective, uint32_t lane, uint32_t from,
                         uint32_t to)
{
    return collective->edges[slot_of(collective, lane, from, to)];
}

size_t collective_slots(const struct collective *collective)
{
    return (size_t)collective->lanes * collective->ranks * collective->ranks;
}

uint32_t collective_rank(const struct collective *collective, uint32_t part)
{
    for (uint32_t i = 0; i < collective->ranks; i++)
        if (collective->parts[i] == part)
            return i;
    return PLAN_NONE;
}

/* The edge of a send, made when first needed and as large as its largest message. */
static bool provide_edge(struct plan *plan, struct collective *c, uint32_t from,
                         const struct collective_move *move, struct error *error)
{
    uint32_t *index = &c->edges[slot_of(c, move->send_lane, from, move->to)];
    uint64_t count = move->send_count;
    if (*index == PLAN_NONE && !plan_add_edge(plan, c->parts[from], c->parts[move->to],
                                              PAYLOAD_PIECES, 2, index, error))
        return false;
    struct edge *edge = &plan->edges[*index];
    edge->lane = move->send_lane;
    if (count > edge->message_count)
        edge->message_count = count;
    uint64_t word = number_format_bytes(collective_format(plan, c));
    return checked_multiply(edge->message_count, word, &edge->message_bytes) ||
           error_set(error, STATUS_BAD_INPUT, "%s: a message exceeds 2^64 bytes",
                     plan->name);
}

static bool provide_edges(struct plan *plan, struct collective *c, struct error *error)
{
    uint64_t rounds = c->algorithm->rounds(c);
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        for (uint64_t round = 0; round < rounds; round++) {
            struct collective_move move = {0};
            c->algorithm->move(c, rank, round, &move);
            if (move.sends && !provide_edge(plan, c, rank, &move, error))
                return false;
        }
    return true;
}

static void *duplicate(const void *array, size_t count, size_t item_bytes, bool *good)
{
    void *own = array == NULL ? NULL : checked_calloc(count, item_bytes);
    if (own != NULL)
        memcpy(own, array, count * item_bytes);
    *good = *good && (array == NULL || own != NULL);
    return own;
}

/* Where the ranks stand in the rings. */
static uint32_t *invert(const struct collective *c, bool *good)
{
    size_t count = (size_t)c->ring_count * c->ranks;
    uint32_t *places = c->rings == NULL ? NULL : checked_calloc(count, sizeof *places);
    *good = *good && (c->rings == NULL || places != NULL);
    for (size_t i = 0; places != NULL && i < count; i++)
        places[i / c->ranks * c->ranks + c->rings[i]] = (uint32_t)(i % c->ranks);
    return places;
}

bool plan_add_collective(struct plan *plan, const struct collective *collective,
                         uint32_t *index, struct error *error)
{
    struct collective own = *collective;
    own.lanes = own.algorithm->lanes == NULL ? 1 : own.algorithm->lanes(&own);
    size_t slots = collective_slots(&own);
    size_t ring_ranks = (size_t)own.ring_count * own.ranks;
    bool good = true;
    if (!checked_grow((void **)&plan->collectives, &plan->collective_capacity,
                      plan->collective_count + 1, sizeof own))
        return error_memory(error, "collective");
    own.parts = duplicate(collective->parts, own.ranks, sizeof *own.parts, &good);
    own.firsts = duplicate(collective->firsts, own.ranks, sizeof *own.firsts, &good);
    own.tied = duplicate(collective->tied, own.tied_count, sizeof *own.tied, &good);
    own.rings = duplicate(collective->rings, ring_ranks, sizeof *own.rings, &good);
    own.places = invert(collective, &good);
    own.edges = checked_calloc(slots, sizeof *own.edges);
    *index = (uint32_t)plan->collective_count;
    plan->collectives[plan->collective_count++] = own; /* owned, also when incomplete */
    if (!good || own.edges == NULL)
        return error_memory(error, "collective");
    for (size_t i = 0; i < slots; i++)
        own.edges[i] = PLAN_NONE;
    return provide_edges(plan, &own, error);
}
