/* Number formats by role: what a word of weights, activations, ... occupies. */
#ifndef PODSIM_SIM_PRECISION_H
#define PODSIM_SIM_PRECISION_H

#include "base/json.h"

enum number_format { FORMAT_FP32, FORMAT_FP16, FORMAT_BF16, FORMAT_FP8, FORMAT_COUNT };

struct precision {
    enum number_format weights, activations, gradients, optimizer;
    bool emulate; /* stored and sent values are rounded to their format, so that the loss
                     feels it: weights after every update, outputs of layers, gradients in
                     messages */
    bool stochastic_rounding; /* of the weights, when emulated */
    double loss_scale; /* the loss is multiplied by it, and the gradients divided */
};

const char *number_format_name(enum number_format format);
extern const char *const number_format_names[FORMAT_COUNT];
uint64_t number_format_bytes(enum number_format format);
/* What a value stored in the format becomes; NULL for fp32. */
struct rounding;
const struct rounding *number_format_rounding(enum number_format format);
/* The "precision" object: {"weights": "fp16", ...}, or one name for all roles. Default
 * fp32. */
bool precision_read(const struct json_at *at, struct precision *precision,
                    struct error *error);

#endif
