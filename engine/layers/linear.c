/* y = x W' + b on the last dimension: x [rows, in], W [out, in], b [out], y [rows, out].
 * Weights start normal with standard deviation gain / sqrt(in) (He et al. 2015 for the
 * gain of sqrt 2), biases zero. */
#include "engine/layer.h"

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
    layer->tensor[WEIGHT] = (struct parameter_tensor){
        .name = "weight",
        .count = layer_multiply(width, out),
        .init = INIT_NORMAL,
        .scale = layer->option[GAIN] / sqrt((double)width),
        .decays = true};
    layer->tensor[BIAS_TENSOR] = (struct parameter_tensor){.name = "bias", .count = out};
    layer->tensor_count = bias ? 2 : 1;
    layer->keeps_input[0] = true;
    layer->macs = layer_multiply(rows, layer_multiply(width, out));
    uint64_t bias_flops = bias ? layer_multiply(rows, out) : 0;
    layer->forward_flops = layer_sum(layer_multiply(2, layer->macs), bias_flops);
    layer->backward_input_flops = layer_multiply(2, layer->macs);
    layer->backward_weight_flops = layer->forward_flops;
    return true;
}

struct sizes {
    blasint rows, in, out;
};

static struct sizes sizes_of(const struct layer *layer, size_t batch)
{
    const struct shape *in = &layer->input_shape[0];
    uint64_t width = in->extent[in->rank - 1];
    return (struct sizes){(blasint)(batch * (shape_count(in) / width)), (blasint)width,
                          (blasint)layer->output_shape.extent[in->rank - 1]};
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct sizes n = sizes_of(layer, call->batch);
    scalar *restrict y = call->output;
    const scalar *restrict bias = layer->tensor_count > 1 ? call->parameter[BIAS_TENSOR] : NULL;
    if (bias != NULL)
        for (size_t r = 0; r < (size_t)n.rows; r++)
            for (size_t j = 0; j < (size_t)n.out; j++)
                y[r * (size_t)n.out + j] = bias[j];
    scalar_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, n.rows, n.out, n.in, 1,
                call->input[0], n.in, call->parameter[WEIGHT], n.in, bias != NULL ? 1 : 0, y,
                n.out);
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct sizes n = sizes_of(layer, call->batch);
    const scalar *restrict dy = call->d_output;
    if (call->d_input[0] != NULL)
        scalar_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n.rows, n.in, n.out, 1, dy,
                    n.out, call->parameter[WEIGHT], n.in, call->accumulate[0] ? 1 : 0,
                    call->d_input[0], n.in);
    if (call->d_parameter[WEIGHT] != NULL)
        scalar_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, n.out, n.in, n.rows, 1, dy,
                    n.out, call->input[0], n.in, 1, call->d_parameter[WEIGHT], n.in);
    if (layer->tensor_count > 1 && call->d_parameter[BIAS_TENSOR] != NULL) {
        scalar *restrict d_bias = call->d_parameter[BIAS_TENSOR];
        for (size_t r = 0; r < (size_t)n.rows; r++)
            for (size_t j = 0; j < (size_t)n.out; j++)
                d_bias[j] += dy[r * (size_t)n.out + j];
    }
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
