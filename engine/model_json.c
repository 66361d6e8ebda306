/* Models from JSON: presets, and models written down layer by layer. */
#include "engine/models/presets.h"

#include <stdlib.h>
#include <string.h>

/* The table: one line a preset, whose file defines model_preset_NAME. */
#define MODEL_PRESETS(X) X(mlp)

#define DECLARE(name) extern const struct model_preset model_preset_##name;
#define ENTRY(name) &model_preset_##name,
MODEL_PRESETS(DECLARE)
static const struct model_preset *const presets[] = {MODEL_PRESETS(ENTRY)};

enum { PRESET_COUNT = sizeof(presets) / sizeof(presets[0]) };

size_t model_preset_count(void)
{
    return PRESET_COUNT;
}

const char *model_preset_name(size_t index)
{
    return index < PRESET_COUNT ? presets[index]->name : NULL;
}
