/* What a cut means: the values that cross it, and what a run of layers between two cuts
 * keeps, holds for a while, and computes backward. */
#include "engine/model.h"

#include <string.h>

bool value_set_has(const struct value_set *set, size_t value)
{
    return (set->bits[value / 64] >> (value % 64) & 1) != 0;
}

void value_set_add(struct value_set *set, size_t value)
{
    set->bits[value / 64] |= UINT64_C(1) << (value % 64);
}

static uint64_t value_count(const struct model *model, size_t value)
{
    return shape_count(model_value_shape(model, value));
}

size_t model_used_until(const struct model *model, size_t value)
{
    if (value == model_output_value(model))
        return SIZE_MAX;
    return value == 0 ? model->input_used_until : model->layers[value - 1].used_until;
}

bool model_crosses(const struct model *model, size_t layer, size_t value)
{
    return value <= layer && model_used_until(model, value) > layer;
}

size_t model_crossing(const struct model *model, size_t layer,
                      size_t values[MODEL_MAX_CROSSING])
{
    size_t count = 0;
    for (size_t v = 0; v <= layer && count < MODEL_MAX_CROSSING; v++)
        if (model_crosses(model, layer, v))
            values[count++] = v;
    return count;
}

size_t model_gradient_crossing(const struct model *model, size_t layer,
                               size_t values[MODEL_MAX_CROSSING])
{
    struct value_set wants;
    size_t all = model_crossing(model, layer, values), count = 0;
    model_gradient_values(model, 0, model->layer_count, false, &wants);
    for (size_t i = 0; i < all; i++)
        if (value_set_has(&wants, values[i]))
            values[count++] = values[i];
    return count;
}

static uint64_t sum_of(const struct model *model, const size_t *values, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += value_count(model, values[i]);
    return sum;
}

uint64_t model_crossing_count(const struct model *model, size_t layer)
{
    size_t values[MODEL_MAX_CROSSING];
    size_t count = model_crossing(model, layer, values);
    return sum_of(model, values, count);
}

uint64_t model_gradient_crossing_count(const struct model *model, size_t layer)
{
    size_t values[MODEL_MAX_CROSSING];
    size_t count = model_gradient_crossing(model, layer, values);
    return sum_of(model, values, count);
}

static bool is_input(const struct layer *layer, size_t value, bool kept)
{
    for (size_t k = 0; k < layer->input_count; k++)
        if (layer->input[k] == value && (!kept || layer->keeps_input[k]))
            return true;
    return false;
}

bool model_keeps(const struct model *model, size_t first, size_t end, size_t value)
{
    if (value > first && value <= end && model->layers[value - 1].keeps_output)
        return true;
    size_t until = model_used_until(model, value);
    size_t last = until < end ? until : end;
    for (size_t i = value > first ? value : first; i < last; i++)
        if (is_input(&model->layers[i], value, true))
            return true;
    return false;
}

/* Values that the run holds at some time: those that cross in, and those it makes. */
static bool holds_value(const struct model *model, size_t first, size_t value)
{
    return value > first || model_crosses(model, first, value);
}

struct stash_size model_stash(const struct model *model, size_t first, size_t end)
{
    struct stash_size size = {0, 0};
    for (size_t v = 0; v <= end; v++)
        if (holds_value(model, first, v) && model_keeps(model, first, end, v))
            size.count += value_count(model, v);
    for (size_t i = first; i < end; i++) {
        size.count += model->layers[i].stash_count;
        size.fixed_count += model->layers[i].stash_fixed_count;
    }
    return size;
}

void model_gradient_values(const struct model *model, size_t first, size_t end,
                           bool input_gradient, struct value_set *wants)
{
    memset(wants, 0, sizeof *wants);
    for (size_t v = 0; v <= first && input_gradient; v++)
        if (model_crosses(model, first, v) && !(v == 0 && model->vocabulary > 0))
            value_set_add(wants, v);
    for (size_t i = first; i < end; i++) {
        const struct layer *layer = &model->layers[i];
        bool wanted = layer->tensor_count > 0;
        for (size_t k = 0; k < layer->input_count && !wanted; k++)
            wanted = value_set_has(wants, layer->input[k]);
        if (wanted)
            value_set_add(wants, i + 1);
    }
}

bool model_wants_input(const struct model *model, size_t layer, const struct value_set *wants)
{
    for (size_t k = 0; k < model->layers[layer].input_count; k++)
        if (value_set_has(wants, model->layers[layer].input[k]))
            return true;
    return false;
}

