/* Batch normalisation over the channels of images or of vectors (Ioffe and Szegedy 2015):
 * in training with the mean and variance of the micro-batch, in evaluation with running
 * ones, r <- (1 - momentum) r + momentum (mean, unbiased variance). Kept: the input, and
 * per channel mean and 1 / sqrt(variance + epsilon). State: running mean, running variance. */
#include "engine/layers/lanes.h"
#include "engine/layer.h"
#include "engine/vector_math.h"

#include <math.h>

enum { EPSILON, MOMENTUM };
enum { WEIGHT, BIAS };

static bool describe(struct layer *layer, struct error *error)
{
    const struct shape *in = &layer->input_shape[0];
    uint64_t channels = in->extent[0], count = shape_count(in);
    if (in->rank != 1 && in->rank != 3)
        return error_set(error, STATUS_BAD_INPUT,
                         "takes [channels] or [channels, height, width], its input has %zu "
                         "extents",
                         in->rank);
    layer->output_shape = *in;
    layer->operation = OPERATION_NORMALIZATION;
    layer->tensor[WEIGHT] = (struct parameter_tensor){
        .name = "weight", .count = channels, .init = INIT_ONE};
    layer->tensor[BIAS] = (struct parameter_tensor){.name = "bias", .count = channels};
    layer->tensor_count = 2;
    layer->state_count = 2 * channels;
    layer->keeps_input[0] = true;
    layer->stash_fixed_count = 2 * channels;
    layer->forward_flops = layer_multiply(7, count);
    layer->backward_input_flops = layer_multiply(8, count);
    layer->backward_weight_flops = layer_multiply(4, count);
    return true;
}

struct sizes {
    size_t channels, area, batch;
};

static struct sizes sizes_of(const struct layer *layer, size_t batch)
{
    const struct shape *in = &layer->input_shape[0];
    size_t channels = (size_t)in->extent[0];
    return (struct sizes){channels, (size_t)shape_count(in) / channels, batch};
}

VECTOR_CLONES
static void statistics(const struct sizes *s, const scalar *input, size_t channel,
                       double epsilon, scalar *mean, scalar *inverse, scalar *variance)
{
    scalar sum = 0, squares = 0, count = (scalar)(s->batch * s->area);
    for (size_t n = 0; n < s->batch; n++)
        sum += lanes_sum(input + (n * s->channels + channel) * s->area, s->area);
    *mean = sum / count;
    for (size_t n = 0; n < s->batch; n++)
        squares +=
            lanes_squares(input + (n * s->channels + channel) * s->area, s->area, *mean);
    *variance = squares / count;
    *inverse = 1 / scalar_sqrt(*variance + (scalar)epsilon);
}

static void remember(const struct layer *layer, const struct layer_call *call,
                     const struct sizes *s, size_t channel, scalar mean, scalar variance)
{
    scalar momentum = (scalar)layer->option[MOMENTUM];
    double count = (double)(s->batch * s->area);
    scalar unbiased = count > 1 ? (scalar)(variance * (count / (count - 1))) : variance;
    scalar *running = call->state + channel;
    running[0] += momentum * (mean - running[0]);
    running[s->channels] += momentum * (unbiased - running[s->channels]);
}

VECTOR_CLONES
static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct sizes s = sizes_of(layer, call->batch);
    double epsilon = layer->option[EPSILON];
    for (size_t c = 0; c < s.channels; c++) {
        scalar mean, inverse, variance;
        if (call->training) {
            statistics(&s, call->input[0], c, epsilon, &mean, &inverse, &variance);
            call->stash[2 * c] = mean;
            call->stash[2 * c + 1] = inverse;
            if (call->state != NULL)
                remember(layer, call, &s, c, mean, variance);
        } else {
            mean = call->state[c];
            inverse = 1 / scalar_sqrt(call->state[s.channels + c] + (scalar)epsilon);
        }
        scalar scale = call->parameter[WEIGHT][c] * inverse, bias = call->parameter[BIAS][c];
        for (size_t n = 0; n < s.batch; n++) {
            const scalar *restrict x = call->input[0] + (n * s.channels + c) * s.area;
            scalar *restrict y = call->output + (n * s.channels + c) * s.area;
            for (size_t p = 0; p < s.area; p++)
                y[p] = scale * (x[p] - mean) + bias;
        }
    }
}

/* dx = weight inverse (dy - mean(dy) - n mean(dy n)), n the normalised input. */
VECTOR_CLONES
static void channel_input(const struct sizes *s, const struct layer_call *call, size_t c,
                          scalar dy_mean, scalar dn_mean)
{
    scalar mean = call->stash[2 * c], inverse = call->stash[2 * c + 1];
    scalar scale = call->parameter[WEIGHT][c] * inverse;
    scalar slope = inverse * dn_mean;
    for (size_t n = 0; n < s->batch; n++) {
        size_t at = (n * s->channels + c) * s->area;
        const scalar *restrict x = call->input[0] + at;
        const scalar *restrict dy = call->d_output + at;
        scalar *restrict dx = call->d_input[0] + at;
        if (call->accumulate[0])
            for (size_t p = 0; p < s->area; p++)
                dx[p] += scale * (dy[p] - dy_mean - (x[p] - mean) * slope);
        else
            for (size_t p = 0; p < s->area; p++)
                dx[p] = scale * (dy[p] - dy_mean - (x[p] - mean) * slope);
    }
}

VECTOR_CLONES
static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct sizes s = sizes_of(layer, call->batch);
    scalar count = (scalar)(s.batch * s.area);
    for (size_t c = 0; c < s.channels; c++) {
        scalar mean = call->stash[2 * c], inverse = call->stash[2 * c + 1];
        scalar dy_sum = 0, dn_sum = 0;
        for (size_t n = 0; n < s.batch; n++) {
            size_t at = (n * s.channels + c) * s.area;
            dy_sum += lanes_sum(call->d_output + at, s.area);
            dn_sum += lanes_product(call->d_output + at, call->input[0] + at, s.area, mean);
        }
        dn_sum *= inverse;
        if (call->d_parameter[WEIGHT] != NULL)
            call->d_parameter[WEIGHT][c] += dn_sum;
        if (call->d_parameter[BIAS] != NULL)
            call->d_parameter[BIAS][c] += dy_sum;
        if (call->d_input[0] != NULL)
            channel_input(&s, call, c, dy_sum / count, dn_sum / count);
    }
}

static void init_state(const struct layer *layer, scalar *state)
{
    size_t channels = (size_t)layer->input_shape[0].extent[0];
    for (size_t c = 0; c < channels; c++) {
        state[c] = 0;
        state[channels + c] = 1;
    }
}

const struct layer_kind layer_batch_norm = {
    .name = "batch_norm",
    .summary = "normalisation of each channel over the micro-batch",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"epsilon", false, false, 1e-5, 0, 1},
                {"momentum", false, false, 0.1, 0, 1},
                {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .init_state = init_state,
};
