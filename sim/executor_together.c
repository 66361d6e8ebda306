#include "sim/executor_internal.h"

#include "base/checked.h"
#include "sim/collective.h"

#include <stdlib.h>

bool barriers_create(struct executor *x, struct error *error)
{
    x->barriers = checked_calloc(x->plan->barrier_count, sizeof *x->barriers);
    if (x->barriers == NULL)
        return error_memory(error, "barriers");
    for (size_t i = 0; i < x->plan->barrier_count; i++) {
        x->barriers[i].waiting =
            checked_calloc(x->plan->barriers[i].members, sizeof *x->barriers[i].waiting);
        if (x->barriers[i].waiting == NULL)
            return error_memory(error, "barriers");
    }
    return true;
}

void barriers_free(struct executor *x)
{
    for (size_t i = 0; x->barriers != NULL && i < x->plan->barrier_count; i++)
        free(x->barriers[i].waiting);
    free(x->barriers);
}

/* The last to come opens it for all; then it is ready for the next time. */
void execute_barrier(struct walker *w, const struct instruction *i)
{
    struct barrier_state *barrier = &w->executor->barriers[i->target];
    double asked_s = machine_now_s();
    if (barrier->here + 1 < w->executor->plan->barriers[i->target].members) {
        barrier->waiting[barrier->here++] = w->gate;
        gate_wait(w->gate);
        executor_waited(w, "wait at barrier", asked_s);
        return;
    }
    uint32_t here = barrier->here;
    barrier->here = 0;
    for (uint32_t k = 0; k < here; k++)
        gate_open(barrier->waiting[k]);
}

static void send_piece(struct walker *w, const struct collective *c, uint32_t rank,
                       const struct collective_move *move)
{
    struct executor *x = w->executor;
    uint32_t edge = c->edges[(size_t)rank * c->ranks + move->to];
    uint64_t word = number_format_bytes(c->parameters ? x->plan->precision.weights
                                                      : x->plan->precision.gradients);
    const struct letter letter = {.step = w->step, .bytes = move->send_count * word};
    uint64_t number = message_begin(w, edge, &letter);
    if (x->training)
        trainer_pack_piece(x->execution->trainer, c, rank, collective_first(c, rank) + move->send_first,
                           move->send_count, message_at(x, edge, number));
    message_dispatch(w, edge, number);
}

static void receive_piece(struct walker *w, const struct collective *c, uint32_t rank,
                          const struct collective_move *move)
{
    struct executor *x = w->executor;
    uint32_t edge = c->edges[(size_t)move->from * c->ranks + rank];
    uint64_t number = message_await(w, edge);
    if (x->training)
        trainer_unpack_piece(x->execution->trainer, c, rank, collective_first(c, rank) + move->receive_first,
                             move->receive_count, move->reduces, message_at(x, edge, number));
    message_end(w, edge);
}

void execute_collective(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct collective *c = &x->plan->collectives[i->target];
    uint32_t rank = collective_rank(c, i->part);
    uint64_t rounds = c->algorithm->rounds(c);
    for (uint64_t round = 0; round < rounds && !x->failed; round++) {
        struct collective_move move = {0};
        c->algorithm->move(c, rank, round, &move);
        if (move.sends)
            send_piece(w, c, rank, &move);
        if (move.receives)
            receive_piece(w, c, rank, &move);
    }
    if (x->training && c->average)
        trainer_average(x->execution->trainer, c, rank);
    if (x->training && c->clear)
        trainer_clear(x->execution->trainer, c, rank);
    if (c->parameters)
        execute_gathered(w, i->part);
}