bool model_backward_wants_input(const struct model *model, size_t first, size_t end,
                                size_t layer, bool input_gradient)
{
    struct value_set wants;
    model_gradient_values(model, first, end, input_gradient, &wants);
    return model_wants_input(model, layer, &wants);
}

/* The layer after which the value may go: its last user in the run; SIZE_MAX when it
 * stays to the end of the run. */
static size_t last_user(const struct model *model, size_t end, size_t value)
{
    size_t until = model_used_until(model, value);
    return until == 0 || until > end ? SIZE_MAX : until - 1;
}

/* Scalars of the layer's different inputs, among `values` (NULL: among those that are not
 * kept), whose last user it is. */
static uint64_t ending_inputs(const struct model *model, size_t first, size_t end,
                              size_t index, const struct value_set *values)
{
    const struct layer *layer = &model->layers[index];
    uint64_t sum = 0;
    for (size_t k = 0; k < layer->input_count; k++) {
        size_t v = layer->input[k];
        bool again = false;
        for (size_t j = 0; j < k; j++)
            again = again || layer->input[j] == v;
        if (again || last_user(model, end, v) != index)
            continue;
        if (values != NULL ? value_set_has(values, v) : !model_keeps(model, first, end, v))
            sum += value_count(model, v);
    }
    return sum;
}

static uint64_t forward_peak(const struct model *model, size_t first, size_t end)
{
    uint64_t alive = 0, peak;
    for (size_t v = 0; v <= first; v++)
        if (model_crosses(model, first, v) && !model_keeps(model, first, end, v))
            alive += value_count(model, v);
    peak = alive;
    for (size_t i = first; i < end; i++) {
        if (!model_keeps(model, first, end, i + 1))
            alive += value_count(model, i + 1);
        peak = alive > peak ? alive : peak;
        alive -= ending_inputs(model, first, end, i, NULL);
    }
    return peak;
}

/* A gradient lives from its value's last user, or from the start when it comes from
 * outside, to its value's maker. */
static uint64_t backward_peak(const struct model *model, size_t first, size_t end)
{
    struct value_set wants;
    model_gradient_values(model, first, end, first > 0, &wants);
    uint64_t alive = 0, peak;
    for (size_t v = 0; v <= end; v++)
        if (value_set_has(&wants, v) && last_user(model, end, v) == SIZE_MAX)
            alive += value_count(model, v);
    peak = alive;
    for (size_t i = end; i-- > first;) {
        alive += ending_inputs(model, first, end, i, &wants);
        peak = alive > peak ? alive : peak;
        if (value_set_has(&wants, i + 1))
            alive -= value_count(model, i + 1);
    }
    return peak;
}

uint64_t model_transient_count(const struct model *model, size_t first, size_t end)
{
    uint64_t forward = forward_peak(model, first, end);
    uint64_t backward = backward_peak(model, first, end);
    return forward > backward ? forward : backward;
}

uint64_t model_forward_transient_count(const struct model *model, size_t first, size_t end)
{
    uint64_t alive = 0, peak = 0;
    struct value_set made = {{0}};
    for (size_t i = first; i < end; i++) {
        value_set_add(&made, i + 1);
        alive += value_count(model, i + 1);
        peak = alive > peak ? alive : peak;
        alive -= ending_inputs(model, first, end, i, &made);
    }
    return peak;
}

void model_reached(const struct model *model, size_t first, size_t end, bool input_gradient,
                   const size_t *seeds, size_t seed_count, struct value_set *reached)
{
    struct value_set wants;
    model_gradient_values(model, first, end, input_gradient, &wants);
    memset(reached, 0, sizeof *reached);
    for (size_t i = 0; i < seed_count; i++)
        if (value_set_has(&wants, seeds[i]))
            value_set_add(reached, seeds[i]);
    for (size_t i = end; i-- > first;) {
        const struct layer *layer = &model->layers[i];
        for (size_t k = 0; value_set_has(reached, i + 1) && k < layer->input_count; k++)
            if (value_set_has(&wants, layer->input[k]))
                value_set_add(reached, layer->input[k]);
    }
}

void model_needed(const struct model *model, size_t first, size_t end, const size_t *values,
                  size_t count, struct value_set *needed)
{
    memset(needed, 0, sizeof *needed);
    for (size_t i = 0; i < count; i++)
        value_set_add(needed, values[i]);
    for (size_t i = end; i-- > first;)
        for (size_t k = 0; value_set_has(needed, i + 1) && k < model->layers[i].input_count; k++)
            value_set_add(needed, model->layers[i].input[k]);
}
