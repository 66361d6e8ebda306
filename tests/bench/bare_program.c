/* The program follows from podsim's own events. An actor does what its processor did, one
 * after the other. What ended before something began is waited for before that begins. If
 * that does not explain when a message went off, a signal does: from where something ended
 * at that moment. SimGrid finds out anew when everything happens. */
#include "tests/bench/bare_program.h"

#include "base/checked.h"
#include "sim/collective.h"
#include "sim/executor.h"
#include "sim/header.h"
#include "tests/bench/bare_simgrid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a processor did: it computed (edge == EVENT_NONE), or it sent a message. */
struct action {
    uint32_t processor, edge;
    double start_s, end_s;
    uint64_t bytes;
    uint64_t micro_batch;
    const char *name;
    uint32_t signal_from; /* or EVENT_NONE */
};

struct recorder {
    struct event_sink sink; /* first */
    struct action *actions;
    size_t count, capacity;
};

/* A processor's list of actions, as indices. */
struct list {
    size_t *items;
    size_t count, capacity;
};

struct writer {
    const struct experiment *experiment;
    const struct plan *plan;
    struct recorder recorder;
    size_t processors;
    struct list *own, *incoming, *signals; /* a processor */
    size_t *by_end;                        /* actions, as they ended */
    struct bare_operation *operations;     /* of the actor under way */
    size_t count, capacity;
};

/* The layers of an instruction are one delay. */
static bool continues(const struct action *last, const struct event *event)
{
    return last->edge == EVENT_NONE && last->processor == event->processor &&
           last->name == event->name && last->micro_batch == event->micro_batch &&
           last->end_s == event->start_s;
}

static bool record(struct event_sink *sink, const struct event *event, struct error *error)
{
    struct recorder *r = (struct recorder *)sink;
    bool computes = event->kind == EVENT_COMPUTE;
    if (!computes && event->kind != EVENT_TRANSFER)
        return true;
    if (computes && event->layer != EVENT_NONE && r->count > 0 &&
        continues(&r->actions[r->count - 1], event)) {
        r->actions[r->count - 1].end_s = event->end_s;
        return true;
    }
    if (!checked_grow((void **)&r->actions, &r->capacity, r->count + 1, sizeof *r->actions))
        return error_memory(error, "bench program");
    r->actions[r->count++] = (struct action){.processor = event->processor,
                                             .edge = computes ? EVENT_NONE : event->edge,
                                             .start_s = event->start_s,
                                             .end_s = event->end_s,
                                             .bytes = event->bytes,
                                             .micro_batch = event->micro_batch,
                                             .name = event->name,
                                             .signal_from = EVENT_NONE};
    return true;
}

static bool finish(struct event_sink *sink, double total_s, struct error *error)
{
    (void)sink;
    (void)total_s;
    (void)error;
    return true;
}

static bool simulate(struct writer *w, struct error *error)
{
    struct platform *platform = w->experiment->platform;
    struct trace_header *header = header_create(w->plan, platform, 0, error);
    struct event_sink *sinks[] = {&w->recorder.sink};
    const struct execution execution = {.plan = w->plan,
                                        .platform = platform,
                                        .steps = 1,
                                        .fidelity = FIDELITY_MESSAGE,
                                        .sinks = sinks,
                                        .sink_count = 1,
                                        .header = header};
    struct execution_result result;
    w->recorder.sink = (struct event_sink){record, finish, NULL, NULL};
    bool done = header != NULL && execute(&execution, &result, error);
    header_free(header);
    return done;
}

static bool list_add(struct list *list, size_t item, struct error *error)
{
    if (!checked_grow((void **)&list->items, &list->capacity, list->count + 1,
                      sizeof *list->items))
        return error_memory(error, "bench program");
    list->items[list->count++] = item;
    return true;
}

static uint32_t receiver_of(const struct writer *w, const struct action *action)
{
    return w->plan->edges[action->edge].to_processor;
}

static const struct action *actions_sorted; /* for by_end_time alone */

static int by_end_time(const void *a, const void *b)
{
    const size_t *x = a, *y = b;
    double s = actions_sorted[*x].end_s, t = actions_sorted[*y].end_s;
    return s != t ? (s > t) - (s < t) : (*x > *y) - (*x < *y);
}

static bool sort_actions(struct writer *w, struct error *error)
{
    struct recorder *r = &w->recorder;
    w->by_end = checked_calloc(r->count, sizeof *w->by_end);
    w->own = checked_calloc(w->processors, sizeof *w->own);
    w->incoming = checked_calloc(w->processors, sizeof *w->incoming);
    w->signals = checked_calloc(w->processors, sizeof *w->signals);
    if (w->by_end == NULL || w->own == NULL || w->incoming == NULL || w->signals == NULL)
        return error_memory(error, "bench program");
    for (size_t i = 0; i < r->count; i++)
        w->by_end[i] = i;
    actions_sorted = r->actions;
    qsort(w->by_end, r->count, sizeof *w->by_end, by_end_time);
    for (size_t i = 0; i < r->count; i++) {
        const struct action *action = &r->actions[w->by_end[i]];
        if (!list_add(&w->own[action->processor], w->by_end[i], error) ||
            (action->edge != EVENT_NONE &&
             !list_add(&w->incoming[receiver_of(w, action)], w->by_end[i], error)))
            return false;
    }
    return true;
}

