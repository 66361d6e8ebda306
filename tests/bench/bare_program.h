/* For bench_scale: a plan's programs as lists of sleeps, puts and gets for bare_simgrid.
 * The delays and the bytes are those that the executor charges. */
#ifndef PODSIM_TESTS_BENCH_BARE_PROGRAM_H
#define PODSIM_TESTS_BENCH_BARE_PROGRAM_H

#include "sim/experiment.h"

#include <stdio.h>

struct bare_counts {
    uint64_t computations, messages;
};

/* One step of the experiment's only method. */
bool bare_program_write(const struct experiment *experiment, FILE *out,
                        struct bare_counts *counts, struct error *error);
/* SimGrid's platform file with the routes that the program uses. */
bool bare_platform_write(const struct experiment *experiment, FILE *out,
                         struct error *error);

#endif
