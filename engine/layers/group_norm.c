/* Group normalisation (Wu and He 2018): each sample's channels in groups, each group
 * normalised over its channels and pixels; weight and bias a channel. Kept: the input,
 * and per group mean and 1 / sqrt(variance + epsilon). */
#include "engine/layers/lanes.h"
#include "engine/layer.h"

#include <math.h>

enum { GROUPS, EPSILON };
enum { WEIGHT, BIAS };

static bool describe(struct layer *layer, struct error *error)
{
    const struct shape *in = &layer->input_shape[0];
    uint64_t channels = in->extent[0], count = shape_count(in);
    uint64_t groups = layer_size(layer, GROUPS);
    if (in->rank != 1 && in->rank != 3)
        return error_set(error, STATUS_BAD_INPUT,
                         "takes [channels] or [channels, height, width], its input has %zu "
                         "extents",
                         in->rank);
    if (channels % groups != 0)
        return error_set(error, STATUS_BAD_INPUT, "%llu groups do not divide %llu channels",
                         (unsigned long long)groups, (unsigned long long)channels);
    layer->output_shape = *in;
    layer->operation = OPERATION_NORMALIZATION;
    layer->tensor[WEIGHT] = (struct parameter_tensor){
        .name = "weight", .count = channels, .init = INIT_ONE};
    layer->tensor[BIAS] = (struct parameter_tensor){.name = "bias", .count = channels};
    layer->tensor_count = 2;
    layer->keeps_input[0] = true;
    layer->stash_count = 2 * groups;
    layer->forward_flops = layer_multiply(8, count);
    layer->backward_input_flops = layer_multiply(11, count);
    layer->backward_weight_flops = layer_multiply(5, count);
    return true;
}

struct sizes {
    size_t groups, members; /* channels of a group */
    size_t area;
};

static struct sizes sizes_of(const struct layer *layer)
{
    const struct shape *in = &layer->input_shape[0];
    size_t channels = (size_t)in->extent[0], groups = (size_t)layer_size(layer, GROUPS);
    return (struct sizes){groups, channels / groups, (size_t)shape_count(in) / channels};
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct sizes s = sizes_of(layer);
    size_t width = s.members * s.area;
    for (size_t g = 0; g < call->batch * s.groups; g++) {
        const scalar *x = call->input[0] + g * width;
        scalar mean = lanes_sum(x, width) / (scalar)width;
        scalar variance = lanes_squares(x, width, mean) / (scalar)width;
        scalar inverse = 1 / scalar_sqrt(variance + (scalar)layer->option[EPSILON]);
        call->stash[2 * g] = mean;
        call->stash[2 * g + 1] = inverse;
        for (size_t m = 0; m < s.members; m++) {
            size_t channel = g % s.groups * s.members + m;
            scalar scale = call->parameter[WEIGHT][channel] * inverse;
            scalar bias = call->parameter[BIAS][channel];
            const scalar *restrict from = x + m * s.area;
            scalar *restrict y = call->output + g * width + m * s.area;
            for (size_t p = 0; p < s.area; p++)
                y[p] = scale * (from[p] - mean) + bias;
        }
    }
}

/* With d = weight dy: dx = inverse (d - mean(d) - n mean(d n)). */
static void group_input(const struct sizes *s, const struct layer_call *call, size_t g)
{
    size_t width = s->members * s->area;
    scalar mean = call->stash[2 * g], inverse = call->stash[2 * g + 1];
    const scalar *weight = call->parameter[WEIGHT] + g % s->groups * s->members;
    scalar d_sum = 0, dn_sum = 0;
    for (size_t m = 0; m < s->members; m++) {
        size_t at = g * width + m * s->area;
        d_sum += weight[m] * lanes_sum(call->d_output + at, s->area);
        dn_sum += weight[m] *
                  lanes_product(call->d_output + at, call->input[0] + at, s->area, mean);
    }
    scalar d_mean = d_sum / (scalar)width;
    scalar slope = inverse * inverse * dn_sum / (scalar)width;
    for (size_t m = 0; m < s->members; m++) {
        size_t at = g * width + m * s->area;
        const scalar *restrict x = call->input[0] + at, *restrict dy = call->d_output + at;
        scalar *restrict dx = call->d_input[0] + at;
        for (size_t p = 0; p < s->area; p++) {
            scalar d = inverse * (weight[m] * dy[p] - d_mean - (x[p] - mean) * slope);
            dx[p] = call->accumulate[0] ? dx[p] + d : d;
        }
    }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct sizes s = sizes_of(layer);
    size_t width = s.members * s.area;
    for (size_t g = 0; g < call->batch * s.groups; g++) {
        scalar mean = call->stash[2 * g], inverse = call->stash[2 * g + 1];
        for (size_t m = 0; call->d_parameter[WEIGHT] != NULL && m < s.members; m++) {
            size_t at = g * width + m * s.area, channel = g % s.groups * s.members + m;
            call->d_parameter[WEIGHT][channel] +=
                inverse *
                lanes_product(call->d_output + at, call->input[0] + at, s.area, mean);
            call->d_parameter[BIAS][channel] += lanes_sum(call->d_output + at, s.area);
        }
        if (call->d_input[0] != NULL)
            group_input(&s, call, g);
    }
}

const struct layer_kind layer_group_norm = {
    .name = "group_norm",
    .summary = "normalisation of each sample's channels in groups",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"groups", false, true, 32, 1, 1 << 24},
                {"epsilon", false, false, 1e-5, 0, 1},
                {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
