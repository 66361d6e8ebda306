/* y = x Phi(x), with Phi the normal distribution (Hendrycks and Gimpel 2016); with the
 * option "tanh" the usual approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
#include "engine/layer.h"

#include <math.h>

enum { TANH };

static const scalar half = (scalar)0.5;
static const scalar root_half = (scalar)0.70710678118654752440; /* 1 / sqrt(2) */
static const scalar density = (scalar)0.39894228040143267794;   /* 1 / sqrt(2 pi) */
static const scalar root_two_over_pi = (scalar)0.79788456080286535588;
static const scalar cubic = (scalar)0.044715;

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    layer->output_shape = layer->input_shape[0];
    layer->operation = OPERATION_ELEMENTWISE;
    layer->keeps_input[0] = true;
    /* The transcendental function counted as four. */
    uint64_t count = shape_count(&layer->output_shape);
    layer->forward_flops = layer_multiply(8, count);
    layer->backward_input_flops = layer_multiply(14, count);
    return true;
}

static scalar inner(scalar x)
{
    return root_two_over_pi * (x + cubic * x * x * x);
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    const scalar *restrict x = call->input[0];
    scalar *restrict y = call->output;
    if (layer->option[TANH] != 0)
        for (size_t i = 0; i < count; i++)
            y[i] = half * x[i] * (1 + scalar_tanh(inner(x[i])));
    else
        for (size_t i = 0; i < count; i++)
            y[i] = half * x[i] * (1 + scalar_erf(x[i] * root_half));
}

static scalar slope(scalar x)
{
    return half * (1 + scalar_erf(x * root_half)) + x * density * scalar_exp(-half * x * x);
}

static scalar slope_tanh(scalar x)
{
    scalar t = scalar_tanh(inner(x));
    scalar d_inner = root_two_over_pi * (1 + 3 * cubic * x * x);
    return half * (1 + t) + half * x * (1 - t * t) * d_inner;
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    const scalar *restrict x = call->input[0];
    const scalar *restrict dy = call->d_output;
    scalar *restrict dx = call->d_input[0];
    if (dx == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        scalar d = dy[i] * (layer->option[TANH] != 0 ? slope_tanh(x[i]) : slope(x[i]));
        dx[i] = call->accumulate[0] ? dx[i] + d : d;
    }
}

const struct layer_kind layer_gelu = {
    .name = "gelu",
    .summary = "Gaussian error linear unit",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"tanh", false, true, 0, 0, 1}, {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
