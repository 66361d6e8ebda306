/* Runs the methods of an experiment, each in a child process of its own (SimGrid allows
 * one simulation a process), side by side on the cores. */
#ifndef PODSIM_ANALYSIS_RUN_H
#define PODSIM_ANALYSIS_RUN_H

#include "sim/experiment.h"

struct run_options {
    const char *directory; /* traces go to DIR/METHOD/, or DIR when flat; NULL: none */
    bool flat;
    size_t jobs;           /* children at once; 0: as many as cores */
    bool keep_going; /* a method that this computer could not do is a result too: "stopped",
                      * with "failed": true */
    /* fraction of all steps done (0 to 1); the furthest method that is still running, its
     * steps and its simulated time; may be NULL */
    void (*progress)(void *context, double fraction, const char *method, uint64_t steps,
                     double simulated_s);
    void *progress_context;
};

/* The methods' summaries (analysis/summary.h) in the experiment's order, a list of raw
 * JSON texts (summary_parsed gives it as objects); the caller deletes it. NULL when any
 * failed: the first failure in that order. Nothing is written to the directory before
 * every input has been read and checked. */
cJSON *run_methods(const struct experiment *experiment, const struct run_options *options,
                   struct error *error);

#endif