/* Who ended something at the moment when `action` began: its receiver, if it did. */
static uint32_t cause_of(const struct writer *w, const struct action *action)
{
    const struct action *actions = w->recorder.actions;
    size_t low = 0, high = w->recorder.count;
    uint32_t cause = EVENT_NONE;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (actions[w->by_end[middle]].end_s < action->start_s)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < w->recorder.count; low++) {
        const struct action *other = &actions[w->by_end[low]];
        if (other->end_s != action->start_s)
            break;
        if (action->edge != EVENT_NONE && other->processor == receiver_of(w, action))
            return other->processor;
        if (action->edge != EVENT_NONE && other->edge != EVENT_NONE &&
            receiver_of(w, other) == receiver_of(w, action))
            return receiver_of(w, other);
        if (cause == EVENT_NONE)
            cause = other->processor;
    }
    return cause;
}

/* Finds what of a processor's actions waited for others than those that send to it. */
static bool find_signals(struct writer *w, uint32_t processor, struct error *error)
{
    struct action *actions = w->recorder.actions;
    const struct list *own = &w->own[processor], *incoming = &w->incoming[processor];
    double free_s = 0;
    for (size_t i = 0, in = 0; i < own->count; i++) {
        struct action *action = &actions[own->items[i]];
        if (action->start_s < free_s)
            return error_set(error, STATUS_BAD_INPUT,
                             "bench-scale has no processors that do two things at once");
        for (;
             in < incoming->count && actions[incoming->items[in]].end_s <= action->start_s;
             in++)
            free_s = fmax(free_s, actions[incoming->items[in]].end_s);
        if (action->start_s > free_s) {
            action->signal_from = cause_of(w, action);
            if (action->signal_from == EVENT_NONE)
                return error_set(error, STATUS_FAILED,
                                 "bench-scale: nothing ended at %.17g s", action->start_s);
            if (!list_add(&w->signals[action->signal_from], own->items[i], error))
                return false;
        }
        free_s = action->end_s;
    }
    return true;
}

static bool add(struct writer *w, enum bare_kind kind, uint32_t target, double seconds,
                uint64_t bytes, struct error *error)
{
    if (!checked_grow((void **)&w->operations, &w->capacity, w->count + 1,
                      sizeof *w->operations))
        return error_memory(error, "bench program");
    w->operations[w->count++] =
        (struct bare_operation){(uint32_t)kind, target, seconds, bytes};
    return true;
}

/* Before the message's bytes: the latency, and what synchronous processors add to it. */
static bool add_message(struct writer *w, const struct action *action, struct error *error)
{
    const struct edge *edge = &w->plan->edges[action->edge];
    struct platform *platform = w->experiment->platform;
    const struct processor *from = platform_processor(platform, edge->from_processor);
    const struct processor *to = platform_processor(platform, edge->to_processor);
    struct route route;
    if (!platform_route(platform, edge->from_processor, edge->to_processor, &route, error))
        return false;
    double latency_s = route.latency_s +
                       fmax(from->overlap ? 0 : from->sync_s, to->overlap ? 0 : to->sync_s);
    return (latency_s <= 0 || add(w, BARE_SLEEP, 0, latency_s, 0, error)) &&
           add(w, BARE_PUT, action->edge, 0, action->bytes, error);
}

/* An actor's place in its three lists. */
struct place {
    size_t in, signal;
};

/* All that came in, and then all signals that are due, up to a moment. */
static bool add_until(struct writer *w, uint32_t processor, double until_s,
                      struct place *place, struct error *error)
{
    const struct action *actions = w->recorder.actions;
    const struct list *incoming = &w->incoming[processor],
                      *signals = &w->signals[processor];
    for (;;) {
        const struct action *in =
            place->in < incoming->count ? &actions[incoming->items[place->in]] : NULL;
        const struct action *signal =
            place->signal < signals->count ? &actions[signals->items[place->signal]] : NULL;
        if (in != NULL && in->end_s > until_s)
            in = NULL;
        if (signal != NULL && signal->start_s > until_s)
            signal = NULL;
        if (in == NULL && signal == NULL)
            return true;
        bool gets = signal == NULL || (in != NULL && in->end_s <= signal->start_s);
        if (gets ? !add(w, BARE_GET, in->edge, 0, 0, error)
                 : !add(w, BARE_SIGNAL, signal->processor, 0, 0, error))
            return false;
        *(gets ? &place->in : &place->signal) += 1;
    }
}

