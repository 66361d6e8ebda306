/* A machine as its JSON file describes it: processors, links, and routes between them.
 * SimGrid is not known here. Bandwidths are bytes/s per direction, latencies seconds. */
#ifndef PODSIM_SIM_PLATFORM_H
#define PODSIM_SIM_PLATFORM_H

#include "base/json.h"
#include "engine/layer.h"
#include "sim/precision.h"

#include <stdio.h>

enum { PLATFORM_NAME_BYTES = 64 };

/* What one layer's pass asks of a processor. */
struct work {
    enum operation_class operation;
    const char *layer_kind; /* "conv2d" ... */
    const char *layer_name;
    const char *pass;       /* "forward", "backward", "update" ... */
    enum number_format format;
    uint64_t flops;
    uint64_t bytes; /* read and written in the processor's memory */
};

/* A processor kind: one file in sim/processors/, one line in the table of
 * sim/processor.c. Its parameters are its own. */
struct processor;
struct processor_kind {
    const char *name;
    /* The kind's own keys, added to the common ones. */
    const char *const *keys;
    size_t key_count;
    /* Fills processor->parameters (allocated by read, freed by release). */
    bool (*read)(const struct json_at *at, struct processor *processor, struct error *error);
    void (*release)(struct processor *processor);
    /* Seconds of this work; finite and >= 0. False when the kind cannot say. */
    bool (*seconds)(const struct processor *processor, const struct work *work,
                    double *seconds, struct error *error);
};

struct processor {
    char name[PLATFORM_NAME_BYTES];
    const struct processor_kind *kind;
    void *parameters;
    uint64_t memory_bytes;
    bool overlap;    /* compute and exchange at the same time; false: bulk-synchronous */
    double sync_s;   /* added to each transfer that it takes part in, when not overlap */
    double slowdown; /* factor on compute time, 1 by default */
};

enum link_sharing {
    LINK_SHARED, /* flows share its bandwidth max-min (one direction, or a bus) */
    LINK_FATPIPE /* every flow has the full bandwidth */
};

struct link {
    char name[PLATFORM_NAME_BYTES];
    double bandwidth_bytes_per_s; /* INFINITY: free */
    double latency_s;
    enum link_sharing sharing;
};

struct route {
    const uint32_t *links; /* owned by the platform */
    size_t link_count;
    double latency_s;             /* sum */
    double bandwidth_bytes_per_s; /* smallest */
};

struct platform;

/* By path, or by the name of a shipped platform ("ipu-m2000"). Everything is checked
 * here, since SimGrid aborts on what it dislikes. */
struct platform *platform_read(const char *path_or_name, struct error *error);
struct platform *platform_parse(const struct json_at *root, struct error *error);
void platform_free(struct platform *platform);

const char *platform_name(const struct platform *platform);
size_t platform_processor_count(const struct platform *platform);
const struct processor *platform_processor(const struct platform *platform, size_t index);
size_t platform_link_count(const struct platform *platform);
const struct link *platform_link(const struct platform *platform, size_t index);

/* The links a message passes, computed when first asked and kept. from == to: an empty
 * route of infinite bandwidth. Not connected: STATUS_BAD_INPUT with both names. */
bool platform_route(struct platform *platform, size_t from, size_t to, struct route *route,
                    struct error *error);

bool processor_seconds(const struct processor *processor, const struct work *work,
                       double *seconds, struct error *error);

/* For topology files (sim/topologies/): vertices 0..processors-1 are the processors,
 * switches follow. A topology kind is one file and one line in sim/topology.c. */
struct link_spec {
    double bandwidth_bytes_per_s, latency_s;
    uint64_t count; /* parallel links between a pair, bundled: bandwidths add */
};
/* Reads {"bandwidth_bytes_per_s":, "latency_s":, "count":}. */
bool link_spec_read(const struct json_at *at, struct link_spec *spec, struct error *error);
size_t platform_add_switch(struct platform *platform, const char *name, struct error *error);
/* A duplex link: two directed ones named "a->b" and "b->a". */
bool platform_add_duplex(struct platform *platform, size_t a, size_t b,
                         const struct link_spec *spec, struct error *error);
/* One directed link of any sharing. */
bool platform_add_link(struct platform *platform, size_t from, size_t to, const char *name,
                       const struct link_spec *spec, enum link_sharing sharing,
                       struct error *error);

struct topology_kind {
    const char *name;
    const char *summary;
    const char *const *keys; /* besides "kind" */
    size_t key_count;
    bool (*build)(const struct json_at *at, struct platform *platform, struct error *error);
};

/* What `podsim platform` prints; --xml: SimGrid's platform file for the used pairs. */
bool platform_describe(struct platform *platform, FILE *out, struct error *error);

#endif
