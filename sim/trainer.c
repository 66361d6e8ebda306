#include "sim/trainer_internal.h"

#include "base/checked.h"
#include "engine/loss.h"

#include <stdlib.h>
#include <string.h>

enum { EVALUATION_BATCH = 250 };

static uint64_t copy_seed(const struct trainer *t, const struct copy *copy)
{
    return t->options.seed + copy->seed_offset * UINT64_C(0x9e3779b97f4a7c15);
}

static bool create_teachers(const struct trainer *t, const struct part *part,
                            struct trainer_part *own, struct error *error)
{
    if (part->teacher_count == 0)
        return true;
    size_t count = (size_t)t->plan->edges[part->teacher_edges[0]].message_count;
    own->teachers = checked_calloc(part->teacher_count, sizeof *own->teachers);
    own->present = checked_calloc(part->teacher_count, sizeof *own->present);
    if (own->teachers == NULL || own->present == NULL)
        return error_memory(error, "predictions");
    for (size_t i = 0; i < part->teacher_count; i++) {
        own->teachers[i] = checked_calloc_aligned(count, sizeof **own->teachers);
        if (own->teachers[i] == NULL)
            return error_memory(error, "predictions");
    }
    return true;
}

static void find_seeds(const struct trainer *t, const struct part *part,
                       struct trainer_part *own)
{
    const struct model *model = t->plan->model;
    own->crossing_in_count = model_crossing(model, part->first_layer, own->crossing_in);
    own->crossing_out_count = model_crossing(model, part->end_layer, own->crossing_out);
    own->gradient_in_count =
        model_gradient_crossing(model, part->first_layer, own->gradient_in);
    own->gradient_out_count =
        model_gradient_crossing(model, part->end_layer, own->gradient_out);
    own->seed_count = plan_part_seeds(t->plan, part, false, own->seeds);
    if (part->gradient_apart)
        own->received_seed_count = plan_part_seeds(t->plan, part, true, own->received_seeds);
}

/* What of the tensors lies in a stretch. */
static void add_tensors(struct trainer_part *own, uint64_t first, uint64_t stretch)
{
    size_t all;
    const struct network_tensor *tensors = network_tensors(own->network, &all);
    for (size_t i = 0; i < all; i++) {
        struct network_tensor tensor = tensors[i];
        uint64_t end = tensor.offset + tensor.count;
        uint64_t from = tensor.offset > first ? tensor.offset : first;
        end = end < first + stretch ? end : first + stretch;
        if (end <= from)
            continue;
        tensor.offset = (size_t)from;
        tensor.count = (size_t)(end - from);
        own->tensors[own->tensor_count++] = tensor;
    }
}

/* The tensors that the part's optimiser updates: all, or the stretches of its shard. */
static bool create_tensors(const struct trainer *t, uint32_t index, struct error *error)
{
    const struct part *part = &t->plan->parts[index];
    struct trainer_part *own = &t->parts[index];
    size_t all, buckets = plan_bucket_count(part);
    network_tensors(own->network, &all);
    /* A bucket's stretch cuts at most one tensor at each of its ends. */
    own->tensors = checked_calloc(all + buckets, sizeof *own->tensors);
    if (own->tensors == NULL)
        return error_memory(error, "tensors");
    for (size_t i = 0; i < buckets; i++) {
        uint64_t first, count;
        plan_shard_stretch(t->plan, part, i, &first, &count);
        add_tensors(own, first, count);
    }
    return true;
}

static bool create_versions(const struct part *part, struct trainer_part *own,
                            struct error *error)
{
    size_t count;
    network_parameters(own->network, &count);
    own->slot_version = checked_calloc(part->slots, sizeof *own->slot_version);
    if (own->slot_version == NULL)
        return error_memory(error, "weight versions");
    if (part->weight_versions <= 1)
        return true;
    own->versions = checked_calloc(part->weight_versions - 1, sizeof *own->versions);
    if (own->versions == NULL)
        return error_memory(error, "weight versions");
    for (uint32_t i = 0; i + 1 < part->weight_versions; i++) {
        own->versions[i] = checked_calloc_aligned(count, sizeof **own->versions);
        if (own->versions[i] == NULL)
            return error_memory(error, "weight versions");
    }
    return true;
}