static bool list_operations(struct writer *w, uint32_t processor, struct error *error)
{
    const struct list *own = &w->own[processor];
    struct place place = {0};
    w->count = 0;
    for (uint32_t e = 0; e < w->plan->edge_count; e++)
        if (w->plan->edges[e].to_processor == processor &&
            !add(w, BARE_ACCEPT, e, 0, 0, error))
            return false;
    for (size_t i = 0; i < own->count; i++) {
        const struct action *action = &w->recorder.actions[own->items[i]];
        if (!add_until(w, processor, action->start_s, &place, error) ||
            (action->signal_from != EVENT_NONE && !add(w, BARE_AWAIT, 0, 0, 0, error)) ||
            (action->edge == EVENT_NONE
                 ? !add(w, BARE_SLEEP, 0, action->end_s - action->start_s, 0, error)
                 : !add_message(w, action, error)))
            return false;
    }
    return add_until(w, processor, INFINITY, &place, error);
}

static bool write_actor(struct writer *w, uint32_t processor, FILE *out,
                        struct error *error)
{
    const char *host = platform_processor(w->experiment->platform, processor)->name;
    struct bare_actor actor = {0};
    if (!list_operations(w, processor, error))
        return false;
    actor.operations = w->count;
    snprintf(actor.host, sizeof actor.host, "%s", host);
    return (fwrite(&actor, sizeof actor, 1, out) == 1 &&
            fwrite(w->operations, sizeof *w->operations, w->count, out) == w->count) ||
           error_set(error, STATUS_HOST, "cannot write the bench's program");
}

static bool write_program(struct writer *w, FILE *out, struct error *error)
{
    const struct bare_header header = {w->processors, w->plan->edge_count};
    if (!simulate(w, error) || !sort_actions(w, error))
        return false;
    for (uint32_t p = 0; p < w->processors; p++)
        if (!find_signals(w, p, error))
            return false;
    bool good = fwrite(&header, sizeof header, 1, out) == 1 ||
                error_set(error, STATUS_HOST, "cannot write the bench's program");
    for (uint32_t p = 0; good && p < w->processors; p++)
        good = write_actor(w, p, out, error);
    return good && (fflush(out) == 0 ||
                    error_set(error, STATUS_HOST, "cannot write the bench's program"));
}

static void free_lists(struct list *lists, size_t count)
{
    for (size_t i = 0; lists != NULL && i < count; i++)
        free(lists[i].items);
    free(lists);
}

bool bare_program_write(const struct experiment *experiment, FILE *out, struct error *error)
{
    struct writer w = {.experiment = experiment,
                       .plan = experiment->plans[0],
                       .processors = platform_processor_count(experiment->platform)};
    bool good = write_program(&w, out, error);
    free_lists(w.own, w.processors);
    free_lists(w.incoming, w.processors);
    free_lists(w.signals, w.processors);
    free(w.by_end);
    free(w.recorder.actions);
    free(w.operations);
    return good;
}

static uint64_t collective_messages(const struct plan *plan, const struct instruction *i)
{
    const struct collective *c = &plan->collectives[i->target];
    uint32_t rank = collective_rank(c, i->part);
    uint64_t messages = 0;
    for (uint64_t round = 0; round < c->algorithm->rounds(c); round++) {
        struct collective_move move = {0};
        c->algorithm->move(c, rank, round, &move);
        messages += move.sends;
    }
    return messages;
}

static uint64_t instruction_events(const struct plan *plan, const struct instruction *i)
{
    switch (i->operation) {
    case OP_LOAD:
    case OP_RECEIVE:
        return 0;
    case OP_COLLECTIVE:
        return collective_messages(plan, i);
    default:
        return 1;
    }
}

uint64_t bare_events(const struct experiment *experiment)
{
    const struct plan *plan = experiment->plans[0];
    uint64_t events = 0;
    for (size_t s = 0; s < plan->stream_count; s++)
        for (size_t i = 0; i < plan->streams[s].body.count; i++) {
            const struct instruction *one = &plan->streams[s].body.instructions[i];
            if (plan_takes_place(plan, one, 0, 1))
                events += instruction_events(plan, one);
        }
    return events;
}

bool bare_platform_write(const struct experiment *experiment, FILE *out,
                         struct error *error)
{
    const struct plan *plan = experiment->plans[0];
    struct platform_pair *pairs = checked_calloc(plan->edge_count, sizeof *pairs);
    if (pairs == NULL)
        return error_memory(error, "routes");
    for (size_t i = 0; i < plan->edge_count; i++)
        pairs[i] = (struct platform_pair){plan->edges[i].from_processor,
                                          plan->edges[i].to_processor};
    bool good =
        platform_write_xml(experiment->platform, pairs, plan->edge_count, out, error);
    free(pairs);
    return good && (fflush(out) == 0 ||
                    error_set(error, STATUS_HOST, "cannot write the bench's platform"));
}
