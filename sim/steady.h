/* When a step repeats: a cost-only run whose every instruction ends just one period after
 * it did in the step before, twice in a row and in all streams, will go on so for ever, and
 * need not be simulated further. */
#ifndef PODSIM_SIM_STEADY_H
#define PODSIM_SIM_STEADY_H

#include "sim/plan.h"

/* Fewer are over before they are seen to repeat. */
enum { STEADY_STEPS = 3 };

struct steady;

/* NULL with no error when the plan is not one whose steps are alike: instructions of some
 * steps only, messages in the background. */
struct steady *steady_create(const struct plan *plan, struct error *error);
/* Steps beyond its own whose micro-batches a stream's body may be busy with. */
uint64_t steady_look_ahead(const struct steady *steady);
void steady_free(struct steady *steady);

/* Instruction `index` of the stream's body ended in this step. */
void steady_note(struct steady *steady, size_t stream, size_t index, uint64_t step,
                 double now_s);
/* The stream ended the step; true as soon as all streams repeat. */
bool steady_step_done(struct steady *steady, size_t stream, uint64_t step);
double steady_period_s(const struct steady *steady);
/* The largest number of steps that any stream has begun. */
uint64_t steady_begun(const struct steady *steady);

#endif
