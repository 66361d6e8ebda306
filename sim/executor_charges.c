/* What every instruction of every part costs, worked out once before the run. */
#include "sim/executor_internal.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

static bool add_charge(struct charges *charges, uint32_t layer, const struct pass_cost *cost)
{
    if (cost->empty)
        return true;
    charges->items[charges->count++] = (struct charge){layer, cost->seconds, cost->flops};
    charges->seconds += cost->seconds;
    return true;
}

static bool layer_charge(const struct plan *plan, const struct processor *processor, enum pass pass, size_t layer,
                         const struct value_set *wants, struct charges *charges,
                         struct error *error)
{
    bool wants_input = model_wants_input(plan->model, layer, wants);
    struct pass_cost cost;
    return cost_layer(&plan->model->layers[layer], pass, wants_input, plan->micro_batch,
                      &plan->precision, processor, &cost, error) &&
           add_charge(charges, (uint32_t)layer, &cost);
}

/* The outputs of the layers that a pass computes: forward all, unless nothing is trained
 * and nobody wants a head; backward those that its seeds reach. */
static void computed(const struct plan *plan, const struct part *part, enum pass pass,
                     bool received, struct value_set *values)
{
    const struct model *model = plan->model;
    size_t seeds[MODEL_MAX_CROSSING + 1];
    memset(values, 0xff, sizeof *values);
    if (pass != PASS_FORWARD && pass != PASS_RECOMPUTE) {
        size_t count = plan_part_seeds(plan, part, received, seeds);
        model_reached(model, part->first_layer, part->end_layer,
                      part->gradient_out && !received, seeds, count, values);
    } else if (!part->trains) {
        size_t count = model_crossing(model, part->end_layer, seeds);
        model_needed(model, part->first_layer, part->end_layer, seeds, count, values);
    }
}

static bool pass_charges(const struct plan *plan, const struct part *part,
                         const struct processor *processor, enum pass pass, bool received,
                         struct charges *charges, struct error *error)
{
    struct value_set values, wants;
    computed(plan, part, pass, received, &values);
    model_gradient_values(plan->model, part->first_layer, part->end_layer,
                          part->gradient_out && !received, &wants);
    size_t layers = part->end_layer - part->first_layer;
    charges->items = checked_calloc(layers + 1, sizeof *charges->items);
    if (charges->items == NULL)
        return error_memory(error, "charges");
    for (size_t i = 0; i < layers; i++) {
        bool forward = pass == PASS_FORWARD || pass == PASS_RECOMPUTE;
        size_t layer = forward ? part->first_layer + i : part->end_layer - 1 - i;
        if (value_set_has(&values, layer + 1) &&
            !layer_charge(plan, processor, pass, layer, &wants, charges, error))
            return false;
    }
    return true;
}

/* Bytes through the processor's streaming memory; told as the last part of the pass. */
static void stream_charge(const struct processor *processor, uint64_t bytes,
                          struct charges *charges)
{
    if (bytes == 0)
        return;
    double seconds = (double)bytes / processor->streaming_bandwidth_bytes_per_s;
    charges->items[charges->count++] = (struct charge){EVENT_NONE, seconds, 0};
    charges->seconds += seconds;
}

static bool single_charge(struct charges *charges, const struct pass_cost *cost,
                          struct error *error)
{
    charges->items = checked_calloc(2, sizeof *charges->items);
    if (charges->items == NULL)
        return error_memory(error, "charges");
    return add_charge(charges, EVENT_NONE, cost);
}

/* By the number of teachers, 0 to all. */
static bool loss_charges(const struct plan *plan, const struct part *part,
                         const struct processor *processor, struct charges **losses,
                         struct error *error)
{
    if (!part->has_loss)
        return true;
    const struct shape *logits = model_value_shape(plan->model, part->logits_value);
    uint64_t classes = logits->extent[logits->rank - 1];
    uint64_t rows;
    struct pass_cost cost;
    if (!checked_multiply(shape_count(logits) / classes, plan->micro_batch, &rows))
        return error_set(error, STATUS_BAD_INPUT, "loss: more than 2^64 rows");
    *losses = checked_calloc(part->teacher_count + 1, sizeof **losses);
    if (*losses == NULL)
        return error_memory(error, "charges");
    for (size_t i = 0; i <= part->teacher_count; i++)
        if (!cost_loss(rows, classes, i, &plan->precision, processor, &cost, error) ||
            !single_charge(&(*losses)[i], &cost, error))
            return false;
    return true;
}

