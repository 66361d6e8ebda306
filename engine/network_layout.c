#include "engine/network_layout.h"

#include "base/checked.h"

#include <stdlib.h>

/* The matrix library counts in 32-bit integers. */
static const uint64_t max_scalars = INT32_MAX;

static bool too_large(const char *name, struct error *error)
{
    return error_set(error, STATUS_HOST,
                     "%s: too large to be computed here (over 2^31 numbers in one array); "
                     "only its cost can be simulated",
                     name);
}

static size_t padded(size_t count)
{
    const size_t line = 64 / sizeof(scalar);
    return (count + line - 1) / line * line;
}

static size_t take(size_t *area, size_t count)
{
    size_t offset = *area;
    *area += padded(count);
    return offset;
}

static const char *value_name(const struct model *model, size_t value)
{
    return value == 0 ? "the model's input" : model->layers[value - 1].name;
}

/* Nobody in the run uses the value last: it goes out, or waits for a loss. */
static bool stays(const struct model *model, size_t end, size_t value)
{
    size_t until = model_used_until(model, value);
    return until == 0 || until > end;
}

/* A later block of the run starts from the value, which a block of it makes. */
static bool goes_on(const struct network_options *options, size_t value)
{
    const struct model *model = options->model;
    for (size_t b = 0; options->block_inputs && b < model->block_count; b++) {
        size_t until = model_used_until(model, value);
        if (value > model->blocks[b].first_layer && value <= model->blocks[b].end_layer)
            return until != SIZE_MAX && until > model->blocks[b].end_layer;
    }
    return false;
}

static bool place_values(const struct network_options *options,
                         struct network_layout *layout, struct error *error)
{
    const struct model *model = options->model;
    size_t first = options->first_layer, end = options->end_layer;
    for (size_t v = 0; v <= end; v++) {
        struct value_place *place = &layout->values[v];
        place->crosses_in = model_crosses(model, first, v);
        if (v <= first && !place->crosses_in)
            continue;
        uint64_t count =
            layer_multiply(shape_count(model_value_shape(model, v)), options->batch);
        if (count > max_scalars)
            return too_large(value_name(model, v), error);
        place->count = (size_t)count;
        bool own = options->training && (place->crosses_in || stays(model, end, v) ||
                                         goes_on(options, v) ||
                                         model_keeps(model, first, end, v));
        place->area = own ? PLACE_SLOT : PLACE_SHARED;
        place->offset =
            take(own ? &layout->slot_count : &layout->shared_count, place->count);
    }
    return true;
}

/* Memory for gradients, used again as soon as one is spent. Blocks grow while the layout
 * is made; their offsets are settled at the end. */
struct pool {
    size_t *size;
    bool *busy;
    size_t count;
};

static size_t pool_take(struct pool *pool, size_t wanted)
{
    size_t best = pool->count, largest = pool->count;
    for (size_t i = 0; i < pool->count; i++) {
        if (pool->busy[i])
            continue;
        if (pool->size[i] >= wanted &&
            (best == pool->count || pool->size[i] < pool->size[best]))
            best = i;
        if (largest == pool->count || pool->size[i] > pool->size[largest])
            largest = i;
    }
    size_t chosen = best < pool->count ? best : largest;
    if (chosen == pool->count)
        pool->size[pool->count++] = 0;
    if (pool->size[chosen] < wanted)
        pool->size[chosen] = wanted;
    pool->busy[chosen] = true;
    return chosen;
}

/* Walks backward; gradient_offset holds the block's number until settle(). */
static void share_gradients(const struct network_options *options,
                            struct network_layout *layout, struct pool *pool, bool *placed)
{
    size_t first = options->first_layer, end = options->end_layer;
    struct value_place *values = layout->values;
    for (size_t v = 0; v <= end; v++)
        if (values[v].has_gradient && values[v].may_seed) {
            values[v].gradient_offset = pool_take(pool, values[v].count);
            placed[v] = true;
        }
    for (size_t i = end; i-- > first;) {
        const struct layer *layer = &options->model->layers[i];
        for (size_t k = 0; k < layer->input_count; k++) {
            size_t v = layer->input[k];
            if (!values[v].has_gradient || placed[v])
                continue;
            values[v].gradient_offset = pool_take(pool, values[v].count);
            placed[v] = true;
        }
        if (values[i + 1].has_gradient && !options->split_backward)
            pool->busy[values[i + 1].gradient_offset] = false;
    }
}

static void settle(struct network_layout *layout, size_t end, struct pool *pool)
{
    for (size_t i = 0; i < pool->count; i++)
        pool->size[i] = take(&layout->gradient_count, pool->size[i]);
    for (size_t v = 0; v <= end; v++)
        if (layout->values[v].has_gradient)
            layout->values[v].gradient_offset =
                pool->size[layout->values[v].gradient_offset];
}

