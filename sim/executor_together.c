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
    x->meetings = checked_calloc(x->plan->collective_count, sizeof *x->meetings);
    if (x->meetings == NULL)
        return error_memory(error, "collectives");
    for (size_t i = 0; i < x->plan->collective_count; i++) {
        struct meeting_state *meeting = &x->meetings[i];
        uint32_t ranks = x->plan->collectives[i].ranks;
        meeting->ready_s = checked_calloc(ranks, sizeof *meeting->ready_s);
        meeting->waiting = checked_calloc(ranks, sizeof *meeting->waiting);
        if (meeting->ready_s == NULL || meeting->waiting == NULL)
            return error_memory(error, "collectives");
    }
    return true;
}

void barriers_free(struct executor *x)
{
    for (size_t i = 0; x->barriers != NULL && i < x->plan->barrier_count; i++)
        free(x->barriers[i].waiting);
    for (size_t i = 0; x->meetings != NULL && i < x->plan->collective_count; i++) {
        free(x->meetings[i].ready_s);
        free(x->meetings[i].waiting);
    }
    free(x->barriers);
    free(x->meetings);
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
    uint32_t edge = collective_edge(c, move->send_lane, rank, move->to);
    uint64_t word = number_format_bytes(collective_format(x->plan, c));
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
    uint32_t edge = collective_edge(c, move->receive_lane, move->from, rank);
    uint64_t number = message_await(w, edge);
    if (x->training)
        trainer_unpack_piece(x->execution->trainer, c, rank, collective_first(c, rank) + move->receive_first,
                             move->receive_count, move->reduces, message_at(x, edge, number));
    message_end(w, edge);
}

static void walk_rounds(struct walker *w, const struct collective *c, uint32_t rank)
{
    uint64_t rounds = c->algorithm->rounds(c);
    for (uint64_t round = 0; round < rounds && !w->executor->failed; round++) {
        struct collective_move move = {0};
        c->algorithm->move(c, rank, round, &move);
        if (move.sends)
            send_piece(w, c, rank, &move);
        if (move.receives)
            receive_piece(w, c, rank, &move);
    }
}

static void gather_here(struct walker *w, struct meeting_state *meeting)
{
    double asked_s = machine_now_s();
    meeting->waiting[meeting->waiting_count++] = w->gate;
    gate_wait(w->gate);
    executor_waited(w, "wait for other ranks", asked_s);
}

static void open_all(struct meeting_state *meeting)
{
    uint32_t count = meeting->waiting_count;
    meeting->here = meeting->waiting_count = 0;
    for (uint32_t i = 0; i < count; i++)
        gate_open(meeting->waiting[i]);
}

/* True when all ranks are bulk-synchronous or some: then they begin together. */
static bool begins_together(const struct executor *x, const struct collective *c)
{
    for (uint32_t r = 0; r < c->ranks; r++)
        if (!platform_processor(x->execution->platform, x->plan->parts[c->parts[r]].processor)
                 ->overlap)
            return true;
    return false;
}

/* Buffers for what comes in, on each lane as large as its largest edge needs: a rank hears
 * from one other at a time. They are there while it takes part. */
static uint64_t buffer_bytes(const struct executor *x, const struct collective *c,
                             uint32_t rank)
{
    uint64_t bytes = 0;
    for (uint32_t lane = 0; lane < c->lanes; lane++) {
        uint64_t largest = 0;
        for (uint32_t from = 0; from < c->ranks; from++) {
            uint32_t index = collective_edge(c, lane, from, rank);
            const struct edge *edge = index == PLAN_NONE ? NULL : &x->plan->edges[index];
            if (edge != NULL && edge->capacity * edge->message_bytes > largest)
                largest = edge->capacity * edge->message_bytes;
        }
        bytes += largest;
    }
    return bytes;
}

static void meet(struct walker *w, const struct collective *c, uint32_t index, uint32_t rank)
{
    struct executor *x = w->executor;
    struct meeting_state *meeting = &x->meetings[index];
    bool closed = x->alone.collective_alone[index];
    meeting->ready_s[rank] = machine_now_s();
    if (!closed && !begins_together(x, c)) {
        walk_rounds(w, c, rank);
        return;
    }
    if (++meeting->here < c->ranks) {
        gather_here(w, meeting);
    } else {
        for (uint32_t r = 0; r < c->ranks && begins_together(x, c); r++)
            meeting->ready_s[r] = machine_now_s();
        if (closed)
            closed_form(x, c, w->step, meeting->ready_s);
        open_all(meeting);
    }
    if (closed)
        machine_sleep(meeting->ready_s[rank] - machine_now_s());
    else
        walk_rounds(w, c, rank);
}

void execute_collective(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct collective *c = &x->plan->collectives[i->target];
    uint32_t rank = collective_rank(c, i->part);
    if (executor_idle(x, i->part))
        return; /* and so are the other ranks */
    uint64_t buffers = buffer_bytes(x, c, rank);
    executor_allocate(x, w->processor, MEMORY_QUEUE, buffers);
    if (x->training)
        trainer_join(x->execution->trainer, i->part, run_micro_batch(w, i));
    if (x->training)
        trainer_gather_tied(x->execution->trainer, c, rank);
    if (c->ranks > 1)
        meet(w, c, i->target, rank);
    if (x->training)
        trainer_share_tied(x->execution->trainer, c, rank);
    executor_release(x, w->processor, MEMORY_QUEUE, buffers);
    if (x->training && c->average)
        trainer_average(x->execution->trainer, c, rank);
    if (x->training && c->clear)
        trainer_clear(x->execution->trainer, c, rank);
    if (c->parameters)
        execute_gathered(w, i->part);
}
