#include "command/progress.h"

#include "base/text.h"

#include <stdio.h>
#include <unistd.h>

void progress_begin(struct progress *progress, bool quiet)
{
    progress->shown = !quiet && isatty(STDERR_FILENO);
    clock_gettime(CLOCK_MONOTONIC, &progress->began);
}

void progress_show(void *context, double fraction, const char *method, uint64_t steps,
                   double simulated_s)
{
    struct progress *progress = context;
    char simulated[TEXT_QUANTITY_BYTES], left[TEXT_QUANTITY_BYTES], bar[33];
    struct timespec now;
    if (!progress->shown)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double since_s = (double)(now.tv_sec - progress->began.tv_sec) +
                     1e-9 * (double)(now.tv_nsec - progress->began.tv_nsec);
    for (size_t i = 0; i < sizeof bar - 1; i++)
        bar[i] = (double)i < fraction * (double)(sizeof bar - 1) ? '#' : '.';
    bar[sizeof bar - 1] = '\0';
    text_seconds(simulated, simulated_s);
    text_seconds(left, fraction > 0 ? since_s / fraction - since_s : 0);
    fprintf(stderr, "\r[%s] %3.0f %%  %s: %llu steps, %s simulated; about %s left\033[K", bar,
            100 * fraction, method, (unsigned long long)steps, simulated, left);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fprintf(stderr, "\r\033[K");
}
