/* y = x W' + b on the last dimension: x [rows, in], W [out, in], b [out], y [rows, out].
 * Weights start normal with standard deviation gain / sqrt(in) (He et al. 2015 for the
 * gain of sqrt 2), biases zero. */
#include "engine/layers/projection.h"

#include <math.h>

enum { OUT, BIAS, GAIN };
enum { WEIGHT, BIAS_TENSOR };

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    const struct shape *in = &layer->input_shape[0];
    uint64_t width = in->extent[in->rank - 1], out = layer_size(layer, OUT);
    uint64_t rows = shape_count(in) / width;
    bool bias = layer->option[BIAS] != 0;
    layer->output_shape = *in;
    layer->output_shape.extent[in->rank - 1] = out;
    layer->operation = OPERATION_MATMUL;
    layer->tensor[WEIGHT] =
        (struct parameter_tensor){.name = "weight",
                                  .count = layer_multiply(width, out),
                                  .init = INIT_NORMAL,
                                  .scale = layer->option[GAIN] / sqrt((double)width),
                                  .decays = true};
    layer->tensor[BIAS_TENSOR] = (struct parameter_tensor){.name = "bias", .count = out};
    layer->tensor_count = bias ? 2 : 1;
    layer->keeps_input[0] = true;
    layer->macs = projection_macs(rows, width, out);
    layer->forward_flops = projection_flops(rows, width, out, bias);
    layer->backward_input_flops = layer_multiply(2, layer->macs);
    layer->backward_weight_flops = layer->forward_flops;
    return true;
}

static struct projection size_of(const struct layer *layer, size_t batch)
{
    const struct shape *in = &layer->input_shape[0];
    uint64_t width = in->extent[in->rank - 1];
    return (struct projection){batch * (size_t)(shape_count(in) / width), (size_t)width,
                               (size_t)layer->output_shape.extent[in->rank - 1]};
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct projection size = size_of(layer, call->batch);
    projection_forward(&size, call->input[0], call->parameter[WEIGHT],
                       call->parameter[BIAS_TENSOR], call->output);
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct projection size = size_of(layer, call->batch);
    if (call->d_input[0] != NULL)
        projection_backward_input(&size, call->d_output, call->parameter[WEIGHT],
                                  call->accumulate[0], call->d_input[0]);
    if (call->d_parameter[WEIGHT] != NULL)
        projection_backward_weight(&size, call->d_output, call->input[0],
                                   call->d_parameter[WEIGHT],
                                   call->d_parameter[BIAS_TENSOR]);
}

const struct layer_kind layer_linear = {
    .name = "linear",
    .summary = "matrix product and bias on the last dimension",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"out", true, true, 0, 1, 1 << 30},
                {"bias", false, true, 1, 0, 1},
                {"gain", false, false, 1.4142135623730951, 0, 1000},
                {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
