#include "sim/plan.h"

#include "base/checked.h"
#include "sim/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *operation_name(enum operation operation)
{
    static const char *const names[OP_COUNT] = {
        [OP_LOAD] = "load",
        [OP_FORWARD] = "forward",
        [OP_RECOMPUTE] = "recompute",
        [OP_LOSS] = "loss",
        [OP_BACKWARD] = "backward",
        [OP_BACKWARD_INPUT] = "backward input",
        [OP_BACKWARD_WEIGHT] = "backward weight",
        [OP_BACKWARD_RECEIVED] = "backward received",
        [OP_SEND] = "send",
        [OP_RECEIVE] = "receive",
        [OP_POLL] = "poll",
        [OP_COLLECTIVE] = "collective",
        [OP_BARRIER] = "barrier",
        [OP_UPDATE] = "update",
    };
    return names[operation];
}

const char *payload_name(enum payload payload)
{
    static const char *const names[PAYLOAD_COUNT] = {
        "activations", "gradients", "predictions", "parameters", "pieces", "signal"};
    return names[payload];
}

struct plan *plan_create(const char *name, const char *kind, struct error *error)
{
    struct plan *plan = checked_calloc(1, sizeof *plan);
    if (plan == NULL) {
        error_memory(error, "plan");
        return NULL;
    }
    snprintf(plan->name, sizeof plan->name, "%s", name);
    plan->kind = kind;
    plan->updates = 1;
    optimizer_defaults(&plan->optimizer);
    return plan;
}

static void code_free(struct code *code)
{
    free(code->instructions);
}

void plan_free(struct plan *plan)
{
    if (plan == NULL)
        return;
    for (size_t i = 0; i < plan->part_count; i++) {
        free(plan->parts[i].teacher_edges);
        free(plan->parts[i].pupil_edges);
        free(plan->parts[i].ties);
        free(plan->parts[i].forward_sums.sums);
        free(plan->parts[i].backward_sums.sums);
        free(plan->parts[i].sums);
        free(plan->parts[i].gathers);
        free(plan->parts[i].buckets);
        free(plan->parts[i].beside);
        free(plan->parts[i].checkpoint_edges);
    }
    for (size_t i = 0; i < plan->stream_count; i++) {
        code_free(&plan->streams[i].prologue);
        code_free(&plan->streams[i].body);
    }
    for (size_t i = 0; i < plan->collective_count; i++) {
        free(plan->collectives[i].parts);
        free(plan->collectives[i].firsts);
        free(plan->collectives[i].tied);
        free(plan->collectives[i].rings);
        free(plan->collectives[i].places);
        free(plan->collectives[i].edges);
    }
    for (size_t i = 0; i < plan->bundle_count; i++)
        free(plan->bundles[i].edges);
    free(plan->bundles);
    free(plan->collectives);
    free(plan->barriers);
    free(plan->main_stream);
    free(plan->copies);
    free(plan->parts);
    free(plan->edges);
    free(plan->streams);
    free(plan->slices);
    free(plan->groups);
    model_free(plan->model);
    free(plan);
}

/* Appends one item; its index comes back. */
static bool append(void **array, size_t *count, size_t *capacity, size_t bytes,
                   const void *item, uint32_t *index, struct error *error)
{
    if (*count >= PLAN_NONE || !checked_grow(array, capacity, *count + 1, bytes))
        return error_memory(error, "plan");
    memcpy((char *)*array + *count * bytes, item, bytes);
    *index = (uint32_t)*count;
    *count += 1;
    return true;
}

bool plan_add_copy(struct plan *plan, const struct copy *copy, uint32_t *index,
                   struct error *error)
{
    return append((void **)&plan->copies, &plan->copy_count, &plan->copy_capacity,
                  sizeof *copy, copy, index, error);
}

bool plan_add_part(struct plan *plan, const struct part *part, uint32_t *index,
                   struct error *error)
{
    return append((void **)&plan->parts, &plan->part_count, &plan->part_capacity,
                  sizeof *part, part, index, error);
}

static bool message_count(const struct plan *plan, uint32_t from_part, enum payload payload,
                          uint64_t *count, struct error *error)
{
    const struct part *from = &plan->parts[from_part];
    uint64_t per_sample = 0;
    switch (payload) {
    case PAYLOAD_ACTIVATIONS:
        per_sample = model_crossing_count(plan->model, from->end_layer);
        break;
    case PAYLOAD_GRADIENTS:
        per_sample = model_gradient_crossing_count(plan->model, from->first_layer);
        break;
    case PAYLOAD_PREDICTIONS:
        per_sample = shape_count(model_value_shape(plan->model, from->logits_value));
        break;
    case PAYLOAD_PARAMETERS:
        *count = plan_part_parameters(plan, from);
        return true;
    default: /* signals carry nothing; pieces are sized by their collective */
        break;
    }
    if (!checked_multiply(per_sample, plan->micro_batch, count))
        return error_set(error, STATUS_BAD_INPUT, "%s: a message exceeds 2^64 scalars",
                         plan->name);
    return true;
}

