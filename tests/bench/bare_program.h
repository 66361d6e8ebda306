/* For bench_scale: what podsim did in a step, as lists of sleeps, puts and gets for
 * bare_simgrid. Each delay and each transfer is there, in each processor's order. */
#ifndef PODSIM_TESTS_BENCH_BARE_PROGRAM_H
#define PODSIM_TESTS_BENCH_BARE_PROGRAM_H

#include "sim/experiment.h"

#include <stdio.h>

/* One step of the experiment's only method, message by message. Simulates it: once a
 * process. */
bool bare_program_write(const struct experiment *experiment, FILE *out,
                        struct error *error);
/* Computations of an instruction and messages in that step. */
uint64_t bare_events(const struct experiment *experiment);
/* SimGrid's platform file with the routes that the program uses. */
bool bare_platform_write(const struct experiment *experiment, FILE *out,
                         struct error *error);

#endif
