/* Runs a plan's programs without time. They are processes that talk through bounded
 * queues only, so whether they finish does not depend on speed: one order is as good as
 * any other. */
#include "sim/plan.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKED_STEPS = 3 }; /* beyond what the programs look ahead */

struct cursor {
    uint64_t code; /* 0 prologue, then the checked steps' bodies, then done */
    size_t next;
    /* at a barrier or a collective */
    bool arrived;
    uint64_t generation;
};

struct queue {
    uint64_t waiting; /* messages */
    uint64_t sent, received;
    bool polled; /* what waits in it may be left */
};

struct meeting {
    uint32_t here;
    uint64_t generation;
};

struct checker {
    const struct plan *plan;
    uint64_t steps;           /* checked */
    struct cursor *cursors;   /* a stream */
    struct queue *queues;     /* an edge */
    struct meeting *meetings;   /* a barrier */
    struct meeting *gatherings; /* a collective */
    uint64_t *in_flight;      /* a part: stashed micro-batches */
    bool moved;               /* something went on, if only half an instruction */
};

static const struct instruction *current(const struct checker *c, size_t stream)
{
    struct cursor *cursor = &c->cursors[stream];
    while (cursor->code <= c->steps) {
        const struct stream *s = &c->plan->streams[stream];
        const struct code *code = cursor->code == 0 ? &s->prologue : &s->body;
        uint64_t step = cursor->code == 0 ? 0 : cursor->code - 1;
        for (; cursor->next < code->count; cursor->next++) {
            struct instruction i = code->instructions[cursor->next];
            i.every = 0; /* rare ones are tried in every step */
            i.from_step = 0;
            if (plan_takes_place(c->plan, &i, step, c->steps))
                return &code->instructions[cursor->next];
        }
        cursor->code++;
        cursor->next = 0;
    }
    return NULL;
}

static bool stash(struct checker *c, const struct instruction *i, struct error *error)
{
    const struct part *part = &c->plan->parts[i->part];
    if (i->operation == OP_FORWARD && part->trains && ++c->in_flight[i->part] > part->slots) {
        char text[160];
        instruction_text(c->plan, i, text, sizeof text);
        return error_set(error, STATUS_BAD_INPUT,
                         "processor %u: %s needs a stash slot, but all %u of stage %u are taken",
                         part->processor, text, part->slots, part->stage);
    }
    bool last_piece = i->end_layer == 0 || i->first_layer == part->first_layer;
    bool ends = i->operation == OP_BACKWARD ? !part->gradient_apart
                                            : i->operation == OP_BACKWARD_WEIGHT ||
                                                  i->operation == OP_BACKWARD_RECEIVED;
    if (ends && last_piece) {
        if (c->in_flight[i->part] == 0) {
            char text[160];
            instruction_text(c->plan, i, text, sizeof text);
            return error_set(error, STATUS_BAD_INPUT,
                             "processor %u: %s comes before its forward", part->processor, text);
        }
        c->in_flight[i->part]--;
    }
    return true;
}

static bool send(struct checker *c, uint32_t edge)
{
    struct queue *queue = &c->queues[edge];
    if (c->plan->edges[edge].bundle != PLAN_NONE) /* never waits */
        return true;
    if (queue->waiting >= c->plan->edges[edge].capacity)
        return false;
    queue->waiting++;
    queue->sent++;
    c->moved = true;
    return true;
}

static bool receive(struct checker *c, uint32_t edge)
{
    struct queue *queue = &c->queues[edge];
    if (queue->waiting == 0)
        return false;
    queue->waiting--;
    queue->received++;
    c->moved = true;
    return true;
}

static bool poll(struct checker *c, uint32_t edge)
{
    struct queue *queue = &c->queues[edge];
    queue->received += queue->waiting;
    queue->waiting = 0;
    queue->polled = true;
    return true;
}

/* Of a barrier, or of the ranks of a collective: its rounds fit together by themselves, as
 * tests of the algorithms show, and each rank depends on all. */
static bool meet(struct checker *c, struct cursor *cursor, struct meeting *meeting,
                 uint32_t members)
{
    if (!cursor->arrived) {
        cursor->arrived = c->moved = true;
        cursor->generation = meeting->generation;
        if (++meeting->here == members) {
            meeting->here = 0;
            meeting->generation++;
        }
    }
    if (meeting->generation == cursor->generation)
        return false;
    cursor->arrived = false;
    return true;
}

