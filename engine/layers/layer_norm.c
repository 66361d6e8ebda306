/* Layer normalisation over the last dimension (Ba, Kiros and Hinton 2016):
 *   n = (x - mean) / sqrt(variance + epsilon);  y = weight n + bias
 * x, y [rows, width]; weight, bias [width]. Kept: the input, and per row mean and
 * 1 / sqrt(...). */
#include "engine/layers/lanes.h"
#include "engine/layer.h"
#include "engine/vector_math.h"

enum { EPSILON };
enum { WEIGHT, BIAS };

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    const struct shape *in = &layer->input_shape[0];
    uint64_t width = in->extent[in->rank - 1], count = shape_count(in);
    layer->output_shape = *in;
    layer->operation = OPERATION_NORMALIZATION;
    layer->tensor[WEIGHT] =
        (struct parameter_tensor){.name = "weight", .count = width, .init = INIT_ONE};
    layer->tensor[BIAS] = (struct parameter_tensor){.name = "bias", .count = width};
    layer->tensor_count = 2;
    layer->keeps_input[0] = true;
    layer->stash_count = 2 * (count / width);
    layer->forward_flops = layer_multiply(8, count);
    layer->backward_input_flops = layer_multiply(11, count);
    layer->backward_weight_flops = layer_multiply(5, count);
    return true;
}

VECTOR_CLONES
static void forward(const struct layer *layer, const struct layer_call *call)
{
    const struct shape *in = &layer->input_shape[0];
    size_t width = (size_t)in->extent[in->rank - 1];
    size_t rows = call->batch * (size_t)(shape_count(in) / width);
    const scalar *restrict weight = call->parameter[WEIGHT];
    const scalar *restrict bias = call->parameter[BIAS];
    for (size_t r = 0; r < rows; r++) {
        const scalar *restrict x = call->input[0] + r * width;
        scalar *restrict y = call->output + r * width;
        scalar mean = lanes_sum(x, width) / (scalar)width;
        scalar variance = lanes_squares(x, width, mean) / (scalar)width;
        scalar inverse = 1 / scalar_sqrt(variance + (scalar)layer->option[EPSILON]);
        for (size_t j = 0; j < width; j++)
            y[j] = weight[j] * ((x[j] - mean) * inverse) + bias[j];
        call->stash[2 * r] = mean;
        call->stash[2 * r + 1] = inverse;
    }
}

/* With g = weight dy: dx = inverse (g - mean(g) - n mean(g n)). */
static inline void row_input(const scalar *restrict x, const scalar *restrict dy,
                      const scalar *restrict weight, size_t width, scalar mean,
                      scalar inverse, bool accumulate, scalar *restrict dx)
{
    scalar lane[8] = {0}, lane_n[8] = {0};
    size_t i = 0;
    for (; i + 8 <= width; i += 8)
        for (size_t k = 0; k < 8; k++) {
            scalar g = weight[i + k] * dy[i + k];
            lane[k] += g;
            lane_n[k] += g * ((x[i + k] - mean) * inverse);
        }
    for (size_t k = 0; i + k < width; k++) {
        scalar g = weight[i + k] * dy[i + k];
        lane[k] += g;
        lane_n[k] += g * ((x[i + k] - mean) * inverse);
    }
    scalar g_mean = lanes_total(lane) / (scalar)width;
    scalar gn_mean = lanes_total(lane_n) / (scalar)width;
    for (size_t j = 0; j < width; j++) {
        scalar n = (x[j] - mean) * inverse;
        scalar d = inverse * (weight[j] * dy[j] - g_mean - n * gn_mean);
        dx[j] = accumulate ? dx[j] + d : d;
    }
}

static inline void row_parameters(const scalar *restrict x, const scalar *restrict dy,
                           size_t width, scalar mean, scalar inverse,
                           scalar *restrict d_weight, scalar *restrict d_bias)
{
    for (size_t j = 0; j < width; j++) {
        d_weight[j] += dy[j] * ((x[j] - mean) * inverse);
        d_bias[j] += dy[j];
    }
}

VECTOR_CLONES
static void backward(const struct layer *layer, const struct layer_call *call)
{
    const struct shape *in = &layer->input_shape[0];
    size_t width = (size_t)in->extent[in->rank - 1];
    size_t rows = call->batch * (size_t)(shape_count(in) / width);
    for (size_t r = 0; r < rows; r++) {
        const scalar *x = call->input[0] + r * width, *dy = call->d_output + r * width;
        scalar mean = call->stash[2 * r], inverse = call->stash[2 * r + 1];
        if (call->d_input[0] != NULL)
            row_input(x, dy, call->parameter[WEIGHT], width, mean, inverse,
                      call->accumulate[0], call->d_input[0] + r * width);
        if (call->d_parameter[WEIGHT] != NULL)
            row_parameters(x, dy, width, mean, inverse, call->d_parameter[WEIGHT],
                           call->d_parameter[BIAS]);
    }
}

const struct layer_kind layer_layer_norm = {
    .name = "layer_norm",
    .summary = "normalisation over the last dimension",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"epsilon", false, false, 1e-5, 0, 1}, {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
