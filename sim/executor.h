/* Walks a plan's programs under the simulated clock: charges compute, transfers and
 * memory, tells everything as events, and, where a trainer is given, lets the same
 * instruction train. Takes the same simulated time with and without one. One call a
 * process (see machine.h). */
#ifndef PODSIM_SIM_EXECUTOR_H
#define PODSIM_SIM_EXECUTOR_H

#include "sim/fidelity.h"
#include "sim/ledger.h"
#include "sim/plan.h"
#include "sim/platform.h"
#include "sim/trainer.h"
#include "traces/event.h"

struct execution {
    const struct plan *plan;
    struct platform *platform;
    uint64_t steps;
    enum fidelity fidelity;
    bool every_step; /* a cost-only run simulates also steps that repeat: to the last bit
                        what the run that trains takes */
    uint64_t evaluate_every;  /* steps between evaluations; the last step always has one */
    struct trainer *trainer;  /* NULL: cost only */
    struct event_sink **sinks;
    size_t sink_count;
    const struct trace_header *header;
    /* After each step of the first copy; may be NULL. */
    void (*progress)(void *context, double now_s, uint64_t steps_done);
    void *progress_context;
};

struct execution_result {
    double time_s;
    size_t edges_alone, collectives_alone; /* worked out, not simulated (sim/fidelity.h) */
    char note[160];           /* what failed and did not finish; "" */
    uint64_t simulated_steps; /* the rest repeat these exactly (sim/steady.h) */
    struct shortage shortage; /* happened: it does not fit; numerics stopped there */
};

/* STATUS_IMPOSSIBLE when the machine cannot go on; STATUS_HOST when a sink fails. */
bool execute(const struct execution *execution, struct execution_result *result,
             struct error *error);

#endif
