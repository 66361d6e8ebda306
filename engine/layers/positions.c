/* Adds to place p of a sequence [length, width] what tells it from others: a row that is
 * learned, or the waves of Vaswani et al. 2017 (section 3.5),
 *   even 2i: sin(p / 10000^(2i / width)), odd 2i + 1: the cosine of the same. */
#include "engine/layer.h"

#include "base/checked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEARNED };

static bool describe(struct layer *layer, struct error *error)
{
    const struct shape *in = &layer->input_shape[0];
    if (in->rank != 2)
        return error_set(error, STATUS_BAD_INPUT,
                         "takes a sequence [length, width], not %zu dimensions", in->rank);
    layer->output_shape = *in;
    layer->operation = OPERATION_ELEMENTWISE;
    layer->forward_flops = shape_count(in);
    if (layer->option[LEARNED] != 0) {
        layer->tensor[0] = (struct parameter_tensor){.name = "weight",
                                                     .count = shape_count(in),
                                                     .init = INIT_NORMAL,
                                                     .scale = 0.02,
                                                     .decays = true};
        layer->tensor_count = 1;
        layer->backward_weight_flops = shape_count(in);
    }
    return true;
}

/* The waves' table [length, width]. */
static bool prepare(const struct layer *layer, size_t batch, void **prepared,
                    struct error *error)
{
    (void)batch;
    size_t length = (size_t)layer->output_shape.extent[0];
    size_t width = (size_t)layer->output_shape.extent[1];
    *prepared = NULL;
    if (layer->option[LEARNED] != 0)
        return true;
    scalar *table = checked_calloc_aligned(length * width, sizeof *table);
    if (table == NULL)
        return error_memory(error, "positions");
    for (size_t p = 0; p < length; p++)
        for (size_t j = 0; j < width; j++) {
            double angle = (double)p * pow(10000, -(double)(j / 2 * 2) / (double)width);
            table[p * width + j] = (scalar)(j % 2 == 0 ? sin(angle) : cos(angle));
        }
    *prepared = table;
    return true;
}

static void release(void *prepared)
{
    free(prepared);
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = (size_t)shape_count(&layer->output_shape);
    const scalar *restrict row =
        layer->option[LEARNED] != 0 ? call->parameter[0] : call->prepared;
    for (size_t s = 0; s < call->batch; s++) {
        const scalar *restrict x = call->input[0] + s * count;
        scalar *restrict y = call->output + s * count;
        for (size_t i = 0; i < count; i++)
            y[i] = x[i] + row[i];
    }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = (size_t)shape_count(&layer->output_shape);
    for (size_t s = 0; s < call->batch; s++) {
        const scalar *restrict dy = call->d_output + s * count;
        scalar *restrict dx =
            call->d_input[0] != NULL ? call->d_input[0] + s * count : NULL;
        scalar *restrict d_row = call->d_parameter[0];
        if (dx != NULL && call->accumulate[0])
            for (size_t i = 0; i < count; i++)
                dx[i] += dy[i];
        else if (dx != NULL)
            memcpy(dx, dy, count * sizeof(scalar));
        for (size_t i = 0; d_row != NULL && i < count; i++)
            d_row[i] += dy[i];
    }
}

const struct layer_kind layer_positions = {
    .name = "positions",
    .summary = "positions added to a sequence, learned or sinusoidal",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"learned", false, true, 1, 0, 1}, {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .prepare = prepare,
    .release = release,
};