/* What storing does to the weights that the part's optimiser updates. The draws belong to
 * the copy's seed, the layer and the tensor, so that replicas and cuts agree. */
static void store_weights(struct trainer *t, uint32_t index, uint64_t step)
{
    const struct rounding *format = emulated(t, t->plan->precision.weights);
    const struct trainer_part *own = &t->parts[index];
    size_t count = 0;
    const struct network_tensor *tensors = network_tensors(own->network, &count);
    scalar *parameters = network_parameters(own->network, NULL);
    for (size_t i = 0; format != NULL && i < count; i++) {
        const struct layer *layer =
            &t->plan->model->layers[model_owner(t->plan->model, tensors[i].layer)];
        const struct random_key key = {
            .seed = copy_seed(t, &t->plan->copies[t->plan->parts[index].copy]),
            .purpose = RANDOM_ROUNDING,
            .a = (uint32_t)step,
            .b = (uint64_t)layer->identity << 8 | tensors[i].tensor};
        if (t->plan->precision.stochastic_rounding)
            rounding_stochastic(format, parameters + tensors[i].offset, tensors[i].count, key,
                                0);
        else
            rounding_nearest(format, parameters + tensors[i].offset, tensors[i].count);
    }
}

/* Undoes the loss scale. */
static void unscale(struct trainer *t, struct trainer_part *own)
{
    size_t count;
    double scale = t->plan->precision.loss_scale;
    network_parameters(own->network, &count);
    scalar *gradients = network_parameter_gradients(own->network);
    for (size_t i = 0; scale != 1 && i < count; i++)
        gradients[i] = (scalar)((double)gradients[i] / scale);
}

static bool create_part(struct trainer *t, uint32_t index, struct error *error)
{
    const struct plan *plan = t->plan;
    const struct part *part = &plan->parts[index];
    struct trainer_part *own = &t->parts[index];
    const struct network_options options = {
        .model = plan->model,
        .first_layer = part->first_layer,
        .end_layer = part->end_layer,
        .batch = (size_t)plan->micro_batch,
        .slots = part->slots,
        .input_gradient = part->gradient_out,
        .training = true,
        .split_backward = part->split_backward,
        .block_inputs = part->recompute == RECOMPUTE_BLOCKS,
        .seed = copy_seed(t, &plan->copies[part->copy]),
        .activations = emulated(t, plan->precision.activations),
    };
    own->network = network_create(&options, error);
    if (own->network == NULL)
        return false;
    if (plan->slice_count > 0) {
        if (!trainer_make_whole(t, options.seed, error))
            return false;
        trainer_take_slices(t, index);
    }
    store_weights(t, index, 0);
    size_t parameters;
    network_parameters(own->network, &parameters);
    size_t words = part->trains ? (size_t)optimizer_state_words(&t->plan->optimizer) : 0;
    own->optimizer_state = checked_calloc_aligned(words * parameters, sizeof(scalar));
    own->labels = checked_calloc((size_t)(plan->micro_batch * t->data->labels),
                                 sizeof *own->labels);
    if (own->optimizer_state == NULL || own->labels == NULL)
        return error_memory(error, "training state");
    find_seeds(t, part, own);
    return create_tensors(t, index, error) && create_teachers(t, part, own, error) &&
           create_versions(part, own, error);
}

static bool create_evaluation(struct trainer *t, struct error *error)
{
    uint64_t samples = t->data->samples[DATASET_TEST];
    t->evaluation_batch = samples < EVALUATION_BATCH ? (size_t)samples : EVALUATION_BATCH;
    const struct network_options options = {
        .model = t->options.model,
        .end_layer = t->options.model->layer_count,
        .batch = t->evaluation_batch,
        .slots = 1,
        .activations = emulated(t, t->plan->precision.activations),
    };
    t->evaluation = network_create(&options, error);
    if (t->evaluation == NULL)
        return false;
    t->evaluation_labels = checked_calloc(t->evaluation_batch * (size_t)t->data->labels,
                                          sizeof *t->evaluation_labels);
    t->sample = checked_calloc((size_t)shape_count(&t->data->input_shape), sizeof *t->sample);
    return (t->evaluation_labels != NULL && t->sample != NULL) ||
           error_memory(error, "evaluation");
}

