/* Self-attention of a sequence x [length, width]: one projection to queries, keys and
 * values [length, 3 inner], heads side by side, and one of the context back to the width;
 * the inner width is the width unless it is given. Weights start normal with standard
 * deviation 1 / sqrt(inputs), the output's times `gain`. Kept: the input, and in the stash
 * q, k, v [length, 3 inner], the probabilities [heads, length, length] and the context
 * [length, inner], each for the whole micro-batch. */
#include "engine/layers/attention_heads.h"
#include "engine/layers/projection.h"

#include <math.h>

enum { HEADS, CAUSAL, BIAS, GAIN, INNER, OUTPUT_BIAS };
enum { IN_WEIGHT, OUT_WEIGHT, IN_BIAS, OUT_BIAS };

static uint64_t inner_width(const struct layer *layer)
{
    uint64_t given = layer_size(layer, INNER);
    return given > 0 ? given : layer->input_shape[0].extent[1];
}

static void describe_parameters(struct layer *layer, uint64_t width, uint64_t inner)
{
    layer->tensor[IN_WEIGHT] =
        (struct parameter_tensor){.name = "in_weight",
                                  .count = layer_multiply(3, layer_multiply(inner, width)),
                                  .init = INIT_NORMAL,
                                  .scale = 1 / sqrt((double)width),
                                  .decays = true};
    layer->tensor[OUT_WEIGHT] =
        (struct parameter_tensor){.name = "out_weight",
                                  .count = layer_multiply(width, inner),
                                  .init = INIT_NORMAL,
                                  .scale = layer->option[GAIN] * (1 / sqrt((double)inner)),
                                  .decays = true};
    layer->tensor[IN_BIAS] =
        (struct parameter_tensor){.name = "in_bias", .count = layer_multiply(3, inner)};
    layer->tensor[OUT_BIAS] = (struct parameter_tensor){.name = "out_bias", .count = width};
    layer->tensor_count = 2;
    if (layer->option[BIAS] != 0)
        layer->tensor_count = layer->option[OUTPUT_BIAS] != 0 ? 4 : 3;
}

static void describe_costs(struct layer *layer, uint64_t length, uint64_t width,
                           uint64_t inner)
{
    uint64_t heads = layer_size(layer, HEADS);
    layer->stash_count = layer_sum(layer_multiply(4, layer_multiply(length, inner)),
                                   layer_multiply(heads, layer_multiply(length, length)));
    uint64_t projections = layer_multiply(4, projection_macs(length, width, inner));
    layer->macs = layer_sum(projections, attention_macs(length, length, inner));
    layer->backward_weight_flops = layer_sum(
        projection_flops(length, width, layer_multiply(3, inner), layer->tensor_count > 2),
        projection_flops(length, inner, width, layer->tensor_count > 3));
    layer->forward_flops = layer_sum(layer->backward_weight_flops,
                                     attention_forward_flops(length, length, inner, heads));
    layer->backward_input_flops =
        layer_sum(layer_multiply(2, projections),
                  attention_backward_flops(length, length, inner, heads));
}

static bool describe(struct layer *layer, struct error *error)
{
    const struct shape *in = &layer->input_shape[0];
    if (in->rank != 2)
        return error_set(error, STATUS_BAD_INPUT,
                         "takes a sequence [length, width], not %zu dimensions", in->rank);
    uint64_t heads = layer_size(layer, HEADS), inner = inner_width(layer);
    if (inner % heads != 0)
        return error_set(error, STATUS_BAD_INPUT, "a width of %llu is not for %llu heads",
                         (unsigned long long)inner, (unsigned long long)heads);
    layer->output_shape = *in;
    layer->operation = OPERATION_MATMUL;
    layer->keeps_input[0] = true;
    describe_parameters(layer, in->extent[1], inner);
    describe_costs(layer, in->extent[0], in->extent[1], inner);
    return true;
}

/* Of one call, and where in its stash things lie. */
struct parts {
    struct attention_size size;
    struct projection in, out;
    struct attention_values values;
    scalar *qkv, *p, *context;
};

static struct parts parts_of(const struct layer *layer, const struct layer_call *call)
{
    size_t length = (size_t)layer->input_shape[0].extent[0];
    size_t width = (size_t)layer->input_shape[0].extent[1];
    size_t inner = (size_t)inner_width(layer);
    size_t heads = (size_t)layer_size(layer, HEADS), rows = call->batch * length;
    struct parts parts = {
        .size = {call->batch, length, length, heads, inner, layer->option[CAUSAL] != 0},
        .in = {rows, width, 3 * inner},
        .out = {rows, inner, width},
        .qkv = call->stash,
        .context = call->stash + 3 * rows * inner,
        .p = call->stash + 4 * rows * inner};
    parts.values = (struct attention_values){parts.qkv, parts.qkv + inner,
                                             parts.qkv + 2 * inner, 3 * inner, 3 * inner};
    return parts;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct parts parts = parts_of(layer, call);
    projection_forward(&parts.in, call->input[0], call->parameter[IN_WEIGHT],
                       call->parameter[IN_BIAS], parts.qkv);
    attention_forward(&parts.size, &parts.values, parts.p, parts.context);
    projection_forward(&parts.out, parts.context, call->parameter[OUT_WEIGHT],
                       call->parameter[OUT_BIAS], call->output);
}

/* The gradients of the context and of q, k, v, and one head's scores. */
static uint64_t work_count(const struct layer *layer, size_t batch)
{
    uint64_t length = layer->input_shape[0].extent[0];
    uint64_t values = layer_multiply(4, layer_multiply(length, inner_width(layer)));
    return layer_sum(layer_multiply(batch, values), layer_multiply(length, length));
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct parts parts = parts_of(layer, call);
    size_t width = parts.size.width;
    scalar *d_context = call->work, *d_qkv = d_context + parts.out.rows * width;
    scalar *scores = d_qkv + 3 * parts.out.rows * width;
    struct attention_gradients d = {d_qkv, d_qkv + width, d_qkv + 2 * width};
    if (call->d_input[0] == NULL && call->d_parameter[IN_WEIGHT] == NULL)
        return;
    projection_backward_input(&parts.out, call->d_output, call->parameter[OUT_WEIGHT],
                              false, d_context);
    attention_backward(&parts.size, &parts.values, parts.p, d_context, &d, scores);
    if (call->d_input[0] != NULL)
        projection_backward_input(&parts.in, d_qkv, call->parameter[IN_WEIGHT],
                                  call->accumulate[0], call->d_input[0]);
    if (call->d_parameter[IN_WEIGHT] == NULL)
        return;
    projection_backward_weight(&parts.in, d_qkv, call->input[0],
                               call->d_parameter[IN_WEIGHT], call->d_parameter[IN_BIAS]);
    projection_backward_weight(&parts.out, call->d_output, parts.context,
                               call->d_parameter[OUT_WEIGHT], call->d_parameter[OUT_BIAS]);
}

const struct layer_kind layer_attention = {
    .name = "attention",
    .summary = "multi-head self-attention with its projections",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"heads", true, true, 0, 1, 1 << 20},
                {"causal", false, true, 0, 0, 1},
                {"bias", false, true, 1, 0, 1},
                {"gain", false, false, 1, 0, 1000},
                {"inner", false, true, 0, 0, 1 << 30},
                {"output_bias", false, true, 1, 0, 1},
                {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .work_count = work_count,
};
