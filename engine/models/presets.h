/* Model presets. A preset is one file in engine/models/, which defines
 * `const struct model_preset model_preset_NAME`, and one line in the table of
 * engine/model_json.c. */
#ifndef PODSIM_ENGINE_MODELS_PRESETS_H
#define PODSIM_ENGINE_MODELS_PRESETS_H

#include "engine/model.h"

struct model_preset {
    const char *name;
    const char *summary;       /* one line for help texts */
    const char *const *keys;   /* of its object, besides "preset" */
    size_t key_count;
    /* `at` is an object whose keys were checked; an empty one asks for the defaults. The
     * model comes back finished. */
    struct model *(*build)(const struct json_at *at, struct error *error);
};

/* NULL: unknown. */
const struct model_preset *model_preset_find(const char *name);

/* A model written down layer by layer (engine/model_blocks.c). */
struct model *model_read_blocks(const struct json_at *at, struct error *error);

/* A shape under `key`: a list of 1 to SHAPE_MAX_RANK extents. *shape holds the default,
 * which is written into the tree when the key is absent. */
bool model_read_shape(const struct json_at *object, const char *key, struct shape *shape,
                      struct error *error);

#endif
