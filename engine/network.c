#include "engine/network_layout.h"

#include "base/checked.h"
#include "base/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What a slot's forward was called with: its backward draws the same random numbers. */
struct slot_key {
    uint64_t step, first_sample;
};

struct network {
    struct network_options options;
    struct network_layout layout;
    scalar *parameters, *gradients, *state;
    scalar *used; /* the parameters that forward and backward read */
    scalar *slots;    /* [slots][slot_count] */
    scalar *shared;   /* [shared_count] */
    scalar *d_values; /* [1 or slots][gradient_count] */
    scalar *work;
    void **prepared;       /* [layers] */
    bool *reached;         /* by value number: backward has a gradient for it */
    struct slot_key *keys; /* [slots] */
};

static const struct layer *layer_at(const struct network *network, size_t index)
{
    return &network->options.model->layers[index];
}

static scalar *allocate(size_t copies, size_t count)
{
    uint64_t total;
    if (!checked_multiply(copies, count, &total))
        return NULL;
    return checked_calloc_aligned((size_t)total, sizeof(scalar));
}

static bool allocate_all(struct network *network, struct error *error)
{
    const struct network_options *options = &network->options;
    const struct network_layout *layout = &network->layout;
    bool training = options->training;
    network->parameters = allocate(1, layout->parameter_count);
    network->used = network->parameters;
    network->gradients = allocate(training, layout->parameter_count);
    network->state = allocate(1, layout->state_count);
    network->slots = allocate(options->slots, layout->slot_count);
    network->shared = allocate(1, layout->shared_count);
    network->d_values =
        allocate(options->split_backward ? options->slots : 1, layout->gradient_count);
    network->work = allocate(1, layout->work_count);
    network->prepared = checked_calloc(options->end_layer - options->first_layer,
                                       sizeof *network->prepared);
    network->reached = checked_calloc(options->end_layer + 1, sizeof *network->reached);
    network->keys = checked_calloc(options->slots, sizeof *network->keys);
    if (network->keys == NULL || network->parameters == NULL ||
        network->gradients == NULL || network->state == NULL || network->slots == NULL ||
        network->shared == NULL || network->d_values == NULL || network->work == NULL ||
        network->prepared == NULL || network->reached == NULL)
        return error_memory(error, "network");
    return true;
}

/* Keyed by the owner's identity and by the element alone, so that neither cuts nor heads
 * change the weights that a seed gives. */
static void init_tensor(struct network *network, const struct network_tensor *tensor)
{
    const struct model *model = network->options.model;
    const struct layer *owner = &model->layers[model_owner(model, tensor->layer)];
    const struct parameter_tensor *what = &owner->tensor[tensor->tensor];
    struct random_stream stream =
        random_stream((struct random_key){.seed = network->options.seed,
                                          .purpose = RANDOM_INIT,
                                          .a = owner->identity,
                                          .b = tensor->tensor});
    scalar *p = network->parameters + tensor->offset;
    for (size_t i = 0; i < tensor->count; i++) {
        double value = what->init == INIT_ONE ? 1 : 0;
        if (what->init == INIT_NORMAL)
            value = what->scale * random_stream_normal(&stream, i);
        else if (what->init == INIT_UNIFORM)
            value = what->scale * (2 * random_stream_uniform(&stream, i) - 1);
        p[i] = (scalar)value;
    }
}

static void init_weights(struct network *network)
{
    for (size_t i = 0; i < network->layout.tensor_count; i++)
        init_tensor(network, &network->layout.tensors[i]);
    size_t first = network->options.first_layer;
    for (size_t i = first; i < network->options.end_layer; i++) {
        const struct layer *layer = layer_at(network, i);
        if (layer->state_count > 0 && layer->kind->init_state != NULL)
            layer->kind->init_state(
                layer, network->state + network->layout.layers[i - first].state_offset);
    }
}

static bool prepare_layers(struct network *network, struct error *error)
{
    size_t first = network->options.first_layer;
    for (size_t i = first; i < network->options.end_layer; i++) {
        const struct layer *layer = layer_at(network, i);
        if (layer->kind->prepare != NULL &&
            !layer->kind->prepare(layer, network->options.batch,
                                  &network->prepared[i - first], error))
            return error_prefix(error, "layer \"%s\"", layer->name);
    }
    return true;
}

struct network *network_create(const struct network_options *options, struct error *error)
{
    assert(options->first_layer <= options->end_layer &&
           options->end_layer <= options->model->layer_count);
    assert(options->batch > 0 && options->slots > 0);
    struct network *network = checked_calloc(1, sizeof *network);
    if (network == NULL) {
        error_memory(error, "network");
        return NULL;
    }
    /* How a product is shared out among threads would show in its last bits. */
    openblas_set_num_threads(1);
    network->options = *options;
    if (!network_layout_make(options, &network->layout, error) ||
        !allocate_all(network, error) || !prepare_layers(network, error)) {
        network_free(network);
        return NULL;
    }
    init_weights(network);
    return network;
}