uint64_t plan_word_bytes(const struct plan *plan, enum payload payload)
{
    /* Gradients of activations travel in the activations' format. */
    return number_format_bytes(payload == PAYLOAD_PARAMETERS ? plan->precision.weights
                               : payload == PAYLOAD_PIECES   ? plan->precision.gradients
                                                             : plan->precision.activations);
}

bool plan_add_edge(struct plan *plan, uint32_t from_part, uint32_t to_part,
                   enum payload payload, uint64_t capacity, uint32_t *index,
                   struct error *error)
{
    struct edge edge = {
        .from_part = from_part,
        .to_part = to_part,
        .from_processor = plan->parts[from_part].processor,
        .to_processor = plan->parts[to_part].processor,
        .payload = payload,
        .capacity = capacity,
        .bundle = PLAN_NONE,
    };
    if (!message_count(plan, from_part, payload, &edge.message_count, error))
        return false;
    if (!checked_multiply(edge.message_count, plan_word_bytes(plan, payload),
                          &edge.message_bytes))
        return error_set(error, STATUS_BAD_INPUT, "%s: a message exceeds 2^64 bytes",
                         plan->name);
    return append((void **)&plan->edges, &plan->edge_count, &plan->edge_capacity, sizeof edge,
                  &edge, index, error);
}

static bool main_streams(struct plan *plan, struct error *error)
{
    if (plan->main_stream != NULL)
        return true;
    plan->main_stream = checked_calloc(plan->processor_count, sizeof *plan->main_stream);
    if (plan->main_stream == NULL)
        return error_memory(error, "streams");
    for (size_t i = 0; i < plan->processor_count; i++)
        plan->main_stream[i] = PLAN_NONE;
    return true;
}

bool plan_stream(struct plan *plan, uint32_t processor, struct stream **stream,
                 struct error *error)
{
    struct stream fresh = {.processor = processor};
    if (!main_streams(plan, error))
        return false;
    uint32_t *index = &plan->main_stream[processor];
    if (*index == PLAN_NONE &&
        !append((void **)&plan->streams, &plan->stream_count, &plan->stream_capacity,
                sizeof fresh, &fresh, index, error))
        return false;
    *stream = &plan->streams[*index];
    return true;
}

bool plan_add_stream(struct plan *plan, uint32_t processor, struct stream **stream,
                     struct error *error)
{
    struct stream fresh = {.processor = processor};
    uint32_t index = 0;
    for (size_t i = 0; i < plan->stream_count; i++)
        fresh.number += plan->streams[i].processor == processor;
    if (!append((void **)&plan->streams, &plan->stream_count, &plan->stream_capacity,
                sizeof fresh, &fresh, &index, error))
        return false;
    *stream = &plan->streams[index];
    return true;
}

bool plan_add_barrier(struct plan *plan, uint32_t members, uint32_t *index,
                      struct error *error)
{
    const struct barrier barrier = {members};
    return append((void **)&plan->barriers, &plan->barrier_count, &plan->barrier_capacity,
                  sizeof barrier, &barrier, index, error);
}

bool plan_add_bundle(struct plan *plan, uint32_t *index, struct error *error)
{
    const struct bundle bundle = {0};
    return append((void **)&plan->bundles, &plan->bundle_count, &plan->bundle_capacity,
                  sizeof bundle, &bundle, index, error);
}

bool plan_bundle_edge(struct plan *plan, uint32_t bundle, uint32_t edge, struct error *error)
{
    plan->edges[edge].bundle = bundle;
    return plan_note_collective(&plan->bundles[bundle].edges,
                                &plan->bundles[bundle].edge_count, edge, error);
}

size_t plan_processors_used(const struct plan *plan)
{
    size_t used = 0;
    for (size_t i = 0; i < plan->stream_count; i++)
        used += plan->streams[i].number == 0;
    return used;
}

void code_layers(struct code *code, size_t first_layer, size_t end_layer)
{
    struct instruction *last = &code->instructions[code->count - 1];
    last->first_layer = (uint32_t)first_layer;
    last->end_layer = (uint32_t)end_layer;
}

void code_every(struct code *code, uint64_t every)
{
    code->instructions[code->count - 1].every = every;
}

void code_from(struct code *code, uint64_t step)
{
    code->instructions[code->count - 1].from_step = step;
}

double teaching_alpha(const struct teaching *teaching, uint64_t step)
{
    double done = (double)(step - teaching->burn_in_steps) + 1;
    if (step < teaching->burn_in_steps)
        return 0;
    switch (teaching->schedule) {
    case ALPHA_RAMP:
        return done < (double)teaching->schedule_steps
                   ? teaching->alpha * done / (double)teaching->schedule_steps
                   : teaching->alpha;
    case ALPHA_DELAYED:
        return step < teaching->schedule_steps ? 0 : teaching->alpha;
    default:
        return teaching->alpha;
    }
}

