/* How fast arithmetic goes, for processor kinds: a peak for each number format, times an
 * efficiency for each operation class, which may grow with the size of the work. */
#ifndef PODSIM_SIM_RATE_H
#define PODSIM_SIM_RATE_H

#include "sim/processor.h"

/* Points by ascending x; constant outside them; between them linear in x or in log(x). */
struct curve {
    double *x, *y;
    size_t count;
};

struct rate {
    double peak_flops_per_s[FORMAT_COUNT]; /* 0: the processor has no such format */
    struct curve efficiency[OPERATION_CLASSES];
    double overhead_s;
};

/* Reads "peak_flops_per_s", "efficiency", "overhead_s" of a processor object. Release it,
 * also after a failure. */
bool rate_read(const struct json_at *at, struct rate *rate, struct error *error);
void rate_release(struct rate *rate);

/* Seconds of the FLOPs alone, when `share` (0..1] of the processor works. */
bool rate_seconds(const struct rate *rate, const struct work *work, double share,
                  double *seconds, struct error *error);

/* A number, or [[x, y], ...] with x ascending, above 0. */
bool curve_read(const struct json_at *at, double maximum_y, struct curve *curve,
                struct error *error);
double curve_value(const struct curve *curve, double x, bool logarithmic);
void curve_release(struct curve *curve);

#endif
