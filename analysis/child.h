/* What a child process does: one simulation, its traces, its summary. */
#ifndef PODSIM_ANALYSIS_CHILD_H
#define PODSIM_ANALYSIS_CHILD_H

#include "sim/experiment.h"

enum frame_kind { FRAME_PROGRESS, FRAME_SUMMARY, FRAME_ERROR };

/* A message to the parent: this header, then length bytes. */
struct frame {
    uint32_t kind;
    uint32_t length;
};
struct frame_progress {
    double now_s;
    uint64_t steps;
};

/* Simulates and writes frames to the pipe, the last a summary or an error. */
void child_run(const struct experiment *experiment, size_t method,
               const struct dataset *dataset, const char *trace_directory, int pipe);

#endif
