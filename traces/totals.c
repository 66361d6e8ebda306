/* Totals over every event of the run. */
#include "base/checked.h"
#include "traces/event.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a processor has waited in a step. */
struct step_wait {
    uint64_t step;
    double wait_s;
};

struct totals {
    struct event_sink sink;
    const struct trace_header *header;
    struct trace_totals totals;
    uint64_t (*memory_bytes)[MEMORY_CATEGORIES]; /* now, by processor */
    double *until_s;    /* by processor: the end of the last event of its */
    double simulated_s; /* of the steps that were told, when others repeat them */
    /* By kind of wait, then processor, then step: the newest few. */
    struct step_wait **newest;
    size_t newest_steps, wait_capacity, newest_capacity;
};

static bool too_large(const char *what, struct error *error)
{
    return error_set(error, STATUS_BAD_INPUT, "totals: %s exceed 64 bits; take fewer steps",
                     what);
}

static void note_end(struct totals *totals, uint32_t processor, double end_s)
{
    totals->until_s[processor] = fmax(totals->until_s[processor], end_s);
}

static bool add_transfer(struct totals *totals, const struct event *event,
                         struct error *error)
{
    struct trace_edge_total *edge = &totals->totals.edges[event->edge];
    if (!checked_add(totals->totals.bytes, event->bytes, &totals->totals.bytes))
        return too_large("bytes", error);
    edge->bytes += event->bytes; /* part of the sum that fits */
    uint64_t messages = event->messages > 0 ? event->messages : 1;
    edge->messages += messages;
    totals->totals.messages += messages;
    double transfer_s = messages > 1 ? event->transfer_s : event->end_s - event->start_s;
    edge->transfer_s += transfer_s;
    totals->totals.processors[event->processor].transfer_s += transfer_s;
    note_end(totals, event->processor, event->end_s);
    note_end(totals, totals->header->edges[event->edge].to, event->end_s);
    return true;
}

/* The place of a kind of wait, made when it is first met. */
static bool find_wait(struct totals *totals, const char *name, size_t *place,
                      struct error *error)
{
    struct trace_totals *all = &totals->totals;
    for (*place = 0; *place < all->wait_count; ++*place)
        if (strcmp(all->waits[*place].name, name) == 0)
            return true;
    size_t processors = totals->header->processor_count;
    if (!checked_grow((void **)&all->waits, &totals->wait_capacity, all->wait_count + 1,
                      sizeof *all->waits) ||
        !checked_grow((void **)&totals->newest, &totals->newest_capacity,
                      all->wait_count + 1, sizeof *totals->newest))
        return error_memory(error, "totals");
    double *wait_s = checked_calloc(processors, sizeof *wait_s);
    struct step_wait *newest =
        checked_calloc(processors, totals->newest_steps * sizeof *newest);
    if (wait_s == NULL || newest == NULL) {
        free(wait_s);
        free(newest);
        return error_memory(error, "totals");
    }
    all->waits[all->wait_count] = (struct trace_wait){name, wait_s};
    totals->newest[all->wait_count++] = newest;
    return true;
}

static struct step_wait *step_wait(const struct totals *totals, size_t kind,
                                   size_t processor, uint64_t step)
{
    size_t place = (size_t)(step % totals->newest_steps);
    return &totals->newest[kind][processor * totals->newest_steps + place];
}

static bool add_wait(struct totals *totals, const struct event *event, struct error *error)
{
    double duration_s = event->end_s - event->start_s;
    size_t place;
    totals->totals.processors[event->processor].wait_s += duration_s;
    if (event->stream != 0)
        return true;
    if (!find_wait(totals, event->name, &place, error))
        return false;
    struct step_wait *newest = step_wait(totals, place, event->processor, event->step);
    if (event->step != newest->step)
        *newest = (struct step_wait){event->step, 0};
    newest->wait_s += duration_s;
    totals->totals.waits[place].wait_s[event->processor] += duration_s;
    note_end(totals, event->processor, event->end_s);
    return true;
}

static void add_memory(struct totals *totals, const struct event *event)
{
    struct trace_processor_total *processor = &totals->totals.processors[event->processor];
    uint64_t *bytes = totals->memory_bytes[event->processor];
    bytes[event->category] = event->bytes;
    if (event->bytes > processor->category_peak_bytes[event->category])
        processor->category_peak_bytes[event->category] = event->bytes;
    if (event->memory_after_bytes > processor->peak_bytes) {
        processor->peak_bytes = event->memory_after_bytes;
        processor->peak_s = event->end_s;
        memcpy(processor->at_peak_bytes, bytes, sizeof(processor->at_peak_bytes));
    }
    processor->final_bytes = event->memory_after_bytes;
}

static bool totals_event(struct event_sink *sink, const struct event *event,
                         struct error *error)
{
    struct totals *totals = (struct totals *)sink;
    if (!event_check(event, totals->header, error))
        return false;
    struct trace_processor_total *processor = &totals->totals.processors[event->processor];
    totals->totals.events++;
    switch (event->kind) {
    case EVENT_COMPUTE:
        processor->busy_s += event->end_s - event->start_s;
        note_end(totals, event->processor, event->end_s);
        return checked_add(processor->flops, event->flops, &processor->flops) ||
               too_large("FLOPs", error);
    case EVENT_TRANSFER:
        return add_transfer(totals, event, error);
    case EVENT_WAIT:
        return add_wait(totals, event, error);
    case EVENT_MEMORY:
        add_memory(totals, event);
        return true;
    default:
        return true;
    }
}

