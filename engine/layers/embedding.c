/* A row of a table for each token number: W [vocabulary, width]; with the option "scaled"
 * times sqrt(width) (Vaswani et al. 2017, section 3.4). Rows start normal with standard
 * deviation gain / sqrt(width): a linear layer tied to the table then starts like one of
 * that gain. A number that is no token gives a row of NaN. */
#include "engine/layer.h"

#include <math.h>
#include <string.h>

enum { VOCABULARY, WIDTH, SCALED, GAIN };

static bool describe(struct layer *layer, struct error *error)
{
    const struct shape *in = &layer->input_shape[0];
    uint64_t tokens = shape_count(in), width = layer_size(layer, WIDTH);
    if (in->rank == SHAPE_MAX_RANK)
        return error_set(error, STATUS_BAD_INPUT, "embeds at most %d dimensions",
                         SHAPE_MAX_RANK - 1);
    layer->output_shape = *in;
    layer->output_shape.extent[layer->output_shape.rank++] = width;
    layer->operation = OPERATION_MEMORY;
    layer->tensor[0] = (struct parameter_tensor){
        .name = "weight",
        .count = layer_multiply(layer_size(layer, VOCABULARY), width),
        .init = INIT_NORMAL,
        .scale = layer->option[GAIN] / sqrt((double)width),
        .decays = true};
    layer->tensor_count = 1;
    layer->keeps_input[0] = true;
    uint64_t count = layer_multiply(tokens, width);
    bool scaled = layer->option[SCALED] != 0;
    layer->forward_flops = scaled ? count : 0;
    layer->backward_weight_flops = scaled ? layer_multiply(2, count) : count;
    return true;
}

struct rows {
    size_t count, width, vocabulary;
    scalar factor;
};

static struct rows rows_of(const struct layer *layer, size_t batch)
{
    size_t width = (size_t)layer_size(layer, WIDTH);
    return (struct rows){batch * (size_t)shape_count(&layer->input_shape[0]), width,
                         (size_t)layer_size(layer, VOCABULARY),
                         layer->option[SCALED] != 0 ? scalar_sqrt((scalar)width) : 1};
}

static bool is_token(scalar value, const struct rows *rows)
{
    return value >= 0 && value < (scalar)rows->vocabulary;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct rows rows = rows_of(layer, call->batch);
    for (size_t r = 0; r < rows.count; r++) {
        scalar *restrict y = call->output + r * rows.width;
        if (!is_token(call->input[0][r], &rows)) {
            for (size_t j = 0; j < rows.width; j++)
                y[j] = (scalar)NAN;
            continue;
        }
        const scalar *restrict row =
            call->parameter[0] + (size_t)call->input[0][r] * rows.width;
        for (size_t j = 0; j < rows.width; j++)
            y[j] = rows.factor * row[j];
    }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct rows rows = rows_of(layer, call->batch);
    if (call->d_input[0] != NULL && !call->accumulate[0])
        memset(call->d_input[0], 0, rows.count * sizeof(scalar));
    for (size_t r = 0; r < rows.count && call->d_parameter[0] != NULL; r++) {
        const scalar *restrict dy = call->d_output + r * rows.width;
        if (!is_token(call->input[0][r], &rows))
            continue;
        scalar *restrict d_row =
            call->d_parameter[0] + (size_t)call->input[0][r] * rows.width;
        for (size_t j = 0; j < rows.width; j++)
            d_row[j] += rows.factor * dy[j];
    }
}

const struct layer_kind layer_embedding = {
    .name = "embedding",
    .summary = "a row of a table for each token number",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"vocabulary", true, true, 0, 1, 1 << 24},
                {"width", true, true, 0, 1, 1 << 30},
                {"scaled", false, true, 0, 0, 1},
                {"gain", false, false, 1, 0, 1000},
                {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
