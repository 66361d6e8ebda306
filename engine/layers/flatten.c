/* [a, b, ...] as [a * b * ...]; a copy. */
#include "engine/layers/copy.h"

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    layer->output_shape =
        (struct shape){.rank = 1, .extent = {shape_count(&layer->input_shape[0])}};
    layer->operation = OPERATION_MEMORY;
    return true;
}

const struct layer_kind layer_flatten = {
    .name = "flatten",
    .summary = "one vector of all elements",
    .min_inputs = 1,
    .max_inputs = 1,
    .describe = describe,
    .forward = copy_forward,
    .backward = copy_backward,
};
