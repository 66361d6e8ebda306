/* A model described: layers in topological order, grouped in blocks, nothing allocated
 * but the description. A cut may fall between any two layers; methods cut between
 * blocks. What crosses a cut are the values made before it and used after it. */
#ifndef PODSIM_ENGINE_MODEL_H
#define PODSIM_ENGINE_MODEL_H

#include "base/json.h"
#include "engine/layer.h"

enum { MODEL_MAX_CROSSING = 8, MODEL_MAX_LAYERS = 1 << 16 };

struct block {
    char name[LAYER_NAME_BYTES];
    size_t first_layer, end_layer;
};

struct model {
    char name[LAYER_NAME_BYTES];
    struct shape input_shape;
    uint64_t vocabulary; /* > 0: the input values are token numbers below this */
    uint64_t classes;    /* last extent of the output */
    struct layer *layers;
    size_t layer_count, layer_capacity;
    size_t input_used_until; /* as in struct layer */
    struct block *blocks;
    size_t block_count, block_capacity;
};

struct option_value {
    const char *name; /* NULL ends a list */
    double value;
};

struct model *model_create(const char *name, const struct shape *input, uint64_t vocabulary,
                           struct error *error);
void model_free(struct model *model);
struct model *model_copy(const struct model *model, struct error *error);

/* Starts a block; the layers added next belong to it. */
bool model_begin_block(struct model *model, const char *name, struct error *error);
/* Adds a layer to the last block. inputs are value numbers; input_count 0 means the
 * previous layer's output. A tied layer's tensors must have the sizes of its owner's
 * first ones; a tie to a tied layer becomes one to its owner. The layer's output value number comes back in *value (may be
 * NULL). tied_to: SIZE_MAX or a layer index. options may be NULL. */
bool model_add(struct model *model, const char *kind, const char *name,
               const struct option_value *options, const size_t *inputs, size_t input_count,
               size_t tied_to, size_t *value, struct error *error);
/* Call after the last layer: checks, and sets classes from the output's last extent. */
bool model_finish(struct model *model, struct error *error);

/* A preset by name, an object with "preset" and its parameters, or an object with
 * "input", "blocks" (see docs/models.md). */
struct model *model_read(const struct json_at *at, struct error *error);
size_t model_preset_count(void);
const char *model_preset_name(size_t index);

const struct shape *model_value_shape(const struct model *model, size_t value);
size_t model_output_value(const struct model *model); /* the last layer's */

/* The values made before layer `layer` (the input among them) and used by it or a later
 * one, or being the model's output, in ascending order. */
size_t model_crossing(const struct model *model, size_t layer,
                      size_t values[MODEL_MAX_CROSSING]);
/* Sum of their scalars, per sample. */
uint64_t model_crossing_count(const struct model *model, size_t layer);

/* Of these, the values whose gradient anybody before the cut wants: not token numbers, nor
 * what is made before the first parameters. */
size_t model_gradient_crossing(const struct model *model, size_t layer,
                               size_t values[MODEL_MAX_CROSSING]);
uint64_t model_gradient_crossing_count(const struct model *model, size_t layer);

uint64_t model_parameter_count(const struct model *model);
/* The layer whose parameters a layer uses: itself unless tied. */
size_t model_owner(const struct model *model, size_t layer);
/* The parameters that a run holds: its own, and one copy of each tied layer's whose owner
 * is outside. */
uint64_t model_run_parameter_count(const struct model *model, size_t first, size_t end);
bool model_run_holds(const struct model *model, size_t first, size_t layer);
uint64_t model_state_count(const struct model *model);
uint64_t model_macs(const struct model *model); /* per sample, forward */

/* What a run of layers [first, end) needs, per sample: scalars kept from forward to
 * backward (each value once), and the fixed part per micro-batch. Values that cross in
 * at `first` count when they are kept. */
struct stash_size {
    uint64_t count, fixed_count;
};
struct stash_size model_stash(const struct model *model, size_t first, size_t end);
/* The largest number of scalars per sample that are alive at once during the forward or
 * backward pass of the run and are not stashed (transient values and gradients). What no
 * layer of the run uses after it is made (what crosses out, a head's logits) is alive to
 * the end. The gradients of what crosses in count, except the model input's. */
uint64_t model_transient_count(const struct model *model, size_t first, size_t end);

/* Forward alone, where nothing is kept: what of the run's own values is alive at once.
 * Values that cross in are not counted. */
uint64_t model_forward_transient_count(const struct model *model, size_t first, size_t end);

/* A set of values of one model, small enough for the stack. */
struct value_set {
    uint64_t bits[MODEL_MAX_LAYERS / 64 + 1];
};
bool value_set_has(const struct value_set *set, size_t value);
void value_set_add(struct value_set *set, size_t value);

/* The values of a run that have a gradient. Nobody wants that of a value behind which
 * there are no parameters in the run, unless it crosses in and input_gradient is set;
 * token numbers never have one. */
void model_gradient_values(const struct model *model, size_t first, size_t end,
                           bool input_gradient, struct value_set *wants);
/* Whether backward of the run computes the layer's input gradient: one of its inputs is
 * in that set. */
bool model_backward_wants_input(const struct model *model, size_t first, size_t end,
                                size_t layer, bool input_gradient);
/* The same where that set is at hand. */
bool model_wants_input(const struct model *model, size_t layer, const struct value_set *wants);

/* The values of a run whose gradient backward from these seeds computes, the seeds among
 * them: layer i takes part when value i + 1 is there. */
void model_reached(const struct model *model, size_t first, size_t end, bool input_gradient,
                   const size_t *seeds, size_t seed_count, struct value_set *reached);
/* The values of a run that forward needs for these, themselves among them. */
void model_needed(const struct model *model, size_t first, size_t end, const size_t *values,
                  size_t count, struct value_set *needed);

/* One past the last layer that uses a value; 0: none; SIZE_MAX: the model's output. */
size_t model_used_until(const struct model *model, size_t value);
/* The value is made before `layer` and used by it or a later one, or is the output. */
bool model_crosses(const struct model *model, size_t layer, size_t value);
/* Backward of [first, end) reads the value. */
bool model_keeps(const struct model *model, size_t first, size_t end, size_t value);

/* Local heads: a copy of the model in which an auxiliary classifier follows the last
 * layer of each chunk but the last. chunk_end[i] is the block index after chunk i;
 * chunk_end[chunk_count - 1] == block_count. kind NULL or "auto": chosen by the shape at
 * the cut (linear on vectors, "pooled" linear on images, norm + "projection" on
 * sequences).
 * head_value[i] is the value number of chunk i's logits in the copy, body_value[i] the
 * value that goes on. The head's layers belong to the last block of their chunk. */
struct model *model_with_heads(const struct model *model, const size_t *chunk_end,
                               size_t chunk_count, const char *kind, size_t *head_value,
                               size_t *body_value, struct error *error);

/* The kinds of head, "auto" first. */
size_t model_head_kind_count(void);
const char *model_head_kind_name(size_t index);

#endif
