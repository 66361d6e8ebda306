/* A layer kind: how it is described (shapes, parameters, FLOPs, what backward needs)
 * and how it computes. One kind is one file in engine/layers/ and one line in the table
 * of engine/layer.c. Nothing here allocates.
 *
 * A model is a graph in topological order. Values are numbered: 0 is the model's input,
 * i + 1 is the output of layer i. All counts are scalars, per sample unless said. */
#ifndef PODSIM_ENGINE_LAYER_H
#define PODSIM_ENGINE_LAYER_H

#include "base/error.h"
#include "engine/scalar.h"

#include <stddef.h>
#include <stdint.h>

enum {
    SHAPE_MAX_RANK = 4,
    LAYER_MAX_INPUTS = 3,
    LAYER_MAX_OPTIONS = 8,
    LAYER_MAX_TENSORS = 8,
    LAYER_NAME_BYTES = 48
};

/* Scalars of one value or one tensor, and FLOPs of one layer, per sample. With at most
 * MODEL_MAX_LAYERS of them no sum over a model overflows. */
#define LAYER_MAX_COUNT (UINT64_C(1) << 40)
#define LAYER_MAX_FLOPS (UINT64_C(1) << 60)

/* The shape of one sample: [features], [channels, height, width], [length, width]. */
struct shape {
    size_t rank;
    uint64_t extent[SHAPE_MAX_RANK];
};

/* What a processor model distinguishes when it turns FLOPs into seconds. */
enum operation_class {
    OPERATION_MATMUL,
    OPERATION_CONVOLUTION,
    OPERATION_NORMALIZATION,
    OPERATION_ELEMENTWISE,
    OPERATION_MEMORY, /* pooling, gathers, copies: bytes matter, not FLOPs */
    OPERATION_OPTIMIZER,
    OPERATION_CLASSES
};

enum layer_init {
    INIT_ZERO,
    INIT_ONE,
    INIT_UNIFORM, /* in [-scale, scale] */
    INIT_NORMAL   /* standard deviation = scale */
};

struct parameter_tensor {
    const char *name;
    uint64_t count;
    enum layer_init init;
    double scale;
    bool decays; /* weight decay applies: true for weights, false for biases and norms */
};

struct layer_option {
    const char *name; /* as in JSON; NULL ends the list */
    bool required;
    bool integer;
    double fallback; /* when absent and not required */
    double minimum, maximum;
};

struct layer_kind;

struct layer {
    const struct layer_kind *kind;
    char name[LAYER_NAME_BYTES]; /* unique in its model */
    /* Keys the random numbers of this layer. Equal for the same layer whichever way the
     * model is cut and whichever heads are inserted around it. */
    uint32_t identity;
    double option[LAYER_MAX_OPTIONS]; /* in the order of kind->options */
    size_t input_count;
    size_t input[LAYER_MAX_INPUTS]; /* value numbers, each <= this layer's index */
    struct shape input_shape[LAYER_MAX_INPUTS];
    size_t tied_to; /* index of the layer whose parameters this one uses; SIZE_MAX: own */
    size_t used_until; /* one past the last layer that uses the output; 0: none */

    /* Filled by kind->describe from the fields above. */
    struct shape output_shape;
    enum operation_class operation;
    size_t tensor_count;
    struct parameter_tensor tensor[LAYER_MAX_TENSORS];
    uint64_t state_count;          /* not trained, not per sample: running statistics */
    bool keeps_input[LAYER_MAX_INPUTS]; /* backward reads this input */
    bool keeps_output;             /* backward reads the output */
    uint64_t stash_count;          /* further scalars kept for backward, per sample */
    uint64_t stash_fixed_count;    /* the same, per micro-batch */
    uint64_t forward_flops;        /* a multiply-add is two */
    uint64_t backward_input_flops; /* gradient of the inputs */
    uint64_t backward_weight_flops;
    uint64_t macs; /* multiply-adds of the forward pass as the field counts them */
};

/* One call of forward or backward for a micro-batch. Arrays of values are
 * [batch, extent...], row major. Pointers not needed by the kind may be NULL. */
struct layer_call {
    size_t batch;
    bool training;
    const scalar *input[LAYER_MAX_INPUTS];
    scalar *output; /* forward: written; backward: read when keeps_output */
    const scalar *d_output;
    /* Backward: NULL when that gradient is not wanted; added to when accumulate, else
     * overwritten. */
    scalar *d_input[LAYER_MAX_INPUTS];
    bool accumulate[LAYER_MAX_INPUTS];
    scalar *parameter[LAYER_MAX_TENSORS];
    scalar *d_parameter[LAYER_MAX_TENSORS]; /* always added to; NULL: not wanted */
    scalar *state;    /* NULL: a recomputation, which must not count a second time */
    scalar *stash;    /* batch * stash_count + stash_fixed_count, from forward to backward */
    scalar *work;     /* kind->work_count scalars, nothing kept between calls */
    void *prepared;   /* what kind->prepare returned */
    uint64_t seed;    /* random numbers: with `identity`, step and sample */
    uint64_t step;
    uint64_t first_sample; /* number, within the step's batch, of this call's first sample */
    uint32_t identity;
};

struct layer_kind {
    const char *name;
    const char *summary; /* one line for help texts */
    size_t min_inputs, max_inputs;
    struct layer_option options[LAYER_MAX_OPTIONS + 1];
    /* Checks options and input shapes and fills the described fields. The message is
     * about the layer alone; the caller adds where. */
    bool (*describe)(struct layer *layer, struct error *error);
    /* Backward gets only those inputs and outputs that are kept; others are NULL. Either
     * kind of gradient may be asked for alone, in two calls, with the same result.
     * Inputs that are one and the same value have the same d_input, the second with
     * accumulate: treat them one after the other. */
    void (*forward)(const struct layer *layer, const struct layer_call *call);
    void (*backward)(const struct layer *layer, const struct layer_call *call);
    /* Optional. Scratch of this implementation, in scalars, for a micro-batch. */
    uint64_t (*work_count)(const struct layer *layer, size_t batch);
    /* Optional. Library objects for one (layer, batch); false on failure. */
    bool (*prepare)(const struct layer *layer, size_t batch, void **prepared,
                    struct error *error);
    void (*release)(void *prepared);
    /* Optional. Sets the state at the start; without it the state is zero. */
    void (*init_state)(const struct layer *layer, scalar *state);
};

const struct layer_kind *layer_kind_find(const char *name); /* NULL: unknown */
size_t layer_kind_count(void);
const struct layer_kind *layer_kind_get(size_t index);
const char *operation_class_name(enum operation_class operation);

/* Checks inputs and options, calls kind->describe, and checks what it filled in. */
bool layer_describe(struct layer *layer, struct error *error);

/* Products and sums that stop at UINT64_MAX, for describe: layer_describe refuses what
 * came out too large. */
static inline uint64_t layer_multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline uint64_t layer_sum(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Product of the extents; UINT64_MAX when it does not fit. */
uint64_t shape_count(const struct shape *shape);
bool shape_equal(const struct shape *a, const struct shape *b);
/* "64x56x56" into text. */
void shape_text(const struct shape *shape, char text[64]);

/* Option by its place in kind->options. */
static inline uint64_t layer_size(const struct layer *layer, size_t option)
{
    return (uint64_t)layer->option[option];
}

/* Parameters this layer owns (0 when tied). */
uint64_t layer_parameter_count(const struct layer *layer);

#endif
