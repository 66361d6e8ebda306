/* Who may use a bulk-synchronous processor now: one computation, or any number of
 * transfers, never both. A request names one or two processors and is granted when all
 * of them allow it at once (nothing is held while waiting), in the order of asking: a
 * request never overtakes an earlier one that it would conflict with, so none starves
 * and none can block another for ever. */
#ifndef PODSIM_SIM_OCCUPANCY_H
#define PODSIM_SIM_OCCUPANCY_H

#include "base/error.h"
#include "sim/machine.h"

struct occupancy;

enum usage { USAGE_COMPUTE, USAGE_EXCHANGE };

struct occupancy *occupancy_create(size_t processors, struct error *error);
void occupancy_free(struct occupancy *occupancy);
/* Blocks the calling actor, on its gate, until granted. `first` and `second` may be the
 * same processor. */
void occupancy_acquire(struct occupancy *occupancy, enum usage usage, uint32_t first,
                       uint32_t second, struct gate *gate);
void occupancy_release(struct occupancy *occupancy, enum usage usage, uint32_t first,
                       uint32_t second);

#endif
