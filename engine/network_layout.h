/* Where the numbers of a network lie: arithmetic on offsets, before memory is taken. */
#ifndef PODSIM_ENGINE_NETWORK_LAYOUT_H
#define PODSIM_ENGINE_NETWORK_LAYOUT_H

#include "engine/network.h"

enum place_area { PLACE_NONE, PLACE_SLOT, PLACE_SHARED };

/* Offsets in scalars, multiples of 64 bytes. */
struct value_place {
    enum place_area area;
    size_t offset; /* in the slot's or in the shared area */
    size_t count;  /* scalars of a micro-batch */
    bool crosses_in;
    bool has_gradient;
    bool may_seed; /* its gradient's memory is its own from the start of backward */
    size_t gradient_offset;
};

struct layer_place {
    size_t stash_offset; /* in the slot's area; in the shared area when not training */
    size_t state_offset;
    bool holds;          /* owns parameters of the run, or the copy of an outside owner's */
    size_t first_tensor; /* of the owner's, in tensors[] */
};

struct network_layout {
    struct value_place *values; /* [end_layer + 1], by value number */
    struct layer_place *layers; /* [end_layer - first_layer] */
    struct network_tensor *tensors;
    size_t tensor_count;
    size_t parameter_count, state_count;
    size_t slot_count, shared_count, gradient_count; /* scalars */
    size_t work_count;
};

bool network_layout_make(const struct network_options *options,
                         struct network_layout *layout, struct error *error);
void network_layout_release(struct network_layout *layout);

#endif
