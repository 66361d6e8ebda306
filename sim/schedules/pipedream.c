/* PipeDream (Narayanan et al. 2019): 1F1B without a flush. Stage i of p runs p - 1 - i
 * forwards ahead, into the next steps; a forward takes the newest weights, its backward
 * the same ones as the forward (weight stashing). In the paper every micro-batch updates
 * the weights; with m of them a step, gradients are accumulated and fewer versions of the
 * weights are alive. */
#include "sim/schedule.h"

extern const struct schedule schedule_pipedream;

static uint64_t look_ahead(const struct schedule_place *place)
{
    return place->processors - 1 - place->rank;
}

static bool prologue(const struct schedule_place *place, struct task_list *list,
                     struct error *error)
{
    for (uint64_t i = 0; i < look_ahead(place); i++)
        if (!task_add(list, OP_FORWARD, 0, i, error))
            return false;
    return true;
}

static bool body(const struct schedule_place *place, struct task_list *list,
                 struct error *error)
{
    for (uint64_t i = 0; i < place->micro_batches; i++)
        if (!task_add(list, OP_FORWARD, 0, i + look_ahead(place), error) ||
            !task_add(list, OP_BACKWARD, 0, i, error))
            return false;
    return true;
}

/* The newest, and those that came while the oldest micro-batch was under way. */
static uint64_t weight_versions(const struct schedule_place *place)
{
    uint64_t ahead = look_ahead(place), m = place->micro_batches;
    return 1 + ahead / m + (ahead % m != 0);
}

const struct schedule schedule_pipedream = {
    .name = "pipedream",
    .summary = "no flush: late gradients, on the weights that the forward has used",
    .body = body,
    .prologue = prologue,
    .weight_versions = weight_versions,
};