struct trainer *trainer_create(const struct trainer_options *options, struct error *error)
{
    struct trainer *t = checked_calloc(1, sizeof *t);
    if (t != NULL)
        t->parts = checked_calloc(options->plan->part_count, sizeof *t->parts);
    if (t == NULL || t->parts == NULL) {
        free(t);
        error_memory(error, "trainer");
        return NULL;
    }
    t->options = *options;
    t->plan = options->plan;
    t->data = dataset_get_description(options->dataset);
    bool made = create_evaluation(t, error);
    for (uint32_t i = 0; made && i < t->plan->part_count; i++)
        made = create_part(t, i, error);
    network_free(t->whole);
    t->whole = NULL;
    if (!made) {
        trainer_free(t);
        return NULL;
    }
    return t;
}

void trainer_free(struct trainer *trainer)
{
    if (trainer == NULL)
        return;
    for (size_t i = 0; i < trainer->plan->part_count; i++) {
        struct trainer_part *own = &trainer->parts[i];
        for (size_t k = 0; own->teachers != NULL && k < trainer->plan->parts[i].teacher_count;
             k++)
            free(own->teachers[k]);
        free(own->teachers);
        for (uint32_t k = 0;
             own->versions != NULL && k + 1 < trainer->plan->parts[i].weight_versions; k++)
            free(own->versions[k]);
        free(own->versions);
        free(own->slot_version);
        free(own->present);
        free(own->optimizer_state);
        free(own->tensors);
        free(own->labels);
        network_free(own->network);
    }
    network_free(trainer->evaluation);
    free(trainer->evaluation_labels);
    free(trainer->sample);
    free(trainer->parts);
    free(trainer);
}

/* The place, in the seeded order over all epochs, of a micro-batch's first sample. */
static uint64_t first_position(const struct trainer *t, const struct copy *copy,
                               uint64_t micro_batch, uint64_t *in_step)
{
    const struct plan *plan = t->plan;
    uint64_t step = micro_batch / plan->micro_batches;
    *in_step = copy->shard * (plan->batch / copy->shards) +
               micro_batch % plan->micro_batches * plan->micro_batch;
    return (step * copy->shares + copy->share) * plan->batch + *in_step;
}

void trainer_read_samples(struct trainer *t, uint32_t part, uint64_t micro_batch,
                          scalar *inputs, int32_t *labels)
{
    const struct copy *copy = &t->plan->copies[t->plan->parts[part].copy];
    size_t size = (size_t)shape_count(&t->data->input_shape);
    uint64_t in_step;
    uint64_t position = first_position(t, copy, micro_batch, &in_step);
    for (size_t i = 0; i < t->plan->micro_batch; i++) {
        uint64_t index = dataset_order(t->options.dataset, t->options.seed, position + i);
        dataset_training_sample(t->options.dataset, t->options.seed,
                                micro_batch / t->plan->micro_batches, index,
                                inputs != NULL ? inputs + i * size : t->sample,
                                labels + i * t->data->labels);
    }
}

void trainer_load(struct trainer *t, uint32_t part, uint64_t micro_batch)
{
    struct trainer_part *own = &t->parts[part];
    trainer_read_samples(t, part, micro_batch,
                         network_value(own->network, slot_of(t, part, micro_batch), 0), own->labels);
}

/* The weights that the forward of the slot's micro-batch has used. */
static void use_version(struct trainer *t, uint32_t part, size_t slot)
{
    struct trainer_part *own = &t->parts[part];
    uint64_t version = own->slot_version[slot];
    bool newest = own->versions == NULL || version == own->version;
    network_use_parameters(
        own->network,
        newest ? NULL
               : own->versions[version % (t->plan->parts[part].weight_versions - 1)]);
}

/* Before an update: the weights become a former version. */
static void keep_version(struct trainer *t, uint32_t part)
{
    struct trainer_part *own = &t->parts[part];
    size_t count;
    const scalar *parameters = network_parameters(own->network, &count);
    if (own->versions != NULL)
        memcpy(own->versions[own->version % (t->plan->parts[part].weight_versions - 1)],
               parameters, count * sizeof *parameters);
    own->version++;
}