void network_free(struct network *network)
{
    if (network == NULL)
        return;
    size_t first = network->options.first_layer;
    for (size_t i = first; network->prepared != NULL && i < network->options.end_layer; i++)
        if (network->prepared[i - first] != NULL)
            layer_at(network, i)->kind->release(network->prepared[i - first]);
    network_layout_release(&network->layout);
    free(network->parameters);
    free(network->gradients);
    free(network->state);
    free(network->slots);
    free(network->shared);
    free(network->d_values);
    free(network->work);
    free(network->prepared);
    free(network->reached);
    free(network->keys);
    free(network);
}

scalar *network_value(struct network *network, size_t slot, size_t value)
{
    assert(slot < network->options.slots && value <= network->options.end_layer);
    const struct value_place *place = &network->layout.values[value];
    switch (place->area) {
    case PLACE_SLOT:
        return network->slots + slot * network->layout.slot_count + place->offset;
    case PLACE_SHARED:
        return network->shared + place->offset;
    default:
        return NULL;
    }
}

scalar *network_gradient(struct network *network, size_t slot, size_t value)
{
    assert(slot < network->options.slots && value <= network->options.end_layer);
    const struct value_place *place = &network->layout.values[value];
    if (!place->has_gradient)
        return NULL;
    size_t copy = network->options.split_backward ? slot : 0;
    return network->d_values + copy * network->layout.gradient_count +
           place->gradient_offset;
}

/* What forward and backward calls have in common. */
static void fill_call(struct network *network, size_t slot, size_t index,
                      struct layer_call *call)
{
    const struct network_layout *layout = &network->layout;
    const struct layer_place *place = &layout->layers[index - network->options.first_layer];
    const struct layer *layer = layer_at(network, index);
    *call = (struct layer_call){.batch = network->options.batch,
                                .training = network->options.training,
                                .work = network->work,
                                .seed = network->options.seed,
                                .step = network->keys[slot].step,
                                .first_sample = network->keys[slot].first_sample,
                                .identity = layer->identity};
    for (size_t k = 0; k < layer->tensor_count; k++)
        call->parameter[k] =
            network->used + layout->tensors[place->first_tensor + k].offset;
    call->stash = network->options.training ? network->slots + slot * layout->slot_count
                                            : network->shared;
    call->stash += place->stash_offset;
    call->prepared = network->prepared[index - network->options.first_layer];
}

void network_forward_layers(struct network *network, size_t slot, uint64_t step,
                            uint64_t first_sample, size_t first, size_t end, bool again)
{
    assert(!again || network->options.training);
    network->keys[slot] = (struct slot_key){step, first_sample};
    for (size_t i = first; i < end; i++) {
        const struct layer *layer = layer_at(network, i);
        struct layer_call call;
        fill_call(network, slot, i, &call);
        for (size_t k = 0; k < layer->input_count; k++)
            call.input[k] = network_value(network, slot, layer->input[k]);
        call.output = network_value(network, slot, i + 1);
        if (layer->state_count > 0 && !again)
            call.state = network->state +
                         network->layout.layers[i - network->options.first_layer].state_offset;
        layer->kind->forward(layer, &call);
        if (network->options.activations != NULL)
            rounding_nearest(network->options.activations, call.output,
                             network->options.batch *
                                 (size_t)shape_count(&layer->output_shape));
    }
}

void network_forward(struct network *network, size_t slot, uint64_t step,
                     uint64_t first_sample)
{
    network_forward_layers(network, slot, step, first_sample, network->options.first_layer,
                           network->options.end_layer, false);
}

void network_recompute(struct network *network, size_t slot, uint64_t step,
                       uint64_t first_sample)
{
    network_forward_layers(network, slot, step, first_sample, network->options.first_layer,
                           network->options.end_layer, true);
}

static void mark_seeds(struct network *network, const size_t *seeds, size_t seed_count)
{
    memset(network->reached, 0, network->options.end_layer + 1);
    for (size_t i = 0; i < seed_count; i++) {
        const struct value_place *place = &network->layout.values[seeds[i]];
        assert(seeds[i] <= network->options.end_layer && place->may_seed);
        network->reached[seeds[i]] = place->has_gradient;
    }
}

/* Fills what backward of one layer needs, marks the inputs it reaches; false when there
 * is nothing to compute. */