static bool list_blocks(const struct plan *plan, const struct part *part,
                        struct part_state *state, struct error *error)
{
    const struct model *model = plan->model;
    if (part->recompute != RECOMPUTE_BLOCKS)
        return true;
    state->blocks = checked_calloc(model->block_count, sizeof *state->blocks);
    if (state->blocks == NULL)
        return error_memory(error, "blocks");
    for (size_t b = 0; b < model->block_count; b++) {
        const struct block *block = &model->blocks[b];
        if (block->first_layer < part->first_layer || block->end_layer > part->end_layer ||
            block->first_layer == block->end_layer)
            continue;
        struct block_state *own = &state->blocks[state->block_count++];
        own->first_layer = block->first_layer;
        own->end_layer = block->end_layer;
        own->last = block->end_layer == part->end_layer;
        if (!plan_block_stash(plan, part, b, &own->stash_bytes, error))
            return false;
    }
    return true;
}

static bool part_charges(struct executor *x, uint32_t index, struct error *error)
{
    const struct plan *plan = x->plan;
    const struct part *part = &plan->parts[index];
    struct part_state *state = &x->parts[index];
    const struct processor *processor =
        platform_processor(x->execution->platform, part->processor);
    struct pass_cost update;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        if (state->uses[pass] &&
            !pass_charges(plan, part, processor, (enum pass)pass, false, &state->passes[pass],
                          error))
            return false;
    if (part->gradient_apart && !pass_charges(plan, part, processor, PASS_BACKWARD, true,
                                              &state->received, error))
        return false;
    if (!plan_part_memory(plan, part, &state->memory, error) ||
        !list_blocks(plan, part, state, error) ||
        !loss_charges(plan, part, processor, &state->losses, error) ||
        !cost_update(plan_shard_parameters(plan, part), plan->optimizer_flops,
                     plan->optimizer_words, &plan->precision, processor, &update, error) ||
        !single_charge(&state->update, &update, error))
        return false;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        if (state->passes[pass].items != NULL)
            stream_charge(processor, state->memory.streamed_weights_bytes,
                          &state->passes[pass]);
    if (state->received.items != NULL)
        stream_charge(processor, state->memory.streamed_weights_bytes, &state->received);
    if (part->trains) /* read and written */
        stream_charge(processor, 2 * state->memory.streamed_bytes, &state->update);
    return true;
}

/* A processor need not know what a pass costs that nobody runs. */
static void note_passes(struct executor *x, const struct code *code)
{
    for (size_t i = 0; i < code->count; i++) {
        struct part_state *state = &x->parts[code->instructions[i].part];
        switch (code->instructions[i].operation) {
        case OP_FORWARD:
            state->uses[PASS_FORWARD] = true;
            break;
        case OP_RECOMPUTE:
            state->uses[PASS_RECOMPUTE] = true;
            break;
        case OP_BACKWARD:
            state->uses[PASS_BACKWARD] = true;
            break;
        case OP_BACKWARD_INPUT:
            state->uses[PASS_BACKWARD_INPUT] = true;
            break;
        case OP_BACKWARD_WEIGHT:
            state->uses[PASS_BACKWARD_WEIGHT] = true;
            break;
        default:
            break;
        }
    }
}

bool charges_create(struct executor *x, struct error *error)
{
    x->parts = checked_calloc(x->plan->part_count, sizeof *x->parts);
    if (x->parts == NULL)
        return error_memory(error, "parts");
    if (!offload_check(x->plan, x->execution->platform, error))
        return false;
    for (size_t i = 0; i < x->plan->stream_count; i++) {
        note_passes(x, &x->plan->streams[i].prologue);
        note_passes(x, &x->plan->streams[i].body);
    }
    for (uint32_t i = 0; i < x->plan->part_count; i++)
        if (!part_charges(x, i, error))
            return false;
    return true;
}

void charges_free(struct executor *x)
{
    for (size_t i = 0; x->parts != NULL && i < x->plan->part_count; i++) {
        for (int pass = 0; pass < PASS_COUNT; pass++)
            free(x->parts[i].passes[pass].items);
        free(x->parts[i].blocks);
        for (size_t k = 0; x->parts[i].losses != NULL && k <= x->plan->parts[i].teacher_count;
             k++)
            free(x->parts[i].losses[k].items);
        free(x->parts[i].losses);
        free(x->parts[i].received.items);
        free(x->parts[i].update.items);
    }
    free(x->parts);
}