void trainer_forward(struct trainer *t, uint32_t part, uint64_t micro_batch, size_t first,
                     size_t end, bool again)
{
    struct network *network = t->parts[part].network;
    size_t slot = slot_of(t, part, micro_batch);
    uint64_t step = micro_batch / t->plan->micro_batches, in_step;
    first_position(t, &t->plan->copies[t->plan->parts[part].copy], micro_batch, &in_step);
    if (!again)
        t->parts[part].slot_version[slot] = t->parts[part].version;
    use_version(t, part, slot);
    network_forward_layers(network, slot, step, in_step, first, end, again);
}

void trainer_backward(struct trainer *t, uint32_t part, uint64_t micro_batch, size_t first,
                      size_t end, enum backward_pass pass)
{
    struct trainer_part *own = &t->parts[part];
    size_t slot = slot_of(t, part, micro_batch);
    use_version(t, part, slot);
    network_backward_layers(own->network, slot, pass, own->seeds, own->seed_count, first,
                            end);
}

void trainer_backward_received(struct trainer *t, uint32_t part, uint64_t micro_batch,
                               size_t first, size_t end)
{
    struct trainer_part *own = &t->parts[part];
    network_backward_layers(own->network, slot_of(t, part, micro_batch), BACKWARD_ALL,
                            own->received_seeds, own->received_seed_count, first, end);
}

void trainer_update(struct trainer *t, uint32_t part, uint64_t update)
{
    const uint64_t updates = t->plan->updates;
    struct trainer_part *own = &t->parts[part];
    const struct copy *copy = &t->plan->copies[t->plan->parts[part].copy];
    scalar *parameters = network_parameters(own->network, NULL);
    keep_version(t, part);
    unscale(t, own);
    if (own->tensor_count > 0)
        optimizer_update(&t->plan->optimizer, update, t->options.steps * updates,
                         own->tensors, own->tensor_count, parameters,
                         network_parameter_gradients(own->network), own->optimizer_state);
    store_weights(t, part, update + 1);
    network_zero_gradients(own->network);
    if ((update + 1) % updates != 0)
        return;
    double rows = (double)t->data->labels * (double)t->plan->batch / (double)copy->shards;
    own->step_loss = own->loss_sum / rows;
    own->loss_sum = 0;
}

double trainer_step_loss(const struct trainer *trainer, uint32_t part)
{
    return trainer->parts[part].step_loss;
}

/* Reads test samples from `first` on; beyond the last, the first ones again, not counted. */
static size_t read_test(struct trainer *t, uint64_t first)
{
    uint64_t samples = t->data->samples[DATASET_TEST];
    size_t size = (size_t)shape_count(&t->data->input_shape);
    scalar *inputs = network_value(t->evaluation, 0, 0);
    for (size_t i = 0; i < t->evaluation_batch; i++)
        dataset_sample(t->options.dataset, DATASET_TEST, (first + i) % samples,
                       inputs + i * size, t->evaluation_labels + i * t->data->labels);
    uint64_t left = samples - first;
    return left < t->evaluation_batch ? (size_t)left : t->evaluation_batch;
}

void trainer_evaluate(struct trainer *t, uint32_t copy, struct evaluation *evaluation)
{
    const struct copy *c = &t->plan->copies[copy];
    const struct model *model = t->options.model;
    size_t output = model_output_value(model);
    size_t classes = classes_of(model, output);
    uint64_t samples = t->data->samples[DATASET_TEST], correct = 0, rows = 0;
    double loss = 0;
    for (uint32_t p = c->first_part; p < c->end_part; p++)
        trainer_give_slices(t, p);
    for (uint64_t first = 0; first < samples; first += t->evaluation_batch) {
        size_t valid = read_test(t, first) * rows_of(model, output);
        network_forward(t->evaluation, 0, 0, 0);
        loss += loss_cross_entropy(network_value(t->evaluation, 0, output),
                                   t->evaluation_labels, valid, classes, 0, 0, NULL, &correct);
        rows += valid;
    }
    evaluation->accuracy = rows > 0 ? (double)correct / (double)rows : 0;
    evaluation->loss = rows > 0 ? loss / (double)rows : 0;
}

struct network *trainer_network(struct trainer *trainer, uint32_t part)
{
    return trainer->parts[part].network;
}
