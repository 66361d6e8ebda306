#include "engine/model_shard.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sharding {
    const struct model *from;
    uint32_t ranks;
    struct model_shard *shard;
    size_t *value_of;           /* of the shard, by the whole model's */
    struct value_set gradients; /* the whole model's values that have one */
};

/* Identities of layers that the whole model does not have. Its own are small. */
enum { BIAS_IDENTITY = 1 << 30, COPY_IDENTITY = 1 << 29 }; /* >> input: up to three */

static bool is_kind(const struct layer *layer, const char *name)
{
    return strcmp(layer->kind->name, name) == 0;
}

/* An option by its name; kinds that are split have those that are asked for. */
static double *option_of(struct layer *layer, const char *name)
{
    size_t i = 0;
    while (strcmp(layer->kind->options[i].name, name) != 0)
        i++;
    return &layer->option[i];
}

/* Its parameters are its own alone. */
static bool untied(const struct model *model, size_t layer)
{
    for (size_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].tied_to == layer)
            return false;
    return model->layers[layer].tied_to == SIZE_MAX;
}

/* The next layer alone uses what this one makes, and nothing else. */
static bool leads_on(const struct model *model, size_t layer)
{
    return layer + 1 < model->layer_count && model->layers[layer].used_until == layer + 2 &&
           model->layers[layer + 1].input_count == 1 &&
           model->layers[layer + 1].input[0] == layer + 1;
}

/* How the heads' tensors are cut: the number of runs of outputs side by side (q, k, v), 0
 * where heads are the inputs. The last tensor is the bias of the sum. */
struct heads_tensors {
    const char *kind;
    size_t count;
    uint64_t outer[6];
};
static const struct heads_tensors heads_tensors[] = {
    {"attention", 4, {3, 0, 3}},
    {"cross_attention", 6, {1, 2, 0, 1, 2}},
};

static const struct heads_tensors *find_heads(const struct layer *layer)
{
    for (size_t i = 0; i < sizeof heads_tensors / sizeof heads_tensors[0]; i++)
        if (is_kind(layer, heads_tensors[i].kind))
            return &heads_tensors[i];
    return NULL;
}

/* One past the last layer of the group that begins here; 0: none does. */
static size_t group_end(const struct model *model, size_t first)
{
    const struct layer *layers = model->layers;
    if (!untied(model, first))
        return 0;
    if (find_heads(&layers[first]) != NULL)
        return first + 1;
    if (!is_kind(&layers[first], "linear"))
        return 0;
    size_t i = first;
    do {
        if (!leads_on(model, i))
            return 0;
        i++;
    } while (is_kind(&layers[i], "relu") || is_kind(&layers[i], "gelu"));
    return is_kind(&layers[i], "linear") && untied(model, i) ? i + 1 : 0;
}

static bool add_slice(struct sharding *s, size_t layer, size_t tensor, size_t whole_layer,
                      size_t whole_tensor, uint64_t outer, bool replicated,
                      struct error *error)
{
    struct model_shard *shard = s->shard;
    if (!checked_grow((void **)&shard->slices, &shard->slice_capacity,
                      shard->slice_count + 1, sizeof *shard->slices))
        return error_memory(error, "slices");
    uint64_t count = shard->model->layers[layer].tensor[tensor].count;
    shard->slices[shard->slice_count++] = (struct model_slice){
        layer, tensor, whole_layer, whole_tensor, outer, count / outer, replicated};
    return true;
}

