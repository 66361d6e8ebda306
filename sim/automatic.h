/* "stages": "auto": as many as the machine has processors for. */
#ifndef PODSIM_SIM_AUTOMATIC_H
#define PODSIM_SIM_AUTOMATIC_H

#include "base/json.h"

/* Replaces the word, in a method and in those inside it, by a number, so that it shows in
 * the resolved experiment: the processors (of the placement, or all) shared evenly among
 * the copies of the model, but no more stages than blocks. False only for want of memory. */
bool automatic_stages(const struct json_at *method, size_t processors, size_t blocks,
                      struct error *error);

#endif
