/* Where a model is cut into stages. */
#ifndef PODSIM_SIM_PARTITION_H
#define PODSIM_SIM_PARTITION_H

#include "sim/method.h"

enum { PARTITION_MAX_STAGES = 4096 };

/* The "stages" key: a count (cut evenly by cost) or a list of block counts. */
struct stages {
    size_t count;
    size_t processors; /* stage i is on processor i % processors; 0: one a stage */
    uint64_t *blocks; /* NULL: cut by cost; else `count` block counts */
    size_t every;     /* > 1: ends are whole multiples of so many blocks, or the last block */
};

/* What a method asks of the processor of a stage besides its layers: fills the part's
 * slots, recompute and the like. NULL: memory is no concern of the cut. */
struct stage_demand {
    const void *context;
    bool (*fill)(const void *context, const struct planner *planner, size_t stage,
                 struct part *part, struct error *error);
    uint64_t queue_capacity;
};

bool stages_read(const struct json_at *object, size_t fallback, struct stages *stages,
                 struct error *error);
void stages_release(struct stages *stages);

/* end_block[i] is the block after stage i (count entries). By cost: the cut whose slowest
 * stage is fastest, forward and backward of one micro-batch, stage i on the processor
 * that the planner would place next but i (% processors), among the cuts whose stages fit
 * into their processors' memory, or among all when none does; the earliest of equals.
 * planner->plan->model is the model. */
bool stages_cut(const struct stages *stages, const struct stage_demand *demand,
                const struct planner *planner, size_t *end_block, struct error *error);

#endif
