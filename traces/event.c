#include "traces/event.h"

#include <math.h>

/* 292 years: what a signed 64-bit count of nanoseconds holds. */
#define LONGEST_S 9.2e9

const char *memory_category_name(enum memory_category category)
{
    static const char *const names[MEMORY_CATEGORIES] = {
        "weights", "gradients", "optimizer", "stash", "queue", "workspace"};
    return names[category];
}

const char *event_kind_name(enum event_kind kind)
{
    static const char *const names[EVENT_KINDS] = {"compute", "transfer", "wait", "memory",
                                                   "metric"};
    return names[kind];
}

static bool edge_check(const struct trace_header *header, size_t index, struct error *error)
{
    const struct trace_edge *edge = &header->edges[index];
    if (edge->name == NULL || edge->from >= header->processor_count ||
        edge->to >= header->processor_count)
        return error_set(error, STATUS_FAILED, "trace header: edge %zu has no name or end",
                         index);
    for (size_t i = 0; i < edge->link_count; i++)
        if (edge->links[i] >= header->link_count)
            return error_set(error, STATUS_FAILED,
                             "trace header: edge %zu takes link %u of %zu", index,
                             edge->links[i], header->link_count);
    return true;
}

bool trace_header_check(const struct trace_header *header, struct error *error)
{
    if (header->method == NULL)
        return error_set(error, STATUS_FAILED, "trace header: no method name");
    if (header->processor_count >= EVENT_NONE || header->edge_count >= EVENT_NONE ||
        header->link_count >= EVENT_NONE || header->layer_count >= EVENT_NONE)
        return error_set(error, STATUS_FAILED, "trace header: too many names");
    for (size_t i = 0; i < header->processor_count; i++)
        if (header->processors[i].name == NULL)
            return error_set(error, STATUS_FAILED, "trace header: processor %zu unnamed",
                             i);
    for (size_t i = 0; i < header->link_count; i++)
        if (header->links[i].name == NULL || !(header->links[i].bandwidth_bytes_per_s > 0))
            return error_set(error, STATUS_FAILED,
                             "trace header: link %zu has no name or no bandwidth", i);
    for (size_t i = 0; i < header->layer_count; i++)
        if (header->layer_names[i] == NULL)
            return error_set(error, STATUS_FAILED, "trace header: layer %zu unnamed", i);
    for (size_t i = 0; i < header->edge_count; i++)
        if (!edge_check(header, i, error))
            return false;
    return true;
}

static bool event_fault(const struct event *event, const char *what, struct error *error)
{
    return error_set(error, STATUS_FAILED,
                     "trace: an event of processor %u, step %llu, at %.9g to %.9g s: %s",
                     event->processor, (unsigned long long)event->step, event->start_s,
                     event->end_s, what);
}

/* A machine that slow is no mistake of ours. */
static bool too_long(double end_s, struct error *error)
{
    return error_set(error, STATUS_IMPOSSIBLE,
                     "simulated time comes to %.3g s, and is counted to 292 years (2^63 ns): "
                     "the slowest processor or link is too slow for so many steps",
                     end_s);
}

bool event_check(const struct event *event, const struct trace_header *header,
                 struct error *error)
{
    if ((unsigned)event->kind >= EVENT_KINDS)
        return event_fault(event, "unknown kind", error);
    if (event->processor >= header->processor_count)
        return event_fault(event, "no such processor", error);
    if (event->end_s > LONGEST_S && event->end_s >= event->start_s)
        return too_long(event->end_s, error);
    if (!(event->start_s >= 0) || !(event->end_s >= event->start_s))
        return event_fault(event, "impossible times", error);
    if (event->layer != EVENT_NONE && event->layer >= header->layer_count)
        return event_fault(event, "no such layer", error);
    if (event->edge != EVENT_NONE && event->edge >= header->edge_count)
        return event_fault(event, "no such edge", error);
    switch (event->kind) {
    case EVENT_TRANSFER:
        if (event->edge == EVENT_NONE ||
            header->edges[event->edge].from != event->processor)
            return event_fault(event, "a transfer that is not on an edge of its sender",
                               error);
        return true;
    case EVENT_MEMORY:
        if ((unsigned)event->category >= MEMORY_CATEGORIES)
            return event_fault(event, "unknown memory category", error);
        return event->start_s == event->end_s ||
               event_fault(event, "a memory change that lasts", error);
    default:
        return event->name != NULL || event_fault(event, "no name", error);
    }
}

bool trace_end_check(double total_s, struct error *error)
{
    if (total_s > LONGEST_S)
        return too_long(total_s, error);
    return total_s >= 0 ||
           error_set(error, STATUS_FAILED, "trace: a run that ends at %g s", total_s);
}

bool event_is_kept(const struct event *event, const struct trace_header *header)
{
    return header->trace_steps == 0 || event->step < header->trace_steps;
}

uint64_t event_nanoseconds(double time_s)
{
    return (uint64_t)llround(time_s * 1e9);
}

bool event_repeat(uint64_t *value, uint64_t simulated, uint64_t steps)
{
    return !__builtin_mul_overflow(*value / simulated, steps, value);
}
