/* Attention of a sequence x [length, width] on another, memory [places, other width]:
 * queries from x, keys and values from the memory, and a projection of the context back;
 * the inner width is the width unless it is given. Weights start normal with standard
 * deviation 1 / sqrt(in), the output's times `gain`. Kept: both inputs, and in the stash
 * q [length, inner], k and v [places, 2 inner], the probabilities [heads, length, places]
 * and the context [length, inner], each for the whole micro-batch. */
#include "engine/layers/attention_heads.h"
#include "engine/layers/projection.h"

#include <math.h>

enum { HEADS, BIAS, GAIN, INNER, OUTPUT_BIAS };
enum { Q_WEIGHT, KV_WEIGHT, OUT_WEIGHT, Q_BIAS, KV_BIAS, OUT_BIAS };

/* Sizes of one sample. */
struct lengths {
    uint64_t queries, width, keys, memory_width, heads, inner;
};

static struct lengths lengths_of(const struct layer *layer)
{
    uint64_t width = layer->input_shape[0].extent[1], inner = layer_size(layer, INNER);
    return (struct lengths){layer->input_shape[0].extent[0],
                            width,
                            layer->input_shape[1].extent[0],
                            layer->input_shape[1].extent[1],
                            layer_size(layer, HEADS),
                            inner > 0 ? inner : width};
}

static struct parameter_tensor weight(const char *name, uint64_t in, uint64_t out,
                                      double gain)
{
    return (struct parameter_tensor){.name = name,
                                     .count = layer_multiply(in, out),
                                     .init = INIT_NORMAL,
                                     .scale = gain / sqrt((double)in),
                                     .decays = true};
}

static void describe_parameters(struct layer *layer, const struct lengths *n)
{
    layer->tensor[Q_WEIGHT] = weight("q_weight", n->width, n->inner, 1);
    layer->tensor[KV_WEIGHT] =
        weight("kv_weight", n->memory_width, layer_multiply(2, n->inner), 1);
    layer->tensor[OUT_WEIGHT] =
        weight("out_weight", n->inner, n->width, layer->option[GAIN]);
    layer->tensor[Q_BIAS] = (struct parameter_tensor){.name = "q_bias", .count = n->inner};
    layer->tensor[KV_BIAS] =
        (struct parameter_tensor){.name = "kv_bias", .count = layer_multiply(2, n->inner)};
    layer->tensor[OUT_BIAS] =
        (struct parameter_tensor){.name = "out_bias", .count = n->width};
    layer->tensor_count = 3;
    if (layer->option[BIAS] != 0)
        layer->tensor_count = layer->option[OUTPUT_BIAS] != 0 ? 6 : 5;
}

static void describe_flops(struct layer *layer, const struct lengths *n)
{
    bool bias = layer->tensor_count > 3;
    uint64_t kv_width = layer_multiply(2, n->inner);
    uint64_t projections =
        layer_sum(layer_multiply(2, projection_macs(n->queries, n->width, n->inner)),
                  projection_macs(n->keys, n->memory_width, kv_width));
    layer->macs = layer_sum(projections, attention_macs(n->queries, n->keys, n->inner));
    layer->backward_weight_flops =
        layer_sum(layer_sum(projection_flops(n->queries, n->width, n->inner, bias),
                            projection_flops(n->queries, n->inner, n->width,
                                             layer->tensor_count > OUT_BIAS)),
                  projection_flops(n->keys, n->memory_width, kv_width, bias));
    layer->forward_flops =
        layer_sum(layer->backward_weight_flops,
                  attention_forward_flops(n->queries, n->keys, n->inner, n->heads));
    layer->backward_input_flops =
        layer_sum(layer_multiply(2, projections),
                  attention_backward_flops(n->queries, n->keys, n->inner, n->heads));
}

static bool describe(struct layer *layer, struct error *error)
{
    if (layer->input_shape[0].rank != 2 || layer->input_shape[1].rank != 2)
        return error_set(error, STATUS_BAD_INPUT,
                         "takes two sequences [length, width], not %zu and %zu dimensions",
                         layer->input_shape[0].rank, layer->input_shape[1].rank);
    struct lengths n = lengths_of(layer);
    if (n.inner % n.heads != 0)
        return error_set(error, STATUS_BAD_INPUT, "a width of %llu is not for %llu heads",
                         (unsigned long long)n.inner, (unsigned long long)n.heads);
    layer->output_shape = layer->input_shape[0];
    layer->operation = OPERATION_MATMUL;
    layer->keeps_input[0] = layer->keeps_input[1] = true;
    layer->stash_count =
        layer_sum(layer_multiply(2, layer_multiply(layer_sum(n.queries, n.keys), n.inner)),
                  layer_multiply(n.heads, layer_multiply(n.queries, n.keys)));
    describe_parameters(layer, &n);
    describe_flops(layer, &n);
    return true;
}

