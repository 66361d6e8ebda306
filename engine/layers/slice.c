/* `count` places of the first dimension, from place `first` on; a copy. */
#include "engine/layer.h"

#include <string.h>

enum { FIRST, COUNT };

static bool describe(struct layer *layer, struct error *error)
{
    uint64_t extent = layer->input_shape[0].extent[0];
    uint64_t first = layer_size(layer, FIRST), count = layer_size(layer, COUNT);
    if (first >= extent || count > extent - first)
        return error_set(error, STATUS_BAD_INPUT,
                         "takes %llu places from place %llu of %llu",
                         (unsigned long long)count, (unsigned long long)first,
                         (unsigned long long)extent);
    layer->output_shape = layer->input_shape[0];
    layer->output_shape.extent[0] = count;
    layer->operation = OPERATION_MEMORY;
    return true;
}

struct piece {
    size_t whole, before, length; /* scalars of a sample */
};

static struct piece piece_of(const struct layer *layer)
{
    size_t whole = (size_t)shape_count(&layer->input_shape[0]);
    size_t place = whole / (size_t)layer->input_shape[0].extent[0];
    return (struct piece){whole, place * (size_t)layer_size(layer, FIRST),
                          place * (size_t)layer_size(layer, COUNT)};
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct piece piece = piece_of(layer);
    for (size_t s = 0; s < call->batch; s++)
        memcpy(call->output + s * piece.length,
               call->input[0] + s * piece.whole + piece.before,
               piece.length * sizeof(scalar));
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct piece piece = piece_of(layer);
    if (call->d_input[0] == NULL)
        return;
    if (!call->accumulate[0])
        memset(call->d_input[0], 0, call->batch * piece.whole * sizeof(scalar));
    for (size_t s = 0; s < call->batch; s++) {
        const scalar *restrict dy = call->d_output + s * piece.length;
        scalar *restrict dx = call->d_input[0] + s * piece.whole + piece.before;
        for (size_t i = 0; i < piece.length; i++)
            dx[i] += dy[i];
    }
}

const struct layer_kind layer_slice = {
    .name = "slice",
    .summary = "a range of the first dimension",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"first", false, true, 0, 0, (double)LAYER_MAX_COUNT},
                {"count", true, true, 0, 1, (double)LAYER_MAX_COUNT},
                {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
