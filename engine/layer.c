#include "engine/layer.h"

#include <stdio.h>
#include <string.h>

/* The table: one line a kind, whose file defines `const struct layer_kind layer_NAME`. */
#define LAYER_KINDS(X)                                                                   \
    X(linear)                                                                            \
    X(bias)                                                                              \
    X(relu)                                                                              \
    X(flatten)                                                                           \
    X(copy)                                                                              \
    X(add)                                                                               \
    X(gelu)                                                                              \
    X(dropout)                                                                           \
    X(layer_norm)                                                                        \
    X(slice)                                                                             \
    X(embedding)                                                                         \
    X(positions)                                                                         \
    X(attention)                                                                         \
    X(cross_attention)                                                                   \
    X(conv2d)                                                                            \
    X(batch_norm)                                                                        \
    X(group_norm)                                                                        \
    X(max_pool)                                                                          \
    X(average_pool)                                                                      \
    X(global_average_pool)

#define DECLARE(name) extern const struct layer_kind layer_##name;
#define ENTRY(name) &layer_##name,
LAYER_KINDS(DECLARE)
static const struct layer_kind *const kinds[] = {LAYER_KINDS(ENTRY)};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

size_t layer_kind_count(void)
{
    return KIND_COUNT;
}

const struct layer_kind *layer_kind_get(size_t index)
{
    return index < KIND_COUNT ? kinds[index] : NULL;
}

const struct layer_kind *layer_kind_find(const char *name)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

const char *operation_class_name(enum operation_class operation)
{
    static const char *const names[OPERATION_CLASSES] = {
        "matmul", "convolution", "normalization", "elementwise", "memory", "optimizer"};
    return operation < OPERATION_CLASSES ? names[operation] : "?";
}

uint64_t shape_count(const struct shape *shape)
{
    uint64_t count = 1;
    for (size_t i = 0; i < shape->rank; i++)
        count = layer_multiply(count, shape->extent[i]);
    return count;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->extent, b->extent, a->rank * sizeof(a->extent[0])) == 0;
}

void shape_text(const struct shape *shape, char text[64])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < shape->rank && used < 63; i++) {
        int written = snprintf(text + used, 64 - used, "%s%llu", i > 0 ? "x" : "",
                               (unsigned long long)shape->extent[i]);
        used += written > 0 ? (size_t)written : 0;
    }
}

uint64_t layer_parameter_count(const struct layer *layer)
{
    uint64_t count = 0;
    if (layer->tied_to == SIZE_MAX)
        for (size_t i = 0; i < layer->tensor_count; i++)
            count = layer_sum(count, layer->tensor[i].count);
    return count;
}

static bool check_shape(const char *what, const struct shape *shape, struct error *error)
{
    char text[64];
    shape_text(shape, text);
    if (shape->rank == 0 || shape->rank > SHAPE_MAX_RANK)
        return error_set(error, STATUS_BAD_INPUT, "%s has %zu dimensions; 1 to %d are possible",
                         what, shape->rank, SHAPE_MAX_RANK);
    if (shape_count(shape) == 0)
        return error_set(error, STATUS_BAD_INPUT, "%s %s has an empty dimension", what, text);
    if (shape_count(shape) > LAYER_MAX_COUNT)
        return error_set(error, STATUS_BAD_INPUT, "%s %s is too large", what, text);
    return true;
}

/* The kinds compute with layer_multiply and layer_sum, which stop at UINT64_MAX: here is
 * the one place that looks whether they did. */
static bool check_sizes(const struct layer *layer, struct error *error)
{
    uint64_t scalars = layer_sum(layer->state_count,
                                 layer_sum(layer->stash_count, layer->stash_fixed_count));
    for (size_t i = 0; i < layer->tensor_count; i++)
        scalars = layer_sum(scalars, layer->tensor[i].count);
    uint64_t flops = layer_sum(layer_sum(layer->forward_flops, layer->backward_input_flops),
                               layer_sum(layer->backward_weight_flops, layer->macs));
    if (scalars > LAYER_MAX_COUNT || flops > LAYER_MAX_FLOPS)
        return error_set(error, STATUS_BAD_INPUT,
                         "too large: more than 2^40 scalars or 2^60 FLOPs");
    return true;
}

static bool check_options(const struct layer *layer, struct error *error)
{
    const struct layer_option *option = layer->kind->options;
    for (size_t i = 0; option[i].name != NULL; i++) {
        double value = layer->option[i];
        if (!(value >= option[i].minimum && value <= option[i].maximum))
            return error_set(error, STATUS_BAD_INPUT, "%s must be from %g to %g, not %.17g",
                             option[i].name, option[i].minimum, option[i].maximum, value);
        if (option[i].integer && value != (double)(uint64_t)value)
            return error_set(error, STATUS_BAD_INPUT, "%s must be an integer, not %.17g",
                             option[i].name, value);
    }
    return true;
}

bool layer_describe(struct layer *layer, struct error *error)
{
    const struct layer_kind *kind = layer->kind;
    if (layer->input_count < kind->min_inputs || layer->input_count > kind->max_inputs)
        return error_set(error, STATUS_BAD_INPUT, "%s takes %zu to %zu inputs, not %zu",
                         kind->name, kind->min_inputs, kind->max_inputs, layer->input_count);
    for (size_t i = 0; i < layer->input_count; i++)
        if (!check_shape("input", &layer->input_shape[i], error))
            return false;
    return check_options(layer, error) && kind->describe(layer, error) &&
           check_shape("output", &layer->output_shape, error) && check_sizes(layer, error);
}
