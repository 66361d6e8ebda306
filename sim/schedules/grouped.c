/* The lock-step schedule of the IPU vendor's frameworks: the K forward and the K backward
 * stages are a pipeline of 2K, through which micro-batches go one stage a slot. In every
 * slot a processor runs the backward and the forward that are due, then all exchange. */
#include "sim/schedule.h"

extern const struct schedule schedule_grouped;

/* The micro-batch that stage `stage` of 2K has in a slot, if any. */
static bool due(const struct schedule_place *place, uint64_t slot, uint64_t stage)
{
    return slot >= stage && slot - stage < place->micro_batches;
}

static bool body(const struct schedule_place *place, struct task_list *list,
                 struct error *error)
{
    uint64_t forward = place->rank, backward = 2 * place->processors - 1 - place->rank;
    uint64_t slots = place->micro_batches + 2 * place->processors - 1;
    for (uint64_t slot = 0; slot < slots; slot++) {
        if (due(place, slot, backward) &&
            !task_add(list, OP_BACKWARD, 0, slot - backward, error))
            return false;
        if (due(place, slot, forward) &&
            !task_add(list, OP_FORWARD, 0, slot - forward, error))
            return false;
        if (!task_add(list, OP_BARRIER, 0, 0, error))
            return false;
    }
    return true;
}

const struct schedule schedule_grouped = {
    .name = "grouped",
    .summary = "forward and backward stages advance in lock step, a micro-batch a slot",
    .lock_step = true,
    .body = body,
};
