/* What a processor is to the simulation: how long a piece of work takes, how much memory
 * there is. A kind of processor is one file in sim/processors/ and one line in the table of
 * sim/processor.c. */
#ifndef PODSIM_SIM_PROCESSOR_H
#define PODSIM_SIM_PROCESSOR_H

#include "base/json.h"
#include "engine/layer.h"
#include "sim/precision.h"

enum { PLATFORM_NAME_BYTES = 64 };

/* What one layer's pass asks of a processor. */
struct work {
    enum operation_class operation;
    const char *layer_kind; /* "conv2d" ... */
    const char *layer_name;
    const char *pass; /* "forward", "backward", "update" ... */
    enum number_format format;
    uint64_t flops;
    uint64_t bytes; /* read and written in the processor's memory */
};

struct processor;
struct processor_kind {
    const char *name;
    const char *summary;
    /* The kind's own keys, added to the common ones. */
    const char *const *keys;
    size_t key_count;
    bool overlap; /* the default of "overlap" */
    /* Fills processor->parameters (allocated by read, freed by release, also after a
     * failed read), and memory_bytes when the kind derives it. */
    bool (*read)(const struct json_at *at, struct processor *processor,
                 struct error *error);
    void (*release)(void *parameters);
    /* Seconds of this work. False when the kind cannot say. */
    bool (*seconds)(const struct processor *processor, const struct work *work,
                    double *seconds, struct error *error);
    /* Peak rate in a format, FLOP/s; 0: it has none. NULL: the kind knows no rates. */
    double (*peak_flops_per_s)(const struct processor *processor,
                               enum number_format format);
};

struct power {
    bool known;
    double idle_watts, busy_watts;
    double joules_per_byte; /* of its transfers */
};

struct processor {
    char name[PLATFORM_NAME_BYTES];
    char group[PLATFORM_NAME_BYTES];
    const struct processor_kind *kind;
    void *parameters; /* shared by the group */
    uint64_t memory_bytes;
    uint64_t streaming_bytes; /* slower memory beside it; 0: none */
    double streaming_bandwidth_bytes_per_s;
    bool overlap;    /* compute and exchange at the same time; false: bulk-synchronous */
    double sync_s;   /* added to each transfer that it takes part in, when not overlap */
    double slowdown; /* factor on compute time, 1 by default */
    struct power power;
};

/* Seconds of the work, slowdown included; finite and >= 0. */
bool processor_seconds(const struct processor *processor, const struct work *work,
                       double *seconds, struct error *error);

/* One group: {"name", "count", "kind", ...}. count comes back apart; numbered is false when
 * the key was absent, and the processor then has the group's name without a number. The
 * caller releases it, also after a failure. */
bool processor_read(const struct json_at *at, struct processor *processor,
                    uint64_t maximum_count, uint64_t *count, bool *numbered,
                    struct error *error);
void processor_release(struct processor *processor);

size_t processor_kind_count(void);
const struct processor_kind *processor_kind_get(size_t index);

#endif
