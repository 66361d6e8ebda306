/* Weights that several parts of a copy hold (tied layers around a cut). */
#ifndef PODSIM_SIM_TIE_H
#define PODSIM_SIM_TIE_H

#include "sim/plan.h"

/* For every weight that more than one trained part of a copy holds: a collective that
 * sums its gradients before the parts update, so that the copies stay equal. Call after
 * the layout and before the programs are emitted. */
bool tie_parts(struct plan *plan, struct error *error);

#endif
