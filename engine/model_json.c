/* Models from JSON: presets, and models written down layer by layer. */
#include "engine/json_name.h"
#include "engine/models/presets.h"

#include <stdlib.h>
#include <string.h>

/* The table: one line a preset, whose file defines model_preset_NAME. */
#define MODEL_PRESETS(X)                                                                   \
    X(mlp)                                                                                 \
    X(transformer_lm)                                                                      \
    X(transformer)                                                                         \
    X(resnet18)                                                                            \
    X(resnet34)                                                                            \
    X(resnet50)                                                                            \
    X(resnet101)                                                                           \
    X(resnext101_32x8d)

#define DECLARE(name) extern const struct model_preset model_preset_##name;
#define ENTRY(name) &model_preset_##name,
MODEL_PRESETS(DECLARE)
static const struct model_preset *const presets[] = {MODEL_PRESETS(ENTRY)};

enum { PRESET_COUNT = sizeof(presets) / sizeof(presets[0]) };

size_t model_preset_count(void)
{
    return PRESET_COUNT;
}

const struct model_preset *model_preset_find(const char *name)
{
    for (size_t i = 0; i < PRESET_COUNT; i++)
        if (strcmp(presets[i]->name, name) == 0)
            return presets[i];
    return NULL;
}

const char *model_preset_name(size_t index)
{
    return index < PRESET_COUNT ? presets[index]->name : NULL;
}

bool model_read_shape(const struct json_at *object, const char *key, struct shape *shape,
                      struct error *error)
{
    struct json_at list, extent;
    if (!json_optional(object, key, &list)) {
        double extents[SHAPE_MAX_RANK];
        for (size_t i = 0; i < shape->rank; i++)
            extents[i] = (double)shape->extent[i];
        cJSON *node = cJSON_CreateDoubleArray(extents, (int)shape->rank);
        if (node == NULL || !cJSON_AddItemToObject(object->node, key, node)) {
            cJSON_Delete(node);
            return error_memory(error, "JSON default");
        }
        return true;
    }
    shape->rank = json_length(&list);
    if (!json_is_array(&list) || shape->rank == 0 || shape->rank > SHAPE_MAX_RANK)
        return json_fail(&list, error, "must be a list of 1 to %d sizes", SHAPE_MAX_RANK);
    for (size_t i = 0; i < shape->rank; i++)
        if (!json_element(&list, i, &extent) ||
            !json_u64(&extent, 1, LAYER_MAX_COUNT, &shape->extent[i], error))
            return false;
    return shape_count(shape) <= LAYER_MAX_COUNT ||
           json_fail(&list, error, "describes more than 2^40 numbers");
}

static struct model *read_preset(const struct json_at *at, const struct json_at *preset,
                                 struct error *error)
{
    const char *names[PRESET_COUNT];
    const char *keys[64] = {"preset"};
    size_t chosen;
    for (size_t i = 0; i < PRESET_COUNT; i++)
        names[i] = presets[i]->name;
    if (!json_choice(preset, names, PRESET_COUNT, &chosen, error))
        return NULL;
    const struct model_preset *kind = presets[chosen];
    size_t count = 1;
    for (size_t i = 0; i < kind->key_count && count < sizeof keys / sizeof keys[0]; i++)
        keys[count++] = kind->keys[i];
    if (!json_keys(at, keys, count, error))
        return NULL;
    struct model *model = kind->build(at, error);
    /* What the model's own functions refuse comes without a place in the file. */
    const char *file = json_file_name(at->file);
    if (model == NULL && strncmp(error->message, file, strlen(file)) != 0) {
        struct error inner = *error;
        json_fail(at, error, "%s", inner.message);
        error->status = inner.status;
    }
    return model;
}

struct model *model_read(const struct json_at *at, struct error *error)
{
    struct json_at preset;
    if (!json_name_expand(at, "preset", error))
        return NULL;
    if (json_optional(at, "preset", &preset))
        return read_preset(at, &preset, error);
    if (json_is_object(at))
        return model_read_blocks(at, error);
    json_fail(at, error,
              "must be a preset's name, or an object with \"preset\" or with "
              "\"input\" and \"blocks\"");
    return NULL;
}
