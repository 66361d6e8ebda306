/* A progress bar on standard error, only where that is a terminal. */
#ifndef PODSIM_COMMAND_PROGRESS_H
#define PODSIM_COMMAND_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct progress {
    bool shown;
    struct timespec began;
};

void progress_begin(struct progress *progress, bool quiet);
/* Matches run_options.progress; context is the struct progress. */
void progress_show(void *context, double fraction, const char *method, uint64_t steps,
                   double simulated_s);
void progress_end(struct progress *progress);

#endif