/* Adds the layer as `narrowed` has it, in the shard's numbers. */
static bool add_layer(struct sharding *s, size_t index, const struct layer *narrowed,
                      struct error *error)
{
    struct model *model = s->shard->model;
    struct option_value options[LAYER_MAX_OPTIONS + 1] = {{0}};
    size_t inputs[LAYER_MAX_INPUTS], tied_to = narrowed->tied_to;
    for (size_t i = 0; narrowed->kind->options[i].name != NULL; i++)
        options[i] =
            (struct option_value){narrowed->kind->options[i].name, narrowed->option[i]};
    for (size_t i = 0; i < narrowed->input_count; i++)
        inputs[i] = s->value_of[narrowed->input[i]];
    if (tied_to != SIZE_MAX)
        tied_to = s->value_of[tied_to + 1] - 1;
    if (!model_add(model, narrowed->kind->name, narrowed->name, options, inputs,
                   narrowed->input_count, tied_to, &s->value_of[index + 1], error))
        return false;
    model->layers[model->layer_count - 1].identity = narrowed->identity;
    return true;
}

static bool divide(const struct sharding *s, const struct layer *layer, const char *what,
                   double *size, struct error *error)
{
    uint64_t whole = (uint64_t)*size;
    *size = (double)(whole / s->ranks);
    return whole % s->ranks == 0 ||
           error_set(error, STATUS_BAD_INPUT,
                     "layer \"%s\": %llu %s cannot be split over %u ranks", layer->name,
                     (unsigned long long)whole, what, s->ranks);
}

