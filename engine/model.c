/* Building a model and looking at it; what cuts mean is in model_cut.c. */
#include "engine/model.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool copy_name(char target[LAYER_NAME_BYTES], const char *name, const char *what,
                      struct error *error)
{
    size_t length = strlen(name);
    if (length == 0 || length >= LAYER_NAME_BYTES)
        return error_set(
            error, STATUS_BAD_INPUT,
            "the name of a %s must have 1 to %d characters, not %zu: \"%.60s\"", what,
            LAYER_NAME_BYTES - 1, length, name);
    memcpy(target, name, length + 1);
    return true;
}

struct model *model_create(const char *name, const struct shape *input, uint64_t vocabulary,
                           struct error *error)
{
    struct model *model = checked_calloc(1, sizeof *model);
    if (model == NULL) {
        error_memory(error, "model");
        return NULL;
    }
    model->input_shape = *input;
    model->vocabulary = vocabulary;
    if (!copy_name(model->name, name, "model", error)) {
        model_free(model);
        return NULL;
    }
    return model;
}

void model_free(struct model *model)
{
    if (model == NULL)
        return;
    free(model->layers);
    free(model->blocks);
    free(model);
}

struct model *model_copy(const struct model *model, struct error *error)
{
    struct model *copy = checked_calloc(1, sizeof *copy);
    struct layer *layers = checked_calloc(model->layer_count, sizeof *layers);
    struct block *blocks = checked_calloc(model->block_count, sizeof *blocks);
    if (copy == NULL || layers == NULL || blocks == NULL) {
        free(copy);
        free(layers);
        free(blocks);
        error_memory(error, "model");
        return NULL;
    }
    *copy = *model;
    copy->layers = layers;
    copy->blocks = blocks;
    copy->layer_capacity = model->layer_count;
    copy->block_capacity = model->block_count;
    if (model->layer_count > 0)
        memcpy(layers, model->layers, model->layer_count * sizeof *layers);
    if (model->block_count > 0)
        memcpy(blocks, model->blocks, model->block_count * sizeof *blocks);
    return copy;
}

bool model_begin_block(struct model *model, const char *name, struct error *error)
{
    struct block block = {.first_layer = model->layer_count,
                          .end_layer = model->layer_count};
    if (!copy_name(block.name, name, "block", error))
        return false;
    for (size_t i = 0; i < model->block_count; i++)
        if (strcmp(model->blocks[i].name, name) == 0)
            return error_set(error, STATUS_BAD_INPUT, "there are two blocks \"%s\"", name);
    if (!checked_grow((void **)&model->blocks, &model->block_capacity,
                      model->block_count + 1, sizeof *model->blocks))
        return error_memory(error, "model blocks");
    model->blocks[model->block_count++] = block;
    return true;
}

static bool set_options(struct layer *layer, const struct option_value *given,
                        struct error *error)
{
    const struct layer_option *known = layer->kind->options;
    bool set[LAYER_MAX_OPTIONS] = {false};
    for (size_t i = 0; known[i].name != NULL; i++)
        layer->option[i] = known[i].fallback;
    for (; given != NULL && given->name != NULL; given++) {
        size_t i = 0;
        while (known[i].name != NULL && strcmp(known[i].name, given->name) != 0)
            i++;
        if (known[i].name == NULL)
            return error_set(error, STATUS_BAD_INPUT, "%s has no option \"%.40s\"",
                             layer->kind->name, given->name);
        if (set[i])
            return error_set(error, STATUS_BAD_INPUT, "option \"%s\" is given twice",
                             given->name);
        layer->option[i] = given->value;
        set[i] = true;
    }
    for (size_t i = 0; known[i].name != NULL; i++)
        if (known[i].required && !set[i])
            return error_set(error, STATUS_BAD_INPUT, "%s needs the option \"%s\"",
                             layer->kind->name, known[i].name);
    return true;
}

static bool set_inputs(const struct model *model, struct layer *layer, const size_t *inputs,
                       size_t input_count, struct error *error)
{
    if (input_count > LAYER_MAX_INPUTS)
        return error_set(error, STATUS_BAD_INPUT, "%zu inputs; at most %d are possible",
                         input_count, LAYER_MAX_INPUTS);
    layer->input_count = input_count == 0 ? 1 : input_count;
    for (size_t i = 0; i < layer->input_count; i++) {
        size_t value = input_count == 0 ? model->layer_count : inputs[i];
        if (value > model->layer_count)
            return error_set(error, STATUS_BAD_INPUT, "input value %zu is not made yet",
                             value);
        layer->input[i] = value;
        layer->input_shape[i] = *model_value_shape(model, value);
    }
    return true;
}

static bool set_tie(const struct model *model, struct layer *layer, size_t tied_to,
                    struct error *error)
{
    layer->tied_to = SIZE_MAX;
    if (tied_to == SIZE_MAX)
        return true;
    if (tied_to >= model->layer_count)
        return error_set(error, STATUS_BAD_INPUT, "tied to a layer that is not made yet");
    layer->tied_to = model_owner(model, tied_to);
    const struct layer *owner = &model->layers[layer->tied_to];
    bool fits = layer->tensor_count > 0 && layer->tensor_count <= owner->tensor_count;
    for (size_t i = 0; fits && i < layer->tensor_count; i++)
        fits = layer->tensor[i].count == owner->tensor[i].count;
    if (!fits)
        return error_set(error, STATUS_BAD_INPUT,
                         "cannot be tied to %s: its parameters are of other sizes",
                         owner->name);
    return true;
}

