/* [a, b, ...] as [a * b * ...]; a copy. */
#include "engine/layer.h"

#include <string.h>

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    layer->output_shape =
        (struct shape){.rank = 1, .extent = {shape_count(&layer->input_shape[0])}};
    layer->operation = OPERATION_MEMORY;
    return true;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)layer->output_shape.extent[0];
    memcpy(call->output, call->input[0], count * sizeof(scalar));
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)layer->output_shape.extent[0];
    const scalar *restrict dy = call->d_output;
    scalar *restrict dx = call->d_input[0];
    if (dx == NULL)
        return;
    if (!call->accumulate[0]) {
        memcpy(dx, dy, count * sizeof(scalar));
        return;
    }
    for (size_t i = 0; i < count; i++)
        dx[i] += dy[i];
}

const struct layer_kind layer_flatten = {
    .name = "flatten",
    .summary = "one vector of all elements",
    .min_inputs = 1,
    .max_inputs = 1,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