/* The bias of a sum: the whole model's tensor of layer `index`, in a layer of its own. */
static bool add_bias(struct sharding *s, size_t index, size_t tensor, struct error *error)
{
    struct model *model = s->shard->model;
    char name[LAYER_NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s.bias", s->from->layers[index].name);
    if (!model_add(model, "bias", name, NULL, NULL, 0, SIZE_MAX, &s->value_of[index + 1],
                   error))
        return false;
    model->layers[model->layer_count - 1].identity =
        BIAS_IDENTITY | s->from->layers[index].identity;
    return add_slice(s, model->layer_count - 1, 0, index, tensor, 1, true, error);
}

static bool add_heads(struct sharding *s, size_t index, struct error *error)
{
    struct layer own = s->from->layers[index];
    const struct heads_tensors *cut = find_heads(&own);
    const size_t tensors = own.tensor_count, bias = cut->count - 1;
    double *inner = option_of(&own, "inner");
    uint64_t width = own.output_shape.extent[1];
    *inner = *inner > 0 ? *inner : (double)width;
    *option_of(&own, "output_bias") = 0;
    if (!divide(s, &own, "heads", option_of(&own, "heads"), error) ||
        !divide(s, &own, "columns", inner, error) || !add_layer(s, index, &own, error))
        return false;
    size_t layer = s->value_of[index + 1] - 1;
    for (size_t t = 0; t < tensors && t < bias; t++)
        if (!add_slice(s, layer, t, index, t, cut->outer[t] > 0 ? cut->outer[t] : width,
                       false, error))
            return false;
    return tensors <= bias || add_bias(s, index, bias, error);
}

static bool add_columns(struct sharding *s, size_t index, struct error *error)
{
    struct layer own = s->from->layers[index];
    if (!divide(s, &own, "columns", option_of(&own, "out"), error) ||
        !add_layer(s, index, &own, error))
        return false;
    size_t layer = s->value_of[index + 1] - 1;
    for (size_t t = 0; t < own.tensor_count; t++)
        if (!add_slice(s, layer, t, index, t, 1, false, error))
            return false;
    return true;
}

static bool add_rows(struct sharding *s, size_t index, struct error *error)
{
    struct layer own = s->from->layers[index];
    const size_t tensors = own.tensor_count;
    *option_of(&own, "bias") = 0;
    return add_layer(s, index, &own, error) &&
           add_slice(s, s->value_of[index + 1] - 1, 0, index, 0,
                     (uint64_t)*option_of(&own, "out"), false, error) &&
           (tensors < 2 || add_bias(s, index, 1, error));
}

/* The sum over the ranks must be of the group's gradient alone: where later layers use its
 * input too, the group gets a copy, whose gradient joins theirs after the sum. For the
 * group's layers value_of is the copy. */
static bool part_input(struct sharding *s, size_t first, size_t input, struct error *error)
{
    struct model *model = s->shard->model;
    const struct layer *layer = &s->from->layers[first];
    size_t value = layer->input[input];
    char name[LAYER_NAME_BYTES + 8];
    if (!value_set_has(&s->gradients, value) ||
        model_used_until(s->from, value) == first + 1)
        return true;
    snprintf(name, sizeof name, input > 0 ? "%s.copy%zu" : "%s.copy", layer->name, input);
    if (!model_add(model, "copy", name, NULL, &s->value_of[value], 1, SIZE_MAX,
                   &s->value_of[value], error))
        return false;
    model->layers[model->layer_count - 1].identity =
        (COPY_IDENTITY >> input) | layer->identity;
    return true;
}

static bool add_group_layers(struct sharding *s, size_t first, size_t end,
                             struct error *error)
{
    if (end == first + 1)
        return add_heads(s, first, error);
    if (!add_columns(s, first, error))
        return false;
    for (size_t i = first + 1; i + 1 < end; i++)
        if (!add_layer(s, i, &s->from->layers[i], error))
            return false;
    return add_rows(s, end - 1, error);
}

static bool add_group(struct sharding *s, size_t first, size_t end, struct error *error)
{
    struct model_shard *shard = s->shard;
    const struct layer *layer = &s->from->layers[first];
    size_t shared[LAYER_MAX_INPUTS];
    for (size_t k = 0; k < layer->input_count; k++)
        shared[k] = s->value_of[layer->input[k]];
    for (size_t k = 0; k < layer->input_count; k++)
        if (shared[k] == s->value_of[layer->input[k]] && !part_input(s, first, k, error))
            return false;
    if (!checked_grow((void **)&shard->groups, &shard->group_capacity,
                      shard->group_count + 1, sizeof *shard->groups))
        return error_memory(error, "split layers");
    struct split_group *group = &shard->groups[shard->group_count++];
    group->first_layer = shard->model->layer_count;
    group->end_layer = group->first_layer + (end - first);
    bool added = add_group_layers(s, first, end, error);
    for (size_t k = 0; k < layer->input_count; k++)
        s->value_of[layer->input[k]] = shared[k];
    return added;
}

/* Blocks are kept. A group belongs to the block in which it begins; a block of which that
 * leaves nothing is gone. */
static bool add_all(struct sharding *s, struct error *error)
{
    const struct model *from = s->from;
    size_t block = 0, end;
    for (size_t i = 0; i < from->layer_count; i = end) {
        bool begins = false;
        const char *name = NULL;
        for (; block < from->block_count && from->blocks[block].first_layer <= i; block++) {
            begins = true;
            name = from->blocks[block].name;
        }
        if (begins && !model_begin_block(s->shard->model, name, error))
            return false;
        end = group_end(from, i);
        if (end != 0) {
            if (!add_group(s, i, end, error))
                return false;
            continue;
        }
        end = i + 1;
        if (!add_layer(s, i, &from->layers[i], error))
            return false;
    }
    return s->shard->group_count > 0 ||
           error_set(error, STATUS_BAD_INPUT,
                     "the model has no two linear layers in a row and no attention: there "
                     "is nothing to split");
}

bool model_shard_make(const struct model *model, uint32_t ranks, struct model_shard *shard,
                      struct error *error)
{
    struct sharding s = {.from = model, .ranks = ranks, .shard = shard};
    *shard = (struct model_shard){0};
    shard->model = model_create(model->name, &model->input_shape, model->vocabulary, error);
    if (shard->model == NULL)
        return false;
    model_gradient_values(model, 0, model->layer_count, false, &s.gradients);
    s.value_of = checked_calloc(model->layer_count + 1, sizeof *s.value_of);
    bool made = s.value_of != NULL || error_memory(error, "model");
    made = made && add_all(&s, error) && model_finish(shard->model, error);
    free(s.value_of);
    return made;
}

void model_shard_release(struct model_shard *shard)
{
    model_free(shard->model);
    free(shard->slices);
    free(shard->groups);
    *shard = (struct model_shard){0};
}