static bool fill_layer(const struct model *model, struct layer *layer, const char *kind,
                       const char *name, const struct option_value *options,
                       const size_t *inputs, size_t input_count, size_t tied_to,
                       struct error *error)
{
    if (model->block_count == 0)
        return error_set(error, STATUS_BAD_INPUT, "no block was begun");
    if (model->layer_count >= MODEL_MAX_LAYERS)
        return error_set(error, STATUS_BAD_INPUT, "more than %d layers", MODEL_MAX_LAYERS);
    for (size_t i = 0; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name, name) == 0)
            return error_set(error, STATUS_BAD_INPUT, "there are two layers of this name");
    layer->kind = layer_kind_find(kind);
    if (layer->kind == NULL)
        return error_set(error, STATUS_BAD_INPUT, "unknown kind of layer \"%.40s\"", kind);
    layer->identity = (uint32_t)model->layer_count;
    return copy_name(layer->name, name, "layer", error) &&
           set_options(layer, options, error) &&
           set_inputs(model, layer, inputs, input_count, error) &&
           layer_describe(layer, error) && set_tie(model, layer, tied_to, error);
}

static size_t *used_until(struct model *model, size_t value)
{
    return value == 0 ? &model->input_used_until : &model->layers[value - 1].used_until;
}

bool model_add(struct model *model, const char *kind, const char *name,
               const struct option_value *options, const size_t *inputs, size_t input_count,
               size_t tied_to, size_t *value, struct error *error)
{
    struct layer layer = {0};
    if (!fill_layer(model, &layer, kind, name, options, inputs, input_count, tied_to,
                    error))
        return error_prefix(error, "layer \"%.60s\"", name);
    if (!checked_grow((void **)&model->layers, &model->layer_capacity,
                      model->layer_count + 1, sizeof *model->layers))
        return error_memory(error, "model layers");
    for (size_t i = 0; i < layer.input_count; i++)
        *used_until(model, layer.input[i]) = model->layer_count + 1;
    model->layers[model->layer_count++] = layer;
    model->blocks[model->block_count - 1].end_layer = model->layer_count;
    if (value != NULL)
        *value = model->layer_count;
    return true;
}

/* How many values cross each cut, by counting where each begins and ends. */
static bool check_crossings(const struct model *model, struct error *error)
{
    size_t cuts = model->layer_count + 1, crossing = 0;
    size_t *ends = checked_calloc(cuts + 1, sizeof *ends);
    if (ends == NULL)
        return error_memory(error, "model");
    bool fits = true;
    for (size_t cut = 0; cut < cuts && fits; cut++) {
        size_t until = model_used_until(model, cut);
        if (until > cut) {
            crossing++;
            ends[until < cuts ? until : cuts]++;
        }
        crossing -= ends[cut];
        fits = crossing <= MODEL_MAX_CROSSING;
        if (!fits)
            error_set(error, STATUS_BAD_INPUT,
                      "model \"%s\": %zu values are in use at once before layer \"%s\"; at "
                      "most %d are possible",
                      model->name, crossing,
                      cut < model->layer_count ? model->layers[cut].name : "(end)",
                      MODEL_MAX_CROSSING);
    }
    free(ends);
    return fits;
}

bool model_finish(struct model *model, struct error *error)
{
    if (model->layer_count == 0)
        return error_set(error, STATUS_BAD_INPUT, "model \"%s\" has no layers",
                         model->name);
    for (size_t i = 0; i < model->block_count; i++)
        if (model->blocks[i].first_layer == model->blocks[i].end_layer)
            return error_set(error, STATUS_BAD_INPUT, "block \"%s\" has no layers",
                             model->blocks[i].name);
    const struct shape *output = &model->layers[model->layer_count - 1].output_shape;
    model->classes = output->extent[output->rank - 1];
    return check_crossings(model, error);
}

const struct shape *model_value_shape(const struct model *model, size_t value)
{
    return value == 0 ? &model->input_shape : &model->layers[value - 1].output_shape;
}

size_t model_output_value(const struct model *model)
{
    return model->layer_count;
}

size_t model_owner(const struct model *model, size_t layer)
{
    size_t owner = model->layers[layer].tied_to;
    return owner == SIZE_MAX ? layer : owner;
}

bool model_run_holds(const struct model *model, size_t first, size_t layer)
{
    size_t owner = model_owner(model, layer);
    if (owner == layer)
        return true;
    if (owner >= first)
        return false;
    for (size_t i = first; i < layer; i++)
        if (model_owner(model, i) == owner)
            return false;
    return true;
}

uint64_t model_run_parameter_count(const struct model *model, size_t first, size_t end)
{
    uint64_t count = 0;
    for (size_t i = first; i < end; i++)
        if (model_run_holds(model, first, i))
            for (size_t k = 0; k < model->layers[model_owner(model, i)].tensor_count; k++)
                count += model->layers[model_owner(model, i)].tensor[k].count;
    return count;
}

uint64_t model_parameter_count(const struct model *model)
{
    return model_run_parameter_count(model, 0, model->layer_count);
}

uint64_t model_state_count(const struct model *model)
{
    uint64_t count = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        count += model->layers[i].state_count;
    return count;
}

uint64_t model_macs(const struct model *model)
{
    uint64_t macs = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        macs = layer_sum(macs, model->layers[i].macs);
    return macs;
}
