/* Local heads: auxiliary classifiers put in after the chunks of a model. A kind is one
 * line in the table below. */
#include "engine/model.h"

#include "base/checked.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy under construction. */
struct copying {
    const struct model *source;
    struct model *copy;
    size_t *value_of;   /* source value number -> the copy's */
    size_t block;       /* the source's block being copied; heads are named after it */
    size_t head_layers; /* of the head being made */
};

enum { MAX_HEAD_LAYERS = 8 };

struct head_kind {
    const char *name;
    bool (*fits)(const struct shape *body, const struct shape *output);
    /* Adds the head's layers after the value `body`. */
    bool (*build)(struct copying *copying, size_t body, struct error *error);
};

/* Head layers are keyed by the block they follow, so that they start alike whichever
 * other heads there are, and never like a layer of the body. */
static bool add_tied(struct copying *copying, const char *kind,
                     const struct option_value *options, size_t input, size_t tied_to,
                     size_t *value, struct error *error)
{
    char name[LAYER_NAME_BYTES];
    assert(copying->head_layers < MAX_HEAD_LAYERS);
    snprintf(name, sizeof name, "head%zu.%s", copying->block, kind);
    if (!model_add(copying->copy, kind, name, options, &input, 1, tied_to, value, error))
        return false;
    copying->copy->layers[copying->copy->layer_count - 1].identity =
        UINT32_C(1) << 31 |
        (uint32_t)(copying->block * MAX_HEAD_LAYERS + copying->head_layers);
    copying->head_layers++;
    return true;
}

static bool add(struct copying *copying, const char *kind,
                const struct option_value *options, size_t input, size_t *value,
                struct error *error)
{
    return add_tied(copying, kind, options, input, SIZE_MAX, value, error);
}

static bool add_linear(struct copying *copying, size_t input, struct error *error)
{
    const struct option_value options[] = {
        {"out", (double)copying->source->classes}, {"gain", 1}, {0}};
    return add(copying, "linear", options, input, NULL, error);
}

/* The model's output has one row of logits a sample. */
static bool one_row(const struct shape *output)
{
    return output->rank == 1;
}

static bool fits_linear(const struct shape *body, const struct shape *output)
{
    (void)body;
    return one_row(output);
}

static bool build_linear(struct copying *copying, size_t body, struct error *error)
{
    if (model_value_shape(copying->copy, body)->rank > 1 &&
        !add(copying, "flatten", NULL, body, &body, error))
        return false;
    return add_linear(copying, body, error);
}

static bool fits_pooled(const struct shape *body, const struct shape *output)
{
    return body->rank == 3 && one_row(output);
}

static bool build_pooled(struct copying *copying, size_t body, struct error *error)
{
    return add(copying, "global_average_pool", NULL, body, &body, error) &&
           add_linear(copying, body, error);
}

static bool fits_projection(const struct shape *body, const struct shape *output)
{
    return body->rank == 2 && output->rank == 2 && body->extent[0] == output->extent[0];
}

static bool build_projection(struct copying *copying, size_t body, struct error *error)
{
    return add(copying, "layer_norm", NULL, body, &body, error) &&
           add_linear(copying, body, error);
}

/* The embedding whose matrix can serve as the output's; SIZE_MAX: none. */
static size_t embedding_of(const struct copying *copying, uint64_t width)
{
    const struct model *copy = copying->copy;
    for (size_t i = 0; i < copy->layer_count; i++)
        if (strcmp(copy->layers[i].kind->name, "embedding") == 0 &&
            copy->layers[i].tensor_count == 1 &&
            copy->layers[i].output_shape.extent[1] == width &&
            copy->layers[i].tensor[0].count ==
                layer_multiply(width, copying->source->classes))
            return i;
    return SIZE_MAX;
}

/* Shares the embedding's matrix. Every update sums its gradients over the chunks. */
static bool build_tied(struct copying *copying, size_t body, struct error *error)
{
    const struct option_value options[] = {
        {"out", (double)copying->source->classes}, {"bias", 0}, {"gain", 1}, {0}};
    uint64_t width = model_value_shape(copying->copy, body)->extent[1];
    size_t embedding = embedding_of(copying, width);
    if (embedding == SIZE_MAX)
        return error_set(error, STATUS_BAD_INPUT,
                         "no embedding of width %llu for %llu classes to share",
                         (unsigned long long)width,
                         (unsigned long long)copying->source->classes);
    return add(copying, "layer_norm", NULL, body, &body, error) &&
           add_tied(copying, "linear", options, body, embedding, NULL, error);
}

/* "auto" takes the first that fits. */
static const struct head_kind heads[] = {
    {"pooled", fits_pooled, build_pooled},
    {"projection", fits_projection, build_projection},
    {"tied_projection", fits_projection, build_tied},
    {"linear", fits_linear, build_linear},
};
enum { HEAD_COUNT = sizeof heads / sizeof heads[0] };

