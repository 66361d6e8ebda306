/* Two-dimensional convolution, grouped: x [channels, height, width], W [out, channels /
 * groups, kernel, kernel], y [out, out_height, out_width]. By a library where there is one
 * (engine/convolution.h); the reference, which needs none, writes the windows as columns
 * and does a matrix product a sample and group. */
#include "engine/convolution.h"
#include "engine/layers/window.h"

#include <math.h>
#include <string.h>

enum { CHANNELS, KERNEL, STRIDE, PADDING, GROUPS, BIAS };
enum { WEIGHT, BIAS_TENSOR };

static struct window window_of(const struct layer *layer)
{
    struct window window = {0};
    struct error ignored; /* describe has checked it */
    window_describe(layer, layer_size(layer, KERNEL), layer_size(layer, STRIDE),
                    layer_size(layer, PADDING), &window, &ignored);
    return window;
}

static bool check_groups(uint64_t in, uint64_t out, uint64_t groups, struct error *error)
{
    if (in % groups == 0 && out % groups == 0)
        return true;
    return error_set(error, STATUS_BAD_INPUT,
                     "%llu groups do not divide %llu input and %llu output channels",
                     (unsigned long long)groups, (unsigned long long)in,
                     (unsigned long long)out);
}

static bool describe(struct layer *layer, struct error *error)
{
    struct window w;
    uint64_t out = layer_size(layer, CHANNELS), kernel = layer_size(layer, KERNEL);
    uint64_t groups = layer_size(layer, GROUPS);
    if (!window_describe(layer, kernel, layer_size(layer, STRIDE), layer_size(layer, PADDING),
                         &w, error) ||
        !check_groups(w.channels, out, groups, error))
        return false;
    uint64_t fan_in = w.channels / groups * kernel * kernel;
    bool bias = layer->option[BIAS] != 0;
    layer->output_shape = (struct shape){3, {out, w.out_height, w.out_width}};
    layer->operation = OPERATION_CONVOLUTION;
    layer->tensor[WEIGHT] = (struct parameter_tensor){.name = "weight",
                                                      .count = layer_multiply(out, fan_in),
                                                      .init = INIT_NORMAL,
                                                      .scale = sqrt(2.0 / (double)fan_in),
                                                      .decays = true};
    layer->tensor[BIAS_TENSOR] = (struct parameter_tensor){.name = "bias", .count = out};
    layer->tensor_count = bias ? 2 : 1;
    layer->keeps_input[0] = true;
    uint64_t count = shape_count(&layer->output_shape);
    layer->macs = layer_multiply(count, fan_in);
    layer->forward_flops = layer_sum(layer_multiply(2, layer->macs), bias ? count : 0);
    layer->backward_input_flops = layer_multiply(2, layer->macs);
    layer->backward_weight_flops = layer->forward_flops;
    return true;
}

struct sizes {
    struct window window;
    size_t groups, in, out; /* channels of a group */
    size_t area;            /* output pixels */
    size_t depth;           /* of a column: in * kernel * kernel */
    bool plain;             /* 1 x 1, stride 1: the image is its own columns */
};

static struct sizes sizes_of(const struct layer *layer)
{
    struct sizes s = {.window = window_of(layer), .groups = (size_t)layer_size(layer, GROUPS)};
    s.in = s.window.channels / s.groups;
    s.out = (size_t)layer_size(layer, CHANNELS) / s.groups;
    s.area = s.window.out_height * s.window.out_width;
    s.depth = s.in * s.window.kernel * s.window.kernel;
    s.plain = s.window.kernel == 1 && s.window.stride == 1 && s.window.padding == 0;
    return s;
}

static bool prepare(const struct layer *layer, size_t batch, void **prepared,
                    struct error *error)
{
    struct sizes s = sizes_of(layer);
    struct convolution *convolution;
    const struct convolution_size size = {.batch = batch,
                                          .groups = s.groups,
                                          .in = s.window.channels,
                                          .height = s.window.height,
                                          .width = s.window.width,
                                          .out = s.groups * s.out,
                                          .out_height = s.window.out_height,
                                          .out_width = s.window.out_width,
                                          .kernel = s.window.kernel,
                                          .stride = s.window.stride,
                                          .padding = s.window.padding};
    bool created = convolution_create(&size, &convolution, error);
    *prepared = convolution;
    return created;
}

static void release(void *prepared)
{
    convolution_free(prepared);
}

static uint64_t work_count(const struct layer *layer, size_t batch)
{
    struct sizes s = sizes_of(layer);
    uint64_t columns = s.plain ? 0 : layer_multiply(s.depth, s.area);
    void *prepared;
    struct error ignored; /* prepare will say it again */
    if (!prepare(layer, batch, &prepared, &ignored) || prepared == NULL)
        return columns;
    uint64_t packed = convolution_work_count(prepared);
    release(prepared);
    return packed > columns ? packed : columns;
}

/* One sample's input, and output, of a group. */
static size_t input_at(const struct sizes *s, size_t sample, size_t group)
{
    return (sample * s->groups + group) * s->in * s->window.height * s->window.width;
}

