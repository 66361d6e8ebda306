/* What holds a run up, as far as its figures prove it. */
#ifndef PODSIM_ANALYSIS_BOTTLENECK_H
#define PODSIM_ANALYSIS_BOTTLENECK_H

#include "base/text.h"

#include <cjson/cJSON.h>

enum { BOTTLENECK_WAITS = 24 };

/* A kind of wait, or what else takes time, over all processors. */
struct time_share {
    const char *name;
    double share; /* of time x processors, or of the time of one */
};

/* Of a method's summary (an object that was parsed): shares of time x processors. */
struct time_shares {
    size_t processors;
    double computing, communicating, waiting, idle;
    struct time_share waits[BOTTLENECK_WAITS]; /* the largest first */
    size_t wait_count;
};
void time_shares_of(const cJSON *method, struct time_shares *shares);
/* The same of one element of "processor_time". */
void time_shares_of_processor(const cJSON *processor, double time_s,
                              struct time_shares *shares);
/* "activations" of "wait for activations". */
const char *wait_reason(const char *name);

/* What of the model an element of "processor_time" has: "model 1, replica 0, stage 2",
 * "stage 0+4". Like the next, appends. */
void bottleneck_place(const cJSON *method, const cJSON *processor, struct text *text);
/* A sentence or three on what holds the run up and why. */
void bottleneck_text(const cJSON *method, struct text *text);

#endif