size_t model_head_kind_count(void)
{
    return HEAD_COUNT + 1;
}

const char *model_head_kind_name(size_t index)
{
    if (index == 0)
        return "auto";
    return index <= HEAD_COUNT ? heads[index - 1].name : NULL;
}

static const struct head_kind *choose(const char *kind, const struct model *model,
                                      size_t body, struct error *error)
{
    const struct shape *shape = model_value_shape(model, body);
    const struct shape *output = model_value_shape(model, model_output_value(model));
    bool any = kind == NULL || strcmp(kind, "auto") == 0, known = any;
    for (size_t i = 0; i < HEAD_COUNT; i++) {
        bool named = !any && strcmp(kind, heads[i].name) == 0;
        known = known || named;
        if ((any || named) && heads[i].fits(shape, output))
            return &heads[i];
    }
    char at[64], to[64];
    shape_text(shape, at);
    shape_text(output, to);
    if (!known)
        error_set(error, STATUS_BAD_INPUT, "unknown kind of head \"%.40s\"", kind);
    else
        error_set(error, STATUS_BAD_INPUT, "no %s head leads from %s to the output's %s",
                  any ? "known" : kind, at, to);
    return NULL;
}

static bool copy_layer(struct copying *copying, size_t index, size_t *layer_of,
                       struct error *error)
{
    const struct layer *layer = &copying->source->layers[index];
    struct option_value options[LAYER_MAX_OPTIONS + 1] = {{0}};
    size_t inputs[LAYER_MAX_INPUTS];
    for (size_t i = 0; layer->kind->options[i].name != NULL; i++)
        options[i] = (struct option_value){layer->kind->options[i].name, layer->option[i]};
    for (size_t i = 0; i < layer->input_count; i++)
        inputs[i] = copying->value_of[layer->input[i]];
    layer_of[index] = copying->copy->layer_count;
    size_t tied = layer->tied_to == SIZE_MAX ? SIZE_MAX : layer_of[layer->tied_to];
    if (!model_add(copying->copy, layer->kind->name, layer->name, options, inputs,
                   layer->input_count, tied, &copying->value_of[index + 1], error))
        return false;
    copying->copy->layers[layer_of[index]].identity = layer->identity;
    return true;
}

static bool copy_block(struct copying *copying, size_t index, size_t *layer_of,
                       struct error *error)
{
    const struct block *block = &copying->source->blocks[index];
    copying->block = index;
    if (!model_begin_block(copying->copy, block->name, error))
        return false;
    for (size_t i = block->first_layer; i < block->end_layer; i++)
        if (!copy_layer(copying, i, layer_of, error))
            return false;
    return true;
}

static bool add_head(struct copying *copying, const char *kind, size_t body,
                     struct error *error)
{
    const struct head_kind *head = choose(
        kind, copying->source, copying->source->blocks[copying->block].end_layer, error);
    copying->head_layers = 0;
    return (head != NULL && head->build(copying, body, error)) ||
           error_prefix(error, "head after block \"%s\"",
                        copying->source->blocks[copying->block].name);
}

static bool copy_all(struct copying *copying, size_t *layer_of, const size_t *chunk_end,
                     size_t chunk_count, const char *kind, size_t *head_value,
                     size_t *body_value, struct error *error)
{
    size_t block = 0;
    for (size_t chunk = 0; chunk < chunk_count; chunk++) {
        assert(chunk_end[chunk] > block);
        for (; block < chunk_end[chunk]; block++)
            if (!copy_block(copying, block, layer_of, error))
                return false;
        body_value[chunk] = copying->copy->layer_count;
        if (chunk + 1 < chunk_count && !add_head(copying, kind, body_value[chunk], error))
            return false;
        head_value[chunk] = copying->copy->layer_count;
    }
    assert(block == copying->source->block_count);
    return model_finish(copying->copy, error);
}

struct model *model_with_heads(const struct model *model, const size_t *chunk_end,
                               size_t chunk_count, const char *kind, size_t *head_value,
                               size_t *body_value, struct error *error)
{
    struct copying copying = {.source = model};
    copying.copy = model_create(model->name, &model->input_shape, model->vocabulary, error);
    copying.value_of = checked_calloc(model->layer_count + 1, sizeof *copying.value_of);
    size_t *layer_of = checked_calloc(model->layer_count, sizeof *layer_of);
    bool done = copying.copy != NULL;
    if (done && (copying.value_of == NULL || layer_of == NULL))
        done = error_memory(error, "heads");
    done = done && copy_all(&copying, layer_of, chunk_end, chunk_count, kind, head_value,
                            body_value, error);
    free(copying.value_of);
    free(layer_of);
    if (!done) {
        model_free(copying.copy);
        return NULL;
    }
    return copying.copy;
}
