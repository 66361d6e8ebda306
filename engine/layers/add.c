/* The sum of values of one shape (residual connections). Keeps nothing. */
#include "engine/layer.h"

#include <string.h>

static bool describe(struct layer *layer, struct error *error)
{
    for (size_t i = 1; i < layer->input_count; i++)
        if (!shape_equal(&layer->input_shape[i], &layer->input_shape[0])) {
            char first[64], other[64];
            shape_text(&layer->input_shape[0], first);
            shape_text(&layer->input_shape[i], other);
            return error_set(error, STATUS_BAD_INPUT, "adds inputs of shapes %s and %s",
                             first, other);
        }
    layer->output_shape = layer->input_shape[0];
    layer->operation = OPERATION_ELEMENTWISE;
    layer->forward_flops =
        layer_multiply(layer->input_count - 1, shape_count(&layer->output_shape));
    return true;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    const scalar *a = call->input[0], *b = call->input[1];
    scalar *restrict y = call->output;
    for (size_t i = 0; i < count; i++)
        y[i] = a[i] + b[i];
    for (size_t k = 2; k < layer->input_count; k++) {
        const scalar *restrict c = call->input[k];
        for (size_t i = 0; i < count; i++)
            y[i] += c[i];
    }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    const scalar *restrict dy = call->d_output;
    for (size_t k = 0; k < layer->input_count; k++) {
        scalar *restrict dx = call->d_input[k];
        if (dx == NULL)
            continue;
        if (call->accumulate[k])
            for (size_t i = 0; i < count; i++)
                dx[i] += dy[i];
        else
            memcpy(dx, dy, count * sizeof(scalar));
    }
}

const struct layer_kind layer_add = {
    .name = "add",
    .summary = "sum of two or three values of one shape",
    .min_inputs = 2,
    .max_inputs = LAYER_MAX_INPUTS,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
