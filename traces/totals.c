/* Totals over every event of the run. */
#include "base/checked.h"
#include "traces/event.h"

#include <stdlib.h>
#include <string.h>

struct totals {
    struct event_sink sink;
    const struct trace_header *header;
    struct trace_totals totals;
    uint64_t (*memory_bytes)[MEMORY_CATEGORIES]; /* now, by processor */
};

static bool too_large(const char *what, struct error *error)
{
    return error_set(error, STATUS_BAD_INPUT, "totals: %s exceed 64 bits; take fewer steps",
                     what);
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
    totals->totals.processors[event->processor].transfer_s += event->end_s - event->start_s;
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
        return checked_add(processor->flops, event->flops, &processor->flops) ||
               too_large("FLOPs", error);
    case EVENT_TRANSFER:
        return add_transfer(totals, event, error);
    case EVENT_WAIT:
        processor->wait_s += event->end_s - event->start_s;
        return true;
    case EVENT_MEMORY:
        add_memory(totals, event);
        return true;
    default:
        return true;
    }
}

static bool totals_repeat(struct event_sink *sink, uint64_t simulated, uint64_t steps,
                          struct error *error)
{
    struct totals *totals = (struct totals *)sink;
    struct trace_totals *all = &totals->totals;
    double factor = (double)steps / (double)simulated;
    bool fits = event_repeat(&all->bytes, simulated, steps) &&
                event_repeat(&all->messages, simulated, steps);
    for (size_t i = 0; fits && i < totals->header->edge_count; i++)
        fits = event_repeat(&all->edges[i].bytes, simulated, steps) &&
               event_repeat(&all->edges[i].messages, simulated, steps);
    for (size_t i = 0; fits && i < totals->header->processor_count; i++) {
        struct trace_processor_total *processor = &all->processors[i];
        fits = event_repeat(&processor->flops, simulated, steps);
        processor->busy_s *= factor;
        processor->transfer_s *= factor;
        processor->wait_s *= factor; /* the first steps wait a little longer */
    }
    return fits || too_large("bytes, messages or FLOPs", error);
}

static bool totals_finish(struct event_sink *sink, double total_s, struct error *error)
{
    ((struct totals *)sink)->totals.time_s = total_s;
    return trace_end_check(total_s, error);
}

static void totals_free(struct event_sink *sink)
{
    struct totals *totals = (struct totals *)sink;
    if (totals == NULL)
        return;
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
    totals->totals.edges =
        checked_calloc(header->edge_count, sizeof(struct trace_edge_total));
    totals->totals.processors =
        checked_calloc(header->processor_count, sizeof(struct trace_processor_total));
    totals->memory_bytes =
        checked_calloc(header->processor_count, sizeof(*totals->memory_bytes));
    if (totals->totals.edges == NULL || totals->totals.processors == NULL ||
        totals->memory_bytes == NULL)
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
    totals->sink = (struct event_sink){totals_event, totals_finish, totals_free, totals_repeat};
    if (totals_start(totals, header, error))
        return &totals->sink;
    totals_free(&totals->sink);
    return NULL;
}

const struct trace_totals *totals_get(const struct event_sink *sink)
{
    return &((const struct totals *)sink)->totals;
}
