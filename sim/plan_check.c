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
    uint64_t sent_order, received_order; /* hashes of the micro-batches' numbers */
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
    uint64_t *held;           /* a slot: its micro-batch's number in the run, + 1; 0: free */
    size_t *first_held;       /* a part: its first slot */
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

static bool complain(const struct checker *c, const struct instruction *i, const char *what,
                     struct error *error)
{
    const struct part *part = &c->plan->parts[i->part];
    char text[160];
    instruction_text(c->plan, i, text, sizeof text);
    return error_set(error, STATUS_BAD_INPUT, "processor %u: %s %s", part->processor, text,
                     what);
}

/* Micro-batch `number` of the run lies in slot number % slots. */
static bool stash(struct checker *c, const struct instruction *i, uint64_t number,
                  struct error *error)
{
    const struct part *part = &c->plan->parts[i->part];
    uint64_t none = 0, *held = &none;
    if (part->trains && part->slots > 0)
        held = &c->held[c->first_held[i->part] + number % part->slots];
    bool has_first = i->end_layer == 0 || i->first_layer == part->first_layer;
    if (i->operation == OP_FORWARD && part->trains && has_first) {
        if (++c->in_flight[i->part] > part->slots)
            return complain(c, i, "needs a stash slot, but all are taken", error);
        if (*held != 0)
            return complain(c, i, "needs the stash slot of an earlier micro-batch", error);
        *held = number + 1;
    }
    bool ends = i->operation == OP_BACKWARD ? !part->gradient_apart
                                            : i->operation == OP_BACKWARD_WEIGHT ||
                                                  i->operation == OP_BACKWARD_RECEIVED;
    if (ends && has_first) { /* the last to go back */
        if (*held != number + 1)
            return complain(c, i, "comes before its forward", error);
        c->in_flight[i->part]--;
        *held = 0;
    }
    return true;
}

static void note_order(uint64_t *hash, uint64_t number)
{
    *hash = *hash * UINT64_C(0x9e3779b97f4a7c15) + number + 1;
}

static bool send(struct checker *c, uint32_t edge, uint64_t number)
{
    struct queue *queue = &c->queues[edge];
    if (c->plan->edges[edge].bundle != PLAN_NONE) /* never waits */
        return true;
    if (queue->waiting >= c->plan->edges[edge].capacity)
        return false;
    queue->waiting++;
    queue->sent++;
    note_order(&queue->sent_order, number);
    c->moved = true;
    return true;
}

static bool receive(struct checker *c, uint32_t edge, uint64_t number)
{
    struct queue *queue = &c->queues[edge];
    if (queue->waiting == 0)
        return false;
    queue->waiting--;
    queue->received++;
    note_order(&queue->received_order, number);
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
static bool possible(struct checker *c, struct cursor *cursor, const struct instruction *i,
                     uint64_t number)
{
    switch (i->operation) {
    case OP_SEND:
        return send(c, i->target, number);
    case OP_RECEIVE:
        return receive(c, i->target, number);
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
    for (;;) {
        const struct instruction *i = current(c, stream);
        if (i == NULL)
            return true;
        uint64_t step = cursor->code == 0 ? 0 : cursor->code - 1;
        uint64_t number = (uint64_t)((int64_t)(step * c->plan->micro_batches) + i->micro_batch);
        if (!possible(c, cursor, i, number))
            return true;
        if (!stash(c, i, number, error))
            return false;
        cursor->next++;
        c->moved = true;
    }
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

/* What is taken out must be meant for the same micro-batch as what was put in. */
static bool in_order(const struct checker *c, struct error *error)
{
    for (size_t e = 0; e < c->plan->edge_count; e++) {
        const struct edge *edge = &c->plan->edges[e];
        const struct queue *queue = &c->queues[e];
        bool of_micro_batch = edge->payload == PAYLOAD_ACTIVATIONS ||
                              edge->payload == PAYLOAD_GRADIENTS ||
                              edge->payload == PAYLOAD_PREDICTIONS;
        if (of_micro_batch && !queue->polled && queue->sent_order != queue->received_order)
            return error_set(error, STATUS_BAD_INPUT,
                             "%s from processor %u to %u: micro-batches are not received in "
                             "the order in which they are sent",
                             payload_name(edge->payload), edge->from_processor,
                             edge->to_processor);
    }
    return true;
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
    return stuck(c, error) && left_over(c, error) && in_order(c, error);
}

static uint64_t steps_to_check(const struct plan *plan)
{
    uint64_t back, ahead;
    plan_reach(plan, &back, &ahead);
    return CHECKED_STEPS + ahead;
}

static bool provide_slots(struct checker *c)
{
    size_t slots = 0;
    c->first_held = checked_calloc(c->plan->part_count, sizeof *c->first_held);
    for (size_t i = 0; c->first_held != NULL && i < c->plan->part_count; i++) {
        c->first_held[i] = slots;
        slots += c->plan->parts[i].slots;
    }
    c->held = checked_calloc(slots, sizeof *c->held);
    return c->first_held != NULL && c->held != NULL;
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
    bool made = c.cursors != NULL && c.queues != NULL && c.meetings != NULL &&
                c.gatherings != NULL && c.in_flight != NULL && provide_slots(&c);
    bool good = made ? walk(&c, error) : error_memory(error, "plan check");
    free(c.cursors);
    free(c.queues);
    free(c.meetings);
    free(c.gatherings);
    free(c.in_flight);
    free(c.held);
    free(c.first_held);
    return good;
}
