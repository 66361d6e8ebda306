/* What a run learned: a sink that keeps the metrics of the event stream. */
#ifndef PODSIM_ANALYSIS_LEARNING_H
#define PODSIM_ANALYSIS_LEARNING_H

#include "traces/event.h"

/* One evaluation, or one step's loss, averaged over the copies that told it. */
struct learning_point {
    uint64_t step;   /* steps done */
    double time_s;   /* when the last copy told it */
    double value;
    uint64_t copies;
};

struct learning_series {
    struct learning_point *points; /* by step, ascending */
    size_t count, capacity;
};

struct learning {
    struct learning_series loss;      /* training loss of every step */
    struct learning_series accuracy;  /* on the test set, at evaluations */
    struct learning_series test_loss;
};

struct event_sink *learning_open(struct error *error);
/* Lives until the sink is freed. */
const struct learning *learning_get(const struct event_sink *sink);

#endif