bool code_add(struct code *code, enum operation operation, uint32_t part, uint32_t target,
              int64_t micro_batch, struct error *error)
{
    if (!checked_grow((void **)&code->instructions, &code->capacity, code->count + 1,
                      sizeof *code->instructions))
        return error_memory(error, "program");
    code->instructions[code->count++] = (struct instruction){
        .operation = operation, .part = part, .target = target, .micro_batch = micro_batch};
    return true;
}

uint64_t plan_part_parameters(const struct plan *plan, const struct part *part)
{
    return model_run_parameter_count(plan->model, part->first_layer, part->end_layer);
}

size_t plan_part_seeds(const struct plan *plan, const struct part *part, bool received,
                       size_t seeds[MODEL_MAX_CROSSING + 1])
{
    size_t crossing[MODEL_MAX_CROSSING], count = 0;
    size_t crossings = model_crossing(plan->model, part->end_layer, crossing);
    if (part->has_loss && !received)
        seeds[count++] = part->logits_value;
    for (size_t i = 0; part->gradient_in && part->gradient_apart == received && i < crossings;
         i++)
        seeds[count++] = crossing[i];
    return count;
}

size_t plan_bucket_count(const struct part *part)
{
    return part->buckets == NULL ? 1 : part->bucket_count;
}

struct bucket plan_bucket(const struct plan *plan, const struct part *part, size_t index)
{
    if (part->buckets != NULL)
        return part->buckets[index];
    return (struct bucket){(uint32_t)part->first_layer, (uint32_t)part->end_layer, 0,
                           plan_part_parameters(plan, part)};
}

void plan_shard_stretch(const struct plan *plan, const struct part *part, size_t bucket,
                        uint64_t *first, uint64_t *count)
{
    struct bucket b = plan_bucket(plan, part, bucket);
    *first = 0;
    *count = b.count;
    if (part->shards > 1)
        collective_piece(b.count, part->shards, part->shard, first, count);
    *first += b.first;
}

uint64_t plan_shard_parameters(const struct plan *plan, const struct part *part)
{
    uint64_t sum = 0, first, count;
    for (size_t i = 0; i < plan_bucket_count(part); i++) {
        plan_shard_stretch(plan, part, i, &first, &count);
        sum += count;
    }
    return sum;
}

bool plan_note_collective(uint32_t **list, size_t *count, uint32_t collective,
                          struct error *error)
{
    size_t capacity = *count;
    if (!checked_grow((void **)list, &capacity, *count + 1, sizeof **list))
        return error_memory(error, "collectives");
    (*list)[(*count)++] = collective;
    return true;
}

void plan_reach(const struct plan *plan, uint64_t *back_steps, uint64_t *ahead_steps)
{
    const uint64_t m = plan->micro_batches > 0 ? plan->micro_batches : 1;
    int64_t first = 0, last = 0;
    for (size_t s = 0; s < plan->stream_count; s++) {
        const struct code *body = &plan->streams[s].body;
        for (size_t i = 0; i < body->count; i++) {
            int64_t number = body->instructions[i].micro_batch;
            first = number < first ? number : first;
            last = number > last ? number : last;
        }
    }
    *back_steps = ((uint64_t)-first + m - 1) / m;
    *ahead_steps = (uint64_t)last / m;
}

bool plan_takes_place(const struct plan *plan, const struct instruction *i, uint64_t step,
                      uint64_t steps)
{
    if (i->every > 1 && (step + 1) % i->every != 0)
        return false;
    if (i->from_step > step &&
        (i->micro_batch < 0 ||
         (uint64_t)i->micro_batch / plan->micro_batches < i->from_step - step))
        return false;
    if (i->micro_batch < 0)
        return (uint64_t)-i->micro_batch <= step * plan->micro_batches;
    return (uint64_t)i->micro_batch < (steps - step) * plan->micro_batches;
}

void instruction_text(const struct plan *plan, const struct instruction *instruction,
                      char *text, size_t bytes)
{
    const char *name = operation_name(instruction->operation);
    const struct part *part = &plan->parts[instruction->part];
    bool talks = instruction->operation == OP_SEND || instruction->operation == OP_RECEIVE ||
                 instruction->operation == OP_POLL;
    if (talks) {
        const struct edge *edge = &plan->edges[instruction->target];
        snprintf(text, bytes, "%s %s of micro-batch %lld, processor %u to %u", name,
                 payload_name(edge->payload), (long long)instruction->micro_batch,
                 edge->from_processor, edge->to_processor);
        return;
    }
    snprintf(text, bytes, "%s of micro-batch %lld, stage %u", name,
             (long long)instruction->micro_batch, part->stage);
}
