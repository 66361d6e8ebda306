#include "traces/palette.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t rgb;
} known[] = {
    {"load", 0xb0b0b0},
    {"forward", 0x4c78a8},
    {"recompute", 0x9ecae9},
    {"loss", 0xb279a2},
    {"backward", 0xf58518},
    {"backward input", 0xf58518},
    {"backward weight", 0xffbf79},
    {"send", 0xd8c59a},
    {"receive", 0xbab0ac},
    {"all-reduce", 0xe45756},
    {"update", 0x54a24b},
    {"transfer", 0x72b7b2},
    {"activations", 0x72b7b2},
    {"gradients", 0xeeca3b},
    {"predictions", 0xff9da6},
};

/* For names not in the table, by the order in which they came. */
static const uint32_t others[] = {0x9d755d, 0x88d27a, 0x439894, 0xd6a5c9, 0x7f7f7f};

bool palette_index(struct palette *palette, const char *name, uint32_t *index,
                   struct error *error)
{
    for (size_t i = 0; i < palette->count; i++)
        if (palette->names[i] == name || strcmp(palette->names[i], name) == 0) {
            *index = (uint32_t)i;
            return true;
        }
    if (palette->count >= UINT32_MAX ||
        !checked_grow((void **)&palette->names, &palette->capacity, palette->count + 1,
                      sizeof(palette->names[0])))
        return error_memory(error, "the names in a picture");
    *index = (uint32_t)palette->count;
    palette->names[palette->count++] = name;
    return true;
}

uint32_t palette_rgb(const struct palette *palette, uint32_t index)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, palette->names[index]) == 0)
            return known[i].rgb;
    return others[index % (sizeof(others) / sizeof(others[0]))];
}

void palette_free(struct palette *palette)
{
    free(palette->names);
    *palette = (struct palette){0};
}
