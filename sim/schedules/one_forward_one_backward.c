/* 1F1B (Narayanan et al. 2019; here with a flush): as few forwards ahead as the depth
 * needs, then one backward, one forward. */
#include "sim/schedule.h"

extern const struct schedule schedule_1f1b;

static bool body(const struct schedule_place *place, struct task_list *list,
                 struct error *error)
{
    return schedule_ahead(place->processors - place->rank, place->micro_batches, list, error);
}

const struct schedule schedule_1f1b = {
    .name = "1f1b",
    .summary = "one forward, one backward, as soon as the first gradient comes back",
    .body = body,
};
