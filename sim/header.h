/* The names and routes that a run's event stream refers to. */
#ifndef PODSIM_SIM_HEADER_H
#define PODSIM_SIM_HEADER_H

#include "sim/plan.h"
#include "sim/platform.h"
#include "traces/event.h"

/* Borrows from plan and platform, which must outlive it. */
struct trace_header *header_create(const struct plan *plan, struct platform *platform,
                                   uint64_t trace_steps, struct error *error);
void header_free(struct trace_header *header);

#endif
