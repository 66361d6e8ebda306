/* The distinct names of what is drawn, in the order they came, and their colours. An
 * operation has the same colour in every picture. */
#ifndef PODSIM_TRACES_PALETTE_H
#define PODSIM_TRACES_PALETTE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Starts from {0}. The names are borrowed. */
struct palette {
    const char **names;
    size_t count, capacity;
};

bool palette_index(struct palette *palette, const char *name, uint32_t *index,
                   struct error *error);
/* 0xrrggbb */
uint32_t palette_rgb(const struct palette *palette, uint32_t index);
void palette_free(struct palette *palette);

#endif
