/* y = x, with a gradient of its own: for a consumer whose gradient is to be summed over
 * processors before it joins those of others. */
#include "engine/layers/copy.h"

#include <string.h>

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    layer->output_shape = layer->input_shape[0];
    layer->operation = OPERATION_MEMORY;
    return true;
}

static size_t count_of(const struct layer *layer, const struct layer_call *call)
{
    return call->batch * (size_t)shape_count(&layer->output_shape);
}

void copy_forward(const struct layer *layer, const struct layer_call *call)
{
    memcpy(call->output, call->input[0], count_of(layer, call) * sizeof(scalar));
}

void copy_backward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = count_of(layer, call);
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

const struct layer_kind layer_copy = {
    .name = "copy",
    .summary = "the same values, with a gradient of their own",
    .min_inputs = 1,
    .max_inputs = 1,
    .describe = describe,
    .forward = copy_forward,
    .backward = copy_backward,
};