static bool fill_backward(struct network *network, size_t slot, size_t index,
                          enum backward_pass pass, struct layer_call *call)
{
    const struct network_layout *layout = &network->layout;
    const struct layer *layer = layer_at(network, index);
    bool any = false;
    fill_call(network, slot, index, call);
    call->d_output = network_gradient(network, slot, index + 1);
    if (layer->keeps_output)
        call->output = network_value(network, slot, index + 1);
    for (size_t k = 0; k < layer->input_count; k++) {
        size_t v = layer->input[k];
        if (layer->keeps_input[k])
            call->input[k] = network_value(network, slot, v);
        if (!layout->values[v].has_gradient)
            continue;
        if (pass != BACKWARD_WEIGHT) {
            call->d_input[k] = network_gradient(network, slot, v);
            call->accumulate[k] = network->reached[v];
            any = true;
        }
        network->reached[v] = true;
    }
    for (size_t k = 0; pass != BACKWARD_INPUT && k < layer->tensor_count; k++) {
        call->d_parameter[k] =
            network->gradients + (call->parameter[k] - network->used);
        any = true;
    }
    return any;
}

static void clear_unreached(struct network *network, size_t slot)
{
    for (size_t v = 0; v <= network->options.first_layer; v++)
        if (network->layout.values[v].has_gradient && !network->reached[v])
            memset(network_gradient(network, slot, v), 0,
                   network->layout.values[v].count * sizeof(scalar));
}

void network_backward_layers(struct network *network, size_t slot, enum backward_pass pass,
                             const size_t *seeds, size_t seed_count, size_t first,
                             size_t end)
{
    const struct network_options *options = &network->options;
    assert(options->training && (pass == BACKWARD_ALL || options->split_backward));
    if (end == options->end_layer)
        mark_seeds(network, seeds, seed_count);
    for (size_t i = end; i-- > first;) {
        struct layer_call call;
        if (network->reached[i + 1] && fill_backward(network, slot, i, pass, &call))
            layer_at(network, i)->kind->backward(layer_at(network, i), &call);
    }
    if (first == options->first_layer && pass != BACKWARD_WEIGHT)
        clear_unreached(network, slot);
}

void network_backward(struct network *network, size_t slot, enum backward_pass pass,
                      const size_t *seeds, size_t seed_count)
{
    network_backward_layers(network, slot, pass, seeds, seed_count,
                            network->options.first_layer, network->options.end_layer);
}

scalar *network_parameters(struct network *network, size_t *count)
{
    if (count != NULL)
        *count = network->layout.parameter_count;
    return network->parameters;
}

void network_use_parameters(struct network *network, scalar *parameters)
{
    network->used = parameters != NULL ? parameters : network->parameters;
}

scalar *network_parameter_gradients(struct network *network)
{
    return network->options.training ? network->gradients : NULL;
}

void network_zero_gradients(struct network *network)
{
    if (network->options.training)
        memset(network->gradients, 0, network->layout.parameter_count * sizeof(scalar));
}

scalar *network_state(struct network *network, size_t *count)
{
    if (count != NULL)
        *count = network->layout.state_count;
    return network->state;
}

const struct network_tensor *network_tensors(const struct network *network, size_t *count)
{
    *count = network->layout.tensor_count;
    return network->layout.tensors;
}

static uint32_t owner_identity(const struct network *network, size_t layer)
{
    return layer_at(network, model_owner(network->options.model, layer))->identity;
}

static void copy_tensor(struct network *to, const struct network_tensor *target,
                        const struct network *from)
{
    for (size_t i = 0; i < from->layout.tensor_count; i++) {
        const struct network_tensor *source = &from->layout.tensors[i];
        if (owner_identity(from, source->layer) != owner_identity(to, target->layer) ||
            source->tensor != target->tensor || source->count != target->count)
            continue;
        memcpy(to->parameters + target->offset, from->parameters + source->offset,
               target->count * sizeof(scalar));
    }
}

static void copy_state(struct network *to, size_t index, const struct network *from)
{
    const struct layer *target = layer_at(to, index);
    size_t to_first = to->options.first_layer, from_first = from->options.first_layer;
    for (size_t i = from_first; i < from->options.end_layer; i++) {
        const struct layer *source = layer_at(from, i);
        if (source->identity == target->identity &&
            source->state_count == target->state_count)
            memcpy(to->state + to->layout.layers[index - to_first].state_offset,
                   from->state + from->layout.layers[i - from_first].state_offset,
                   (size_t)target->state_count * sizeof(scalar));
    }
}

void network_copy_weights(struct network *to, const struct network *from)
{
    for (size_t i = 0; i < to->layout.tensor_count; i++)
        copy_tensor(to, &to->layout.tensors[i], from);
    for (size_t i = to->options.first_layer; i < to->options.end_layer; i++)
        if (layer_at(to, i)->state_count > 0)
            copy_state(to, i, from);
}
