/* GPipe (Huang et al. 2019): all forwards, then all backwards. */
#include "sim/schedule.h"

extern const struct schedule schedule_gpipe;

static bool body(const struct schedule_place *place, struct task_list *list,
                 struct error *error)
{
    return schedule_ahead(place->micro_batches, place->micro_batches, list, error);
}

const struct schedule schedule_gpipe = {
    .name = "gpipe",
    .summary = "all forwards, then all backwards",
    .body = body,
};
