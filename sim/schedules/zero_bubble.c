/* ZB-H1 (Qi et al. 2023): 1F1B with backward in two halves. The input's gradient goes
 * back at once, the weights' is made later, when the processor would otherwise stand
 * still. Stage i is i micro-batches late with it, so that no stage holds more than 1F1B's
 * first one. */
#include "sim/schedule.h"

extern const struct schedule schedule_zero_bubble;

static bool body(const struct schedule_place *place, struct task_list *list,
                 struct error *error)
{
    uint64_t m = place->micro_batches, forwards = 0, weights = 0;
    for (uint64_t inputs = 0; inputs < m; inputs++) {
        for (; forwards < m && forwards < inputs + place->processors - place->rank; forwards++)
            if (!task_add(list, OP_FORWARD, 0, forwards, error))
                return false;
        if (!task_add(list, OP_BACKWARD_INPUT, 0, inputs, error))
            return false;
        if (inputs >= place->rank && !task_add(list, OP_BACKWARD_WEIGHT, 0, weights++, error))
            return false;
    }
    for (; weights < m; weights++)
        if (!task_add(list, OP_BACKWARD_WEIGHT, 0, weights, error))
            return false;
    return true;
}

const struct schedule schedule_zero_bubble = {
    .name = "zero_bubble",
    .summary = "ZB-H1: the weights' gradients fill the ramp down",
    .split_backward = true,
    .body = body,
};
