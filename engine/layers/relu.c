/* y = max(x, 0). Only the output is kept: it is positive where the input was. */
#include "engine/layer.h"

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    layer->output_shape = layer->input_shape[0];
    layer->operation = OPERATION_ELEMENTWISE;
    layer->keeps_output = true;
    layer->forward_flops = shape_count(&layer->output_shape);
    layer->backward_input_flops = layer->forward_flops;
    return true;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    const scalar *restrict x = call->input[0];
    scalar *restrict y = call->output;
    /* Written so that a NaN goes through. */
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    const scalar *restrict y = call->output;
    const scalar *restrict dy = call->d_output;
    scalar *restrict dx = call->d_input[0];
    if (dx == NULL)
        return;
    /* dy is read whether or not it counts: a read that depends is a branch, and no vector. */
    for (size_t i = 0; call->accumulate[0] && i < count; i++) {
        scalar slope = dy[i];
        dx[i] += y[i] > 0 ? slope : 0;
    }
    for (size_t i = 0; !call->accumulate[0] && i < count; i++) {
        scalar slope = dy[i];
        dx[i] = y[i] > 0 ? slope : 0;
    }
}

const struct layer_kind layer_relu = {
    .name = "relu",
    .summary = "rectifier, max(x, 0)",
    .min_inputs = 1,
    .max_inputs = 1,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