/* Of one call, and where in its stash things lie. */
struct parts {
    struct attention_size size;
    struct projection q, kv, out;
    struct attention_values values;
    scalar *q_rows, *kv_rows, *p, *context;
};

static struct parts parts_of(const struct layer *layer, const struct layer_call *call)
{
    struct lengths n = lengths_of(layer);
    size_t width = (size_t)n.width, inner = (size_t)n.inner;
    size_t queries = (size_t)n.queries, keys = (size_t)n.keys;
    size_t rows = call->batch * queries, memory_rows = call->batch * keys;
    struct parts parts = {
        .size = {call->batch, queries, keys, (size_t)n.heads, inner, false},
        .q = {rows, width, inner},
        .kv = {memory_rows, (size_t)n.memory_width, 2 * inner},
        .out = {rows, inner, width}};
    parts.q_rows = call->stash;
    parts.context = parts.q_rows + rows * inner;
    parts.kv_rows = parts.context + rows * inner;
    parts.p = parts.kv_rows + 2 * memory_rows * inner;
    parts.values = (struct attention_values){parts.q_rows, parts.kv_rows,
                                             parts.kv_rows + inner, inner, 2 * inner};
    return parts;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct parts parts = parts_of(layer, call);
    projection_forward(&parts.q, call->input[0], call->parameter[Q_WEIGHT],
                       call->parameter[Q_BIAS], parts.q_rows);
    projection_forward(&parts.kv, call->input[1], call->parameter[KV_WEIGHT],
                       call->parameter[KV_BIAS], parts.kv_rows);
    attention_forward(&parts.size, &parts.values, parts.p, parts.context);
    projection_forward(&parts.out, parts.context, call->parameter[OUT_WEIGHT],
                       call->parameter[OUT_BIAS], call->output);
}

/* The gradients of the context and of q, k, v, and one head's scores. */
static uint64_t work_count(const struct layer *layer, size_t batch)
{
    struct lengths n = lengths_of(layer);
    uint64_t values =
        layer_multiply(2, layer_multiply(layer_sum(n.queries, n.keys), n.inner));
    return layer_sum(layer_multiply(batch, values), layer_multiply(n.queries, n.keys));
}

static void add_parameters(const struct parts *parts, const struct layer_call *call,
                           const scalar *d_q, const scalar *d_kv)
{
    projection_backward_weight(&parts->q, d_q, call->input[0], call->d_parameter[Q_WEIGHT],
                               call->d_parameter[Q_BIAS]);
    projection_backward_weight(&parts->kv, d_kv, call->input[1],
                               call->d_parameter[KV_WEIGHT], call->d_parameter[KV_BIAS]);
    projection_backward_weight(&parts->out, call->d_output, parts->context,
                               call->d_parameter[OUT_WEIGHT], call->d_parameter[OUT_BIAS]);
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct parts parts = parts_of(layer, call);
    size_t inner = parts.size.width;
    scalar *d_context = call->work, *d_q = d_context + parts.q.rows * inner;
    scalar *d_kv = d_q + parts.q.rows * inner;
    scalar *scores = d_kv + 2 * parts.kv.rows * inner;
    struct attention_gradients d = {d_q, d_kv, d_kv + inner};
    projection_backward_input(&parts.out, call->d_output, call->parameter[OUT_WEIGHT], false,
                              d_context);
    attention_backward(&parts.size, &parts.values, parts.p, d_context, &d, scores);
    if (call->d_input[0] != NULL)
        projection_backward_input(&parts.q, d_q, call->parameter[Q_WEIGHT],
                                  call->accumulate[0], call->d_input[0]);
    if (call->d_input[1] != NULL)
        projection_backward_input(&parts.kv, d_kv, call->parameter[KV_WEIGHT],
                                  call->accumulate[1], call->d_input[1]);
    if (call->d_parameter[Q_WEIGHT] != NULL)
        add_parameters(&parts, call, d_q, d_kv);
}

const struct layer_kind layer_cross_attention = {
    .name = "cross_attention",
    .summary = "multi-head attention of one sequence on another",
    .min_inputs = 2,
    .max_inputs = 2,
    .options = {{"heads", true, true, 0, 1, 1 << 20},
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
