/* y = x + b on the last dimension: the bias of a product whose terms lie on several
 * processors, added after their sum. Biases start at zero. */
#include "engine/layer.h"

#include <string.h>

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    const struct shape *in = &layer->input_shape[0];
    layer->output_shape = *in;
    layer->operation = OPERATION_ELEMENTWISE;
    layer->tensor[0] =
        (struct parameter_tensor){.name = "bias", .count = in->extent[in->rank - 1]};
    layer->tensor_count = 1;
    layer->forward_flops = shape_count(in);
    layer->backward_weight_flops = shape_count(in);
    return true;
}

static size_t width_of(const struct layer *layer)
{
    return (size_t)layer->tensor[0].count;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    size_t width = width_of(layer);
    size_t rows = call->batch * (size_t)shape_count(&layer->output_shape) / width;
    const scalar *restrict bias = call->parameter[0];
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < width; i++)
            call->output[r * width + i] = call->input[0][r * width + i] + bias[i];
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    size_t width = width_of(layer);
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    const scalar *dy = call->d_output;
    scalar *dx = call->d_input[0], *db = call->d_parameter[0];
    if (dx != NULL && !call->accumulate[0])
        memcpy(dx, dy, count * sizeof *dx);
    for (size_t i = 0; dx != NULL && call->accumulate[0] && i < count; i++)
        dx[i] += dy[i];
    for (size_t r = 0; db != NULL && r < count / width; r++)
        for (size_t i = 0; i < width; i++)
            db[i] += dy[r * width + i];
}

const struct layer_kind layer_bias = {
    .name = "bias",
    .summary = "adds a vector on the last dimension",
    .min_inputs = 1,
    .max_inputs = 1,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