/* The first steps wait a little longer or for something else, and so do the last where they
 * look ahead; the others are like the one before those. */
static void repeat_waits(struct totals *totals, uint64_t simulated, uint64_t steps)
{
    uint64_t ends = totals->header->look_ahead_steps + 2;
    uint64_t step = simulated > ends ? simulated - ends : 0;
    for (size_t w = 0; w < totals->totals.wait_count; w++)
        for (size_t i = 0; i < totals->header->processor_count; i++) {
            const struct step_wait *typical = step_wait(totals, w, i, step);
            if (typical->step == step)
                totals->totals.waits[w].wait_s[i] +=
                    (double)(steps - simulated) * typical->wait_s;
        }
    for (size_t i = 0; i < totals->header->processor_count; i++)
        totals->simulated_s = fmax(totals->simulated_s, totals->until_s[i]);
}

static bool totals_repeat(struct event_sink *sink, uint64_t simulated, uint64_t steps,
                          struct error *error)
{
    struct totals *totals = (struct totals *)sink;
    struct trace_totals *all = &totals->totals;
    double factor = (double)steps / (double)simulated;
    bool fits = event_repeat(&all->bytes, simulated, steps) &&
                event_repeat(&all->messages, simulated, steps);
    for (size_t i = 0; fits && i < totals->header->edge_count; i++) {
        fits = event_repeat(&all->edges[i].bytes, simulated, steps) &&
               event_repeat(&all->edges[i].messages, simulated, steps);
        all->edges[i].transfer_s *= factor;
    }
    repeat_waits(totals, simulated, steps);
    for (size_t i = 0; fits && i < totals->header->processor_count; i++) {
        struct trace_processor_total *processor = &all->processors[i];
        fits = event_repeat(&processor->flops, simulated, steps);
        processor->busy_s *= factor;
        processor->transfer_s *= factor;
        processor->wait_s *= factor; /* the first steps wait a little longer */
    }
    return fits || too_large("bytes, messages or FLOPs", error);
}

/* What is left of the time, but for the rounding of what it is left of. */
static double left_s(double time_s, double spent_s)
{
    double left = time_s - spent_s;
    return left > 1e-12 * time_s ? left : 0;
}

static bool totals_finish(struct event_sink *sink, double total_s, struct error *error)
{
    struct totals *totals = (struct totals *)sink;
    double told_s = totals->simulated_s > 0 ? totals->simulated_s : total_s;
    if (!trace_end_check(total_s, error))
        return false;
    totals->totals.time_s = total_s;
    for (size_t i = 0; i < totals->header->processor_count; i++) {
        struct trace_processor_total *processor = &totals->totals.processors[i];
        processor->idle_s = left_s(told_s, totals->until_s[i]);
        double spent_s = processor->busy_s + processor->idle_s;
        for (size_t w = 0; w < totals->totals.wait_count; w++)
            spent_s += totals->totals.waits[w].wait_s[i];
        processor->exchange_s = left_s(total_s, spent_s);
    }
    return true;
}

static void totals_free(struct event_sink *sink)
{
    struct totals *totals = (struct totals *)sink;
    if (totals == NULL)
        return;
    for (size_t w = 0; w < totals->totals.wait_count; w++) {
        free(totals->totals.waits[w].wait_s);
        free(totals->newest[w]);
    }
    free(totals->totals.waits);
    free(totals->newest);
    free(totals->until_s);
    free(totals->totals.edges);
    free(totals->totals.processors);
    free(totals->memory_bytes);
    free(totals);
}

static bool totals_start(struct totals *totals, const struct trace_header *header,
                         struct error *error)
{
    if (!trace_header_check(header, error))
        return false;
    totals->header = header;
    totals->newest_steps = (size_t)header->look_ahead_steps + 3;
    totals->totals.edges =
        checked_calloc(header->edge_count, sizeof(struct trace_edge_total));
    totals->totals.processors =
        checked_calloc(header->processor_count, sizeof(struct trace_processor_total));
    totals->memory_bytes =
        checked_calloc(header->processor_count, sizeof(*totals->memory_bytes));
    totals->until_s = checked_calloc(header->processor_count, sizeof *totals->until_s);
    if (totals->until_s == NULL || totals->totals.edges == NULL ||
        totals->totals.processors == NULL || totals->memory_bytes == NULL)
        return error_memory(error, "totals");
    return true;
}

struct event_sink *totals_open(const struct trace_header *header, struct error *error)
{
    struct totals *totals = checked_calloc(1, sizeof(*totals));
    if (totals == NULL) {
        error_memory(error, "totals");
        return NULL;
    }
    totals->sink =
        (struct event_sink){totals_event, totals_finish, totals_free, totals_repeat};
    if (totals_start(totals, header, error))
        return &totals->sink;
    totals_free(&totals->sink);
    return NULL;
}

const struct trace_totals *totals_get(const struct event_sink *sink)
{
    return &((const struct totals *)sink)->totals;
}
