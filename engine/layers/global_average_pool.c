/* The mean of each channel: [channels, height, width] -> [channels]. Keeps nothing. */
#include "engine/layer.h"

static bool describe(struct layer *layer, struct error *error)
{
    const struct shape *in = &layer->input_shape[0];
    if (in->rank != 3)
        return error_set(error, STATUS_BAD_INPUT,
                         "takes images [channels, height, width], its input has %zu extents",
                         in->rank);
    layer->output_shape = (struct shape){1, {in->extent[0]}};
    layer->operation = OPERATION_MEMORY;
    layer->forward_flops = shape_count(in);
    layer->backward_input_flops = shape_count(in);
    return true;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    const struct shape *in = &layer->input_shape[0];
    size_t channels = call->batch * (size_t)in->extent[0];
    size_t area = (size_t)(in->extent[1] * in->extent[2]);
    for (size_t c = 0; c < channels; c++) {
        const scalar *restrict x = call->input[0] + c * area;
        scalar sum = 0;
        for (size_t p = 0; p < area; p++)
            sum += x[p];
        call->output[c] = sum / (scalar)area;
    }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    const struct shape *in = &layer->input_shape[0];
    size_t channels = call->batch * (size_t)in->extent[0];
    size_t area = (size_t)(in->extent[1] * in->extent[2]);
    for (size_t c = 0; call->d_input[0] != NULL && c < channels; c++) {
        scalar *restrict dx = call->d_input[0] + c * area;
        scalar each = call->d_output[c] / (scalar)area;
        for (size_t p = 0; p < area; p++)
            dx[p] = call->accumulate[0] ? dx[p] + each : each;
    }
}

const struct layer_kind layer_global_average_pool = {
    .name = "global_average_pool",
    .summary = "mean of each channel",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
