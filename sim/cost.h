/* Seconds and FLOPs of one layer's pass over a micro-batch on a processor, from the
 * layer's shapes alone. Used by the executor and by whoever plans ahead of it. */
#ifndef PODSIM_SIM_COST_H
#define PODSIM_SIM_COST_H

#include "engine/model.h"
#include "sim/platform.h"

enum pass {
    PASS_FORWARD,
    PASS_BACKWARD,        /* both gradients in one go */
    PASS_BACKWARD_INPUT,
    PASS_BACKWARD_WEIGHT,
    PASS_RECOMPUTE,       /* forward again */
    PASS_COUNT
};

struct pass_cost {
    double seconds;
    uint64_t flops; /* of the whole micro-batch */
    bool empty;     /* nothing to compute: no gradient is wanted here */
};

/* wants_input: the gradient of the layer's inputs is computed. */
bool cost_layer(const struct layer *layer, enum pass pass, bool wants_input,
                uint64_t micro_batch, const struct precision *precision,
                const struct processor *processor, struct pass_cost *cost,
                struct error *error);

/* Softmax, loss and logit gradient of rows x classes. teachers: further terms. */
bool cost_loss(uint64_t rows, uint64_t classes, uint64_t teachers,
               const struct precision *precision, const struct processor *processor,
               struct pass_cost *cost, struct error *error);

/* One optimiser step over so many parameters. */
bool cost_update(uint64_t parameters, uint64_t flops_per_parameter, uint64_t state_words,
                 const struct precision *precision, const struct processor *processor,
                 struct pass_cost *cost, struct error *error);

#endif
