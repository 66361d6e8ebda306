/* A run of a model's layers with real numbers: parameters, gradients, and stash slots
 * for the micro-batches in flight. All memory is taken at creation. */
#ifndef PODSIM_ENGINE_NETWORK_H
#define PODSIM_ENGINE_NETWORK_H

#include "engine/model.h"
#include "engine/rounding.h"

struct network;

struct network_options {
    const struct model *model; /* borrowed; must outlive the network */
    size_t first_layer, end_layer;
    size_t batch;         /* samples of a micro-batch */
    size_t slots;         /* micro-batches whose stash is held at once, >= 1 */
    bool input_gradient;  /* gradients of the values that cross in are wanted */
    bool training;        /* false: forward only, no gradients, no stash */
    bool split_backward;  /* BACKWARD_INPUT and BACKWARD_WEIGHT will be called apart */
    bool block_inputs;    /* what a block hands to later ones stays, so that each of them
                           * can be recomputed alone */
    uint64_t seed;        /* initial weights and dropout */
    const struct rounding *activations; /* every output is rounded to it; NULL: none */
};

enum backward_pass { BACKWARD_ALL, BACKWARD_INPUT, BACKWARD_WEIGHT };

struct network *network_create(const struct network_options *options, struct error *error);
void network_free(struct network *network);

/* A value of a slot: [batch, extent...]. Values that cross in are written by the caller
 * before forward. Values that cross in or out, that no layer of the run uses (a head's
 * logits) or that are kept for backward may be read until the slot is reused; all others
 * until the next forward of any slot. */
scalar *network_value(struct network *network, size_t slot, size_t value);
/* The gradient of a value, NULL when none is computed (model_gradient_values). Shared by
 * all slots unless split_backward. Before backward the caller fills those it names as
 * seeds; after it, those of crossing-in values hold the gradients to send back. Those of
 * other values are not for reading: their memory is used several times. */
scalar *network_gradient(struct network *network, size_t slot, size_t value);

/* step and first_sample key the random numbers of dropout. */
void network_forward(struct network *network, size_t slot, uint64_t step,
                     uint64_t first_sample);
/* Forward again, to make the stash anew: the same numbers, and no second contribution to
 * running statistics. */
void network_recompute(struct network *network, size_t slot, uint64_t step,
                       uint64_t first_sample);
/* The same for layers [first, end) of the run alone; what comes before them has been done.
 * again: recomputation. */
void network_forward_layers(struct network *network, size_t slot, uint64_t step,
                            uint64_t first_sample, size_t first, size_t end, bool again);
/* Parameter gradients are added to network_parameter_gradients(). seeds: values whose
 * gradient the caller has filled; they must cross out of the run or be used by no layer
 * of it. Layers that no seed reaches are left out, and crossing-in values that none
 * reaches get zero gradients. BACKWARD_WEIGHT follows BACKWARD_INPUT of the same slot,
 * with the same seeds. */
void network_backward(struct network *network, size_t slot, enum backward_pass pass,
                      const size_t *seeds, size_t seed_count);
/* The same in pieces [first, end) from the run's last layers to its first ones, each with
 * the same seeds. Between two, the gradient of a value that the first piece has computed
 * may be read and changed before its layer's turn. */
void network_backward_layers(struct network *network, size_t slot, enum backward_pass pass,
                             const size_t *seeds, size_t seed_count, size_t first,
                             size_t end);

/* All parameters of the run, one array, tensor after tensor in layer order; tied layers
 * whose owner is in the run add nothing, those whose owner is outside hold a copy of
 * their own at their place. */
scalar *network_parameters(struct network *network, size_t *count);
/* From now on forward and backward read another array of parameters, laid out alike, for
 * as long as it lives; NULL: the network's own again. All else still means its own. */
void network_use_parameters(struct network *network, scalar *parameters);
scalar *network_parameter_gradients(struct network *network);
void network_zero_gradients(struct network *network);
scalar *network_state(struct network *network, size_t *count);

struct network_tensor {
    size_t layer, tensor; /* index in the model, index in the layer */
    size_t offset, count; /* in network_parameters() */
    bool decays;
};
const struct network_tensor *network_tensors(const struct network *network, size_t *count);

/* Copies parameters and state of the layers that both hold (matched by layer identity),
 * from one network to another, whatever their cuts. */
void network_copy_weights(struct network *to, const struct network *from);

#endif