/* Takes the instruction if it can be taken now. */
static bool possible(struct checker *c, struct cursor *cursor, const struct instruction *i)
{
    switch (i->operation) {
    case OP_SEND:
        return send(c, i->target);
    case OP_RECEIVE:
        return receive(c, i->target);
    case OP_POLL:
        return poll(c, i->target);
    case OP_BARRIER:
        return meet(c, cursor, &c->meetings[i->target],
                    c->plan->barriers[i->target].members);
    case OP_COLLECTIVE:
        return meet(c, cursor, &c->gatherings[i->target],
                    c->plan->collectives[i->target].ranks);
    default:
        return true;
    }
}

static bool advance(struct checker *c, size_t stream, struct error *error)
{
    struct cursor *cursor = &c->cursors[stream];
    for (const struct instruction *i = current(c, stream);
         i != NULL && possible(c, cursor, i); i = current(c, stream)) {
        if (!stash(c, i, error))
            return false;
        cursor->next++;
        c->moved = true;
    }
    return true;
}

static bool stuck(const struct checker *c, struct error *error)
{
    char texts[2][224] = {"", ""};
    size_t found = 0;
    for (size_t s = 0; s < c->plan->stream_count && found < 2; s++) {
        const struct instruction *i = current(c, s);
        if (i == NULL)
            continue;
        char text[160];
        instruction_text(c->plan, i, text, sizeof text);
        snprintf(texts[found++], sizeof texts[0], "processor %u: instruction %zu (%s)",
                 c->plan->streams[s].processor, c->cursors[s].next, text);
    }
    if (found == 0)
        return true;
    return error_set(error, STATUS_BAD_INPUT,
                     "the programs cannot finish: %s waits%s%s%s; every edge's queue is empty "
                     "or full for ever",
                     texts[0], found == 2 ? ", and " : "", texts[1],
                     found == 2 ? " waits" : "");
}

static bool left_over(const struct checker *c, struct error *error)
{
    for (size_t e = 0; e < c->plan->edge_count; e++)
        if (c->queues[e].waiting > 0 && !c->queues[e].polled)
            return error_set(error, STATUS_BAD_INPUT,
                             "%s from processor %u to %u: %llu sent, only %llu received",
                             payload_name(c->plan->edges[e].payload),
                             c->plan->edges[e].from_processor, c->plan->edges[e].to_processor,
                             (unsigned long long)c->queues[e].sent,
                             (unsigned long long)c->queues[e].received);
    return true;
}

static bool walk(struct checker *c, struct error *error)
{
    do {
        c->moved = false;
        for (size_t s = 0; s < c->plan->stream_count; s++)
            if (!advance(c, s, error))
                return false;
    } while (c->moved);
    return stuck(c, error) && left_over(c, error);
}

static uint64_t look_ahead(const struct code *code)
{
    int64_t most = 0;
    for (size_t i = 0; i < code->count; i++)
        most = code->instructions[i].micro_batch > most ? code->instructions[i].micro_batch
                                                        : most;
    return (uint64_t)most;
}

static uint64_t steps_to_check(const struct plan *plan)
{
    uint64_t most = 0;
    for (size_t i = 0; i < plan->stream_count; i++) {
        uint64_t body = look_ahead(&plan->streams[i].body);
        most = body > most ? body : most;
    }
    return CHECKED_STEPS + most / plan->micro_batches;
}

bool plan_check(const struct plan *plan, struct error *error)
{
    struct checker c = {
        .plan = plan,
        .steps = steps_to_check(plan),
        .cursors = checked_calloc(plan->stream_count, sizeof *c.cursors),
        .queues = checked_calloc(plan->edge_count, sizeof *c.queues),
        .meetings = checked_calloc(plan->barrier_count, sizeof *c.meetings),
        .gatherings = checked_calloc(plan->collective_count, sizeof *c.gatherings),
        .in_flight = checked_calloc(plan->part_count, sizeof *c.in_flight),
    };
    bool good = c.cursors != NULL && c.queues != NULL && c.meetings != NULL && c.gatherings != NULL && c.in_flight != NULL
                    ? walk(&c, error)
                    : error_memory(error, "plan check");
    free(c.cursors);
    free(c.queues);
    free(c.meetings);
    free(c.gatherings);
    free(c.in_flight);
    return good;
}