static bool place_gradients(const struct network_options *options,
                            struct network_layout *layout, struct error *error)
{
    size_t end = options->end_layer;
    struct value_set wants;
    struct pool pool = {checked_calloc(end + 1, sizeof(size_t)),
                        checked_calloc(end + 1, sizeof(bool)), 0};
    bool *placed = checked_calloc(end + 1, sizeof *placed);
    bool done = pool.size != NULL && pool.busy != NULL && placed != NULL;
    if (done) {
        model_gradient_values(options->model, options->first_layer, end,
                              options->input_gradient, &wants);
        for (size_t v = 0; v <= end; v++) {
            layout->values[v].has_gradient = value_set_has(&wants, v);
            layout->values[v].may_seed =
                options->split_backward || stays(options->model, end, v);
        }
        share_gradients(options, layout, &pool, placed);
        settle(layout, end, &pool);
    }
    free(pool.size);
    free(pool.busy);
    free(placed);
    return done || error_memory(error, "network gradients");
}

static size_t count_tensors(const struct network_options *options)
{
    size_t count = 0;
    for (size_t i = options->first_layer; i < options->end_layer; i++)
        if (model_run_holds(options->model, options->first_layer, i))
            count += options->model->layers[model_owner(options->model, i)].tensor_count;
    return count;
}

/* The tensors of a layer that holds parameters: its own, or those of an owner outside. */
static bool place_tensors(const struct network_options *options,
                          struct network_layout *layout, size_t index, struct error *error)
{
    const struct model *model = options->model;
    const struct layer *owner = &model->layers[model_owner(model, index)];
    for (size_t k = 0; k < owner->tensor_count; k++) {
        if (owner->tensor[k].count > max_scalars)
            return too_large(owner->name, error);
        layout->tensors[layout->tensor_count++] =
            (struct network_tensor){.layer = index,
                                    .tensor = k,
                                    .offset = layout->parameter_count,
                                    .count = (size_t)owner->tensor[k].count,
                                    .decays = owner->tensor[k].decays};
        layout->parameter_count += (size_t)owner->tensor[k].count;
    }
    return true;
}

static bool place_layer(const struct network_options *options,
                        struct network_layout *layout, size_t index, struct error *error)
{
    const struct model *model = options->model;
    size_t first = options->first_layer;
    const struct layer *layer = &model->layers[index];
    struct layer_place *place = &layout->layers[index - first];
    place->holds = model_run_holds(model, first, index);
    place->first_tensor = layout->tensor_count;
    for (size_t i = first; i < index && !place->holds; i++)
        if (layout->layers[i - first].holds &&
            model_owner(model, i) == model_owner(model, index))
            place->first_tensor = layout->layers[i - first].first_tensor;
    uint64_t stash = layer_sum(layer_multiply(layer->stash_count, options->batch),
                               layer->stash_fixed_count);
    uint64_t work = layer->kind->work_count != NULL
                        ? layer->kind->work_count(layer, options->batch)
                        : 0;
    if (layer->state_count > max_scalars || stash > max_scalars || work > max_scalars)
        return too_large(layer->name, error);
    place->state_offset = layout->state_count;
    layout->state_count += (size_t)layer->state_count;
    place->stash_offset = take(
        options->training ? &layout->slot_count : &layout->shared_count, (size_t)stash);
    if (work > layout->work_count)
        layout->work_count = (size_t)work;
    return !place->holds || place_tensors(options, layout, index, error);
}

bool network_layout_make(const struct network_options *options,
                         struct network_layout *layout, struct error *error)
{
    size_t first = options->first_layer, end = options->end_layer;
    *layout = (struct network_layout){
        .values = checked_calloc(end + 1, sizeof *layout->values),
        .layers = checked_calloc(end - first, sizeof *layout->layers),
        .tensors = checked_calloc(count_tensors(options), sizeof *layout->tensors)};
    bool done = layout->values != NULL && layout->layers != NULL && layout->tensors != NULL;
    if (!done)
        error_memory(error, "network");
    done = done && place_values(options, layout, error);
    for (size_t i = first; i < end && done; i++)
        done = place_layer(options, layout, i, error);
    done = done && (!options->training || place_gradients(options, layout, error));
    if (!done)
        network_layout_release(layout);
    return done;
}

void network_layout_release(struct network_layout *layout)
{
    free(layout->values);
    free(layout->layers);
    free(layout->tensors);
    *layout = (struct network_layout){0};
}
