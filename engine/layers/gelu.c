/* y = x Phi(x), with Phi the normal distribution (Hendrycks and Gimpel 2016); with the
 * option "tanh" the usual approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
#include "engine/layer.h"
#include "engine/vector_math.h"

enum { TANH };

static const scalar half = (scalar)0.5;
static const scalar density = (scalar)0.39894228040143267794; /* 1 / sqrt(2 pi) */
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

static inline scalar inner(scalar x)
{
    return root_two_over_pi * (x + cubic * x * x * x);
}

VECTOR_CLONES
static void values(const scalar *restrict x, size_t count, scalar *restrict y)
{
    scalar bell;
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] * vector_normal(x[i], &bell);
}

VECTOR_CLONES
static void values_tanh(const scalar *restrict x, size_t count, scalar *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = half * x[i] * (1 + vector_tanh(inner(x[i])));
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    if (layer->option[TANH] != 0)
        values_tanh(call->input[0], count, call->output);
    else
        values(call->input[0], count, call->output);
}

static inline scalar slope(scalar x)
{
    scalar bell, normal = vector_normal(x, &bell);
    return normal + x * density * bell;
}

static inline scalar slope_tanh(scalar x)
{
    scalar t = vector_tanh(inner(x));
    scalar d_inner = root_two_over_pi * (1 + 3 * cubic * x * x);
    return half * (1 + t) + half * x * (1 - t * t) * d_inner;
}

/* keep: dx is added to. */
VECTOR_CLONES
static void gradient(const scalar *restrict x, const scalar *restrict dy, size_t count,
                     bool keep, scalar *restrict dx)
{
    if (keep)
        for (size_t i = 0; i < count; i++)
            dx[i] += dy[i] * slope(x[i]);
    else
        for (size_t i = 0; i < count; i++)
            dx[i] = dy[i] * slope(x[i]);
}

VECTOR_CLONES
static void gradient_tanh(const scalar *restrict x, const scalar *restrict dy, size_t count,
                          bool keep, scalar *restrict dx)
{
    if (keep)
        for (size_t i = 0; i < count; i++)
            dx[i] += dy[i] * slope_tanh(x[i]);
    else
        for (size_t i = 0; i < count; i++)
            dx[i] = dy[i] * slope_tanh(x[i]);
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    if (call->d_input[0] == NULL)
        return;
    if (layer->option[TANH] != 0)
        gradient_tanh(call->input[0], call->d_output, count, call->accumulate[0],
                      call->d_input[0]);
    else
        gradient(call->input[0], call->d_output, count, call->accumulate[0],
                 call->d_input[0]);
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
