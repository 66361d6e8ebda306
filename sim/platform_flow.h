/* The largest flow from one side of a platform to the other (Dinic's algorithm). */
#ifndef PODSIM_SIM_PLATFORM_FLOW_H
#define PODSIM_SIM_PLATFORM_FLOW_H

#include "sim/platform.h"

/* Bytes/s that the processors with upper[i] == from can send to the others at once when
 * nothing else is under way; INFINITY when a free or unshared way exists. */
bool platform_flow(const struct platform *platform, const bool *upper, bool from,
                   double *bytes_per_s, struct error *error);

#endif
