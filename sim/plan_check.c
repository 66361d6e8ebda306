/* Runs a plan's programs without time. They are processes that talk through bounded
 * queues only, so whether they finish does not depend on speed: one order is as good as
 * any other. */
#include "sim/plan.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKED_STEPS = 2 };

struct cursor {
    size_t code; /* 0 prologue, 1 .. CHECKED_STEPS bodies, then the epilogue, then done */
    size_t next;
};

struct queue {
    uint64_t waiting;   /* messages */
    uint64_t sent, received;
};

struct checker {
    const struct plan *plan;
    struct cursor *cursors;  /* a stream */
    struct queue *queues;    /* an edge */
    uint64_t *in_flight;     /* a part: stashed micro-batches */
};

static const struct code *code_at(const struct stream *stream, size_t code)
{
    if (code == 0)
        return &stream->prologue;
    return code <= CHECKED_STEPS ? &stream->body : &stream->epilogue;
}

static const struct instruction *current(const struct checker *c, size_t stream)
{
    struct cursor *cursor = &c->cursors[stream];
    while (cursor->code <= CHECKED_STEPS + 1) {
        const struct code *code = code_at(&c->plan->streams[stream], cursor->code);
        if (cursor->next < code->count)
            return &code->instructions[cursor->next];
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
    if (i->operation == OP_BACKWARD || i->operation == OP_BACKWARD_WEIGHT) {
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

/* Takes the step if it can be taken now. */
static bool possible(struct checker *c, const struct instruction *i)
{
    if (i->operation == OP_SEND) {
        struct queue *queue = &c->queues[i->target];
        if (queue->waiting >= c->plan->edges[i->target].capacity)
            return false;
        queue->waiting++;
        queue->sent++;
    }
    if (i->operation == OP_RECEIVE) {
        struct queue *queue = &c->queues[i->target];
        if (queue->waiting == 0)
            return false;
        queue->waiting--;
        queue->received++;
    }
    return true;
}

static bool advance(struct checker *c, size_t stream, bool *moved, struct error *error)
{
    for (const struct instruction *i = current(c, stream); i != NULL && possible(c, i);
         i = current(c, stream)) {
        if (!stash(c, i, error))
            return false;
        c->cursors[stream].next++;
        *moved = true;
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
        if (c->queues[e].waiting > 0)
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
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t s = 0; s < c->plan->stream_count; s++)
            if (!advance(c, s, &moved, error))
                return false;
    }
    return stuck(c, error) && left_over(c, error);
}

bool plan_check(const struct plan *plan, struct error *error)
{
    struct checker c = {
        .plan = plan,
        .cursors = checked_calloc(plan->stream_count, sizeof *c.cursors),
        .queues = checked_calloc(plan->edge_count, sizeof *c.queues),
        .in_flight = checked_calloc(plan->part_count, sizeof *c.in_flight),
    };
    bool good = c.cursors != NULL && c.queues != NULL && c.in_flight != NULL
                    ? walk(&c, error)
                    : error_memory(error, "plan check");
    free(c.cursors);
    free(c.queues);
    free(c.in_flight);
    return good;
}
