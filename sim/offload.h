/* Weights or optimiser state kept in a processor's streaming memory: slower memory beside
 * it, which every use reads (and an update writes) at its own bandwidth. */
#ifndef PODSIM_SIM_OFFLOAD_H
#define PODSIM_SIM_OFFLOAD_H

#include "base/json.h"

#include <stdint.h>

struct offload {
    bool weights, optimizer;
};

struct plan;
struct part;
struct part_memory;
struct platform;

/* "offload": a list of "weights" and "optimizer". */
bool offload_read(const struct json_at *at, struct offload *offload, struct error *error);
/* Moves bytes from the processor's own memory to memory->streamed_bytes; of weights, room
 * for the largest layer's stays. */
bool offload_memory(const struct plan *plan, const struct part *part,
                    struct part_memory *memory, struct error *error);
/* Every processor has the streaming memory that its parts need. */
bool offload_check(const struct plan *plan, const struct platform *platform,
                   struct error *error);

#endif