static size_t output_at(const struct sizes *s, size_t sample, size_t group)
{
    return (sample * s->groups + group) * s->out * s->area;
}

static const scalar *columns_of(const struct sizes *s, const scalar *image, scalar *work)
{
    if (s->plain)
        return image;
    window_columns(&s->window, s->in, image, work);
    return work;
}

static void add_bias(const struct layer *layer, const struct layer_call *call, size_t area)
{
    size_t channels = (size_t)layer_size(layer, CHANNELS);
    for (size_t i = 0; i < call->batch * channels; i++) {
        scalar *restrict y = call->output + i * area;
        scalar bias = call->parameter[BIAS_TENSOR][i % channels];
        for (size_t p = 0; p < area; p++)
            y[p] += bias;
    }
}

static void reference_forward(const struct sizes *s, const struct layer_call *call)
{
    for (size_t n = 0; n < call->batch; n++)
        for (size_t g = 0; g < s->groups; g++) {
            const scalar *columns =
                columns_of(s, call->input[0] + input_at(s, n, g), call->work);
            scalar_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)s->out,
                        (blasint)s->area, (blasint)s->depth, 1,
                        call->parameter[WEIGHT] + g * s->out * s->depth,
                        (blasint)s->depth, columns, (blasint)s->area, 0,
                        call->output + output_at(s, n, g), (blasint)s->area);
        }
}

static void reference_weight(const struct sizes *s, const struct layer_call *call)
{
    for (size_t n = 0; n < call->batch; n++)
        for (size_t g = 0; g < s->groups; g++) {
            const scalar *columns =
                columns_of(s, call->input[0] + input_at(s, n, g), call->work);
            scalar_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)s->out,
                        (blasint)s->depth, (blasint)s->area, 1,
                        call->d_output + output_at(s, n, g), (blasint)s->area, columns,
                        (blasint)s->area, 1,
                        call->d_parameter[WEIGHT] + g * s->out * s->depth,
                        (blasint)s->depth);
        }
}

static void reference_input(const struct sizes *s, const struct layer_call *call)
{
    size_t image = s->in * s->window.height * s->window.width;
    for (size_t n = 0; n < call->batch; n++)
        for (size_t g = 0; g < s->groups; g++) {
            scalar *dx = call->d_input[0] + input_at(s, n, g);
            if (!call->accumulate[0] && !s->plain)
                memset(dx, 0, image * sizeof *dx);
            scalar_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)s->depth,
                        (blasint)s->area, (blasint)s->out, 1,
                        call->parameter[WEIGHT] + g * s->out * s->depth, (blasint)s->depth,
                        call->d_output + output_at(s, n, g), (blasint)s->area,
                        s->plain && call->accumulate[0] ? 1 : 0, s->plain ? dx : call->work,
                        (blasint)s->area);
            if (!s->plain)
                window_columns_back(&s->window, s->in, call->work, dx);
        }
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct sizes s = sizes_of(layer);
    if (call->prepared == NULL ||
        !convolution_forward(call->prepared, call->input[0], call->parameter[WEIGHT],
                             call->output, call->work))
        reference_forward(&s, call);
    if (layer->tensor_count > 1)
        add_bias(layer, call, s.area);
}

static void backward_bias(const struct layer *layer, const struct layer_call *call,
                          size_t area)
{
    size_t channels = (size_t)layer_size(layer, CHANNELS);
    for (size_t i = 0; i < call->batch * channels; i++) {
        const scalar *restrict dy = call->d_output + i * area;
        scalar sum = 0;
        for (size_t p = 0; p < area; p++)
            sum += dy[p];
        call->d_parameter[BIAS_TENSOR][i % channels] += sum;
    }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct sizes s = sizes_of(layer);
    struct convolution *fast = call->prepared;
    if (call->d_parameter[WEIGHT] != NULL &&
        (fast == NULL ||
         !convolution_backward_weight(fast, call->input[0], call->d_output,
                                      call->d_parameter[WEIGHT], call->work)))
        reference_weight(&s, call);
    if (layer->tensor_count > 1 && call->d_parameter[BIAS_TENSOR] != NULL)
        backward_bias(layer, call, s.area);
    if (call->d_input[0] != NULL &&
        (fast == NULL ||
         !convolution_backward_input(fast, call->d_output, call->parameter[WEIGHT],
                                     call->accumulate[0], call->d_input[0], call->work)))
        reference_input(&s, call);
}

const struct layer_kind layer_conv2d = {
    .name = "conv2d",
    .summary = "two-dimensional convolution, grouped",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"channels", true, true, 0, 1, 1 << 24},
                {"kernel", false, true, 3, 1, 1024},
                {"stride", false, true, 1, 1, 1024},
                {"padding", false, true, 0, 0, 1024},
                {"groups", false, true, 1, 1, 1 << 24},
                {"bias", false, true, 0, 0, 1},
                {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .work_count = work_count,
    .prepare = prepare,
    .release = release,
};
