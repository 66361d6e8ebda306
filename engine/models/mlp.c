/* A multi-layer perceptron: a block of linear and relu per hidden layer, and one for the
 * classifier. */
#include "engine/models/presets.h"

#include <stdio.h>

static bool add_layers(struct model *model, uint64_t hidden, uint64_t depth,
                       uint64_t classes, struct error *error)
{
    const struct option_value wide[] = {{"out", (double)hidden}, {0}};
    const struct option_value last[] = {{"out", (double)classes}, {"gain", 1}, {0}};
    char name[LAYER_NAME_BYTES];
    for (uint64_t i = 0; i <= depth; i++) {
        snprintf(name, sizeof name, i < depth ? "hidden%llu" : "classifier",
                 (unsigned long long)i);
        if (!model_begin_block(model, name, error))
            return false;
        if (i == 0 && model->input_shape.rank > 1 &&
            !model_add(model, "flatten", "flatten", NULL, NULL, 0, SIZE_MAX, NULL, error))
            return false;
        snprintf(name, sizeof name, i < depth ? "hidden%llu.linear" : "classifier.linear",
                 (unsigned long long)i);
        if (!model_add(model, "linear", name, i < depth ? wide : last, NULL, 0, SIZE_MAX,
                       NULL, error))
            return false;
        snprintf(name, sizeof name, "hidden%llu.relu", (unsigned long long)i);
        if (i < depth &&
            !model_add(model, "relu", name, NULL, NULL, 0, SIZE_MAX, NULL, error))
            return false;
    }
    return model_finish(model, error);
}

static struct model *build(const struct json_at *at, struct error *error)
{
    struct shape input = {3, {1, 28, 28}};
    uint64_t hidden = 256, depth = 8, classes = 10;
    if (!model_read_shape(at, "input", &input, error) ||
        !json_read_u64(at, "hidden", 1, 1 << 24, &hidden, error) ||
        !json_read_u64(at, "depth", 0, 10000, &depth, error) ||
        !json_read_u64(at, "classes", 1, 1 << 24, &classes, error))
        return NULL;
    struct model *model = model_create("mlp", &input, 0, error);
    if (model != NULL && !add_layers(model, hidden, depth, classes, error)) {
        model_free(model);
        return NULL;
    }
    return model;
}

static const char *const keys[] = {"input", "hidden", "depth", "classes"};

const struct model_preset model_preset_mlp = {
    .name = "mlp",
    .summary = "multi-layer perceptron; a block per hidden layer",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .build = build,
};
