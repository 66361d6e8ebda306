/* Bytes of a part in the simulated machine's memory, from shapes alone. */
#include "sim/plan.h"

#include "base/checked.h"

#include <string.h>

/* Gradients of one bucket at a time are whole, the others are the shard alone. */
static uint64_t sharded_gradients(const struct plan *plan, const struct part *part,
                                  uint64_t shard)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < plan_bucket_count(part); i++) {
        struct bucket b = plan_bucket(plan, part, i);
        largest = b.count > largest ? b.count : largest;
    }
    return shard + largest;
}

/* count x samples x bytes of a word, checked. */
static bool sized(uint64_t count, uint64_t samples, enum number_format format, uint64_t *bytes)
{
    return checked_multiply(count, samples, bytes) &&
           checked_multiply(*bytes, number_format_bytes(format), bytes);
}

static uint64_t kept_input_count(const struct plan *plan, const struct part *part)
{
    size_t values[MODEL_MAX_CROSSING];
    size_t crossing = model_crossing(plan->model, part->first_layer, values);
    uint64_t kept = 0;
    for (size_t v = 0; v < crossing; v++) {
        bool keeps = false;
        for (size_t i = part->first_layer; i < part->end_layer; i++)
            for (size_t k = 0; k < plan->model->layers[i].input_count; k++)
                keeps = keeps || (plan->model->layers[i].input[k] == values[v] &&
                                  plan->model->layers[i].keeps_input[k]);
        if (keeps)
            kept += shape_count(model_value_shape(plan->model, values[v]));
    }
    return kept;
}

/* The weight gradients' pass reads the gradients of these layers' outputs. */
static uint64_t kept_gradient_count(const struct plan *plan, const struct part *part)
{
    uint64_t kept = 0;
    for (size_t i = part->first_layer; part->split_backward && i < part->end_layer; i++)
        if (plan->model->layers[i].tensor_count > 0)
            kept += shape_count(&plan->model->layers[i].output_shape);
    return kept;
}

static bool in_part(const struct part *part, const struct block *block)
{
    return block->first_layer >= part->first_layer && block->end_layer <= part->end_layer;
}

/* A later block of the part starts from the value, which the block makes. */
static bool goes_on(const struct model *model, const struct part *part,
                    const struct block *block, size_t value)
{
    for (size_t i = block->end_layer; i < part->end_layer; i++)
        for (size_t k = 0; k < model->layers[i].input_count; k++)
            if (model->layers[i].input[k] == value)
                return true;
    return false;
}

static uint64_t block_input_count(const struct plan *plan, const struct part *part)
{
    const struct model *model = plan->model;
    uint64_t sum = 0;
    for (size_t b = 0; part->recompute == RECOMPUTE_BLOCKS && b < model->block_count; b++) {
        const struct block *block = &model->blocks[b];
        for (size_t v = block->first_layer + 1; v <= block->end_layer; v++)
            if (in_part(part, block) && goes_on(model, part, block, v))
                sum += shape_count(model_value_shape(model, v));
    }
    return sum;
}

bool plan_part_memory(const struct plan *plan, const struct part *part,
                      struct part_memory *memory, struct error *error)
{
    uint64_t parameters = plan_part_parameters(plan, part);
    uint64_t samples = plan->micro_batch;
    enum number_format words = plan->precision.activations;
    struct stash_size stash = model_stash(plan->model, part->first_layer, part->end_layer);
    uint64_t input = model_crossing_count(plan->model, part->first_layer);
    uint64_t logits = part->has_loss
                          ? shape_count(model_value_shape(plan->model, part->logits_value))
                          : 0;
    uint64_t transient =
        part->trains
            ? model_transient_count(plan->model, part->first_layer, part->end_layer)
            : model_forward_transient_count(plan->model, part->first_layer, part->end_layer);
    uint64_t fixed = 0;
    memset(memory, 0, sizeof *memory);
    uint64_t versions = part->weight_versions > 1 ? part->weight_versions : 1;
    uint64_t trained = part->trains ? parameters : 0;
    uint64_t shard = part->trains ? plan_shard_parameters(plan, part) : 0;
    uint64_t gradients = part->shard_gradients && part->trains
                             ? sharded_gradients(plan, part, shard)
                             : trained;
    bool fits = sized(parameters, versions, plan->precision.weights,
                      &memory->weights_bytes) &&
                sized(gradients, 1, plan->precision.gradients, &memory->gradients_bytes) &&
                sized(shard, plan->optimizer_words, plan->precision.optimizer,
                      &memory->optimizer_bytes) &&
                sized(input, samples, words, &memory->input_bytes) &&
                sized(kept_input_count(plan, part), samples, words,
                      &memory->kept_input_bytes) &&
                sized(stash.count, samples, words, &memory->stash_bytes) &&
                sized(stash.fixed_count, 1, words, &fixed) &&
                checked_add(memory->stash_bytes, fixed, &memory->stash_bytes) &&
                sized(logits, samples, words, &memory->logits_bytes) &&
                sized(kept_gradient_count(plan, part), samples, words,
                      &memory->kept_gradients_bytes) &&
                sized(block_input_count(plan, part), samples, words,
                      &memory->block_inputs_bytes) &&
                sized(transient, samples, words, &memory->workspace_bytes);
    if (!fits)
        return error_set(error, STATUS_BAD_INPUT, "%s: a stage needs more than 2^64 bytes",
                         plan->name);
    if (!part->trains) {
        memory->kept_input_bytes = 0;
        memory->stash_bytes = 0;
    }
    return offload_memory(plan, part, memory, error);
}

bool plan_block_stash(const struct plan *plan, const struct part *part, size_t index,
                      uint64_t *bytes, struct error *error)
{
    const struct model *model = plan->model;
    const struct block *block = &model->blocks[index];
    size_t first = block->first_layer, end = block->end_layer;
    uint64_t count = 0, fixed = 0;
    for (size_t v = first + 1; v <= end; v++)
        if (model_keeps(model, first, end, v) && !goes_on(model, part, block, v))
            count += shape_count(model_value_shape(model, v));
    for (size_t i = first; i < end; i++) {
        count += model->layers[i].stash_count;
        fixed += model->layers[i].stash_fixed_count;
    }
    return (sized(count, plan->micro_batch, plan->precision.activations, bytes) &&
            sized(fixed, 1, plan->precision.activations, &fixed) &&
            checked_add(*bytes, fixed, bytes)) ||
           error_set(error, STATUS_BAD_INPUT, "%s: a block needs more than 2^64 bytes",
                     plan->name);
}
