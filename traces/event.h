/* Everything that happens in a simulated run, as one stream. Traces, tables and totals
 * are made only from it. This room knows no other: the header of the stream carries all
 * names. */
#ifndef PODSIM_TRACES_EVENT_H
#define PODSIM_TRACES_EVENT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum memory_category {
    MEMORY_WEIGHTS,
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,
    MEMORY_STASH,
    MEMORY_QUEUE, /* messages that wait at the receiver, or to be sent */
    MEMORY_WORKSPACE,
    MEMORY_CATEGORIES
};
const char *memory_category_name(enum memory_category category); /* "weights" ... */

enum event_kind {
    EVENT_COMPUTE,  /* processor, name, layer, micro_batch, flops */
    EVENT_TRANSFER, /* edge, bytes; processor is the sender */
    EVENT_WAIT,     /* the processor stood still; name says for what */
    EVENT_MEMORY,   /* at start_s == end_s: bytes of `category` and in all, after */
    EVENT_METRIC,   /* at start_s == end_s: name ("loss", "accuracy"), value */
    EVENT_KINDS
};
const char *event_kind_name(enum event_kind kind); /* "compute" ... */

#define EVENT_NONE UINT32_MAX

struct event {
    enum event_kind kind;
    const char *name; /* static text or owned by the header's owner; a transfer may have
                       * NULL: its edge's name */
    uint32_t processor;
    uint32_t stream; /* 0 the processor's main instruction stream; 1.. side streams */
    uint32_t layer;  /* index into layer_names, or EVENT_NONE */
    uint32_t edge;   /* index into edges, or EVENT_NONE */
    uint64_t step;
    uint64_t micro_batch; /* within the step */
    double start_s, end_s;
    uint64_t messages; /* transfers: how many this stands for; 0 means 1 */
    double transfer_s; /* of several: the sum of their durations */
    uint64_t bytes; /* transfers: carried; memory: of the category, after */
    uint64_t flops;
    uint64_t memory_after_bytes; /* memory: of the processor in all, after */
    enum memory_category category;
    double value;
};

struct trace_processor {
    const char *name;
    uint64_t memory_capacity_bytes;
};

struct trace_edge {
    const char *name; /* "ipu0 -> ipu1 activations" */
    uint32_t from, to;
    const uint32_t *links; /* its route, indices into links */
    size_t link_count;
};

struct trace_link {
    const char *name;
    double bandwidth_bytes_per_s;
};

struct trace_header {
    const char *method;
    const struct trace_processor *processors;
    size_t processor_count;
    const struct trace_edge *edges;
    size_t edge_count;
    const struct trace_link *links;
    size_t link_count;
    const char *const *layer_names;
    size_t layer_count;
    uint64_t trace_steps; /* writers keep events of steps below this; 0: all */
    uint64_t look_ahead_steps; /* whose micro-batches a step may be busy with already: the
                                * last steps of a run differ from those before */
};

/* A fault in the header or an event is a fault of who made it: STATUS_FAILED. Every sink
 * checks both before it indexes with them. */
bool trace_header_check(const struct trace_header *header, struct error *error);
bool event_check(const struct event *event, const struct trace_header *header,
                 struct error *error);
/* The end of the run as finish() gets it: finite, not negative, at most 292 years. */
bool trace_end_check(double total_s, struct error *error);
/* Does a writer keep it (trace_steps)? Totals and links.csv take every event. */
bool event_is_kept(const struct event *event, const struct trace_header *header);
/* An instant in whole nanoseconds. Rounded here only, so that slices which touch in the
 * simulation touch in every file. */
uint64_t event_nanoseconds(double time_s);

/* Something that takes the stream. Events arrive when they end, but the layers of one
 * computation together when the last of them does. Functions return false and fill error
 * when they cannot go on. The header outlives the sink. */
struct event_sink {
    bool (*event)(struct event_sink *sink, const struct event *event, struct error *error);
    /* After the last event. total_s: simulated end of the run. */
    bool (*finish)(struct event_sink *sink, double total_s, struct error *error);
    void (*free)(struct event_sink *sink);
    /* Optional, before finish: the run has `steps` steps, of which only the first
     * `simulated` were told; the others are like one that neither begins nor ends the run. */
    bool (*repeat)(struct event_sink *sink, uint64_t simulated, uint64_t steps,
                   struct error *error);
};

/* value * steps / simulated, for counts that every step adds the same to; false: more than
 * 64 bits. */
bool event_repeat(uint64_t *value, uint64_t simulated, uint64_t steps);

/* A trace format: one file in traces/, one line in the table of traces/writers.c. */
struct trace_format {
    const char *name;      /* for options and messages */
    const char *file_name; /* in the output folder */
    struct event_sink *(*open)(const char *path, const struct trace_header *header,
                               struct error *error);
};
size_t trace_format_count(void);
const struct trace_format *trace_format_get(size_t index);

/* Totals over all events (every step, whatever trace_steps says). */
struct trace_edge_total {
    uint64_t bytes, messages;
    double transfer_s; /* sum of its transfers' durations */
};
/* Of a processor's time, busy_s, what its main stream waited (trace_wait), exchange_s and
 * idle_s make up the whole run. */
struct trace_processor_total {
    double busy_s;     /* computing */
    double transfer_s; /* sum of its outgoing transfers' durations */
    double wait_s;     /* of all its streams */
    double exchange_s; /* its main stream was in a message or a collective: the rest */
    double idle_s;     /* after its last computation, wait and transfer */
    uint64_t flops;
    uint64_t peak_bytes;
    uint64_t category_peak_bytes[MEMORY_CATEGORIES]; /* each at its own moment */
    uint64_t at_peak_bytes[MEMORY_CATEGORIES];       /* at the moment of peak_bytes */
    uint64_t final_bytes;
    double peak_s; /* when the peak was reached first */
};
/* For what the processors' main streams stood still. */
struct trace_wait {
    const char *name; /* of the events */
    double *wait_s;   /* a processor */
};
struct trace_totals {
    double time_s;
    uint64_t bytes, messages, events;
    struct trace_edge_total *edges;
    struct trace_processor_total *processors;
    struct trace_wait *waits; /* in the order of their first events */
    size_t wait_count;
};
/* The sink owns the totals; they live until it is freed. */
struct event_sink *totals_open(const struct trace_header *header, struct error *error);
const struct trace_totals *totals_get(const struct event_sink *sink);

#endif
