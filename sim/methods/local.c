/* Local parallelism (Laskin, Metz et al. 2020): a gradient stop at every chunk boundary.
 * Each chunk has a head and a loss of its own, sends activations forward only, and goes
 * on to the next micro-batch without waiting for anybody behind or ahead of it but the
 * bounded queues. Granularities:
 *   chunked      chunks of several blocks: a stage, or "heads_every" blocks
 *   layerwise    every block is a chunk
 *   overlapping  a chunk also receives the gradient of the next chunk's loss, and of that
 *                one only: it goes no further back
 *   last         only the last chunk trains, on what the others, as they were at the
 *                start, make of the input; a baseline */
#include "base/checked.h"
#include "sim/methods/chain.h"

#include <stdlib.h>

enum granularity { CHUNKED, LAYERWISE, OVERLAPPING, LAST, GRANULARITIES };
static const char *const granularity_names[] = {"chunked", "layerwise", "overlapping",
                                                "last"};

struct local {
    enum granularity granularity;
    struct stages stages;
    const char *head; /* borrowed from the table */
    const struct loss_kind *loss;
    uint64_t heads_every;  /* blocks of a chunk; 0: a chunk is a stage */
    uint64_t update_every; /* micro-batches; 0: all of a step */
    bool synchronous;
    struct chain chain;
};

static void release(struct method *method)
{
    struct local *local = method->parameters;
    if (local != NULL)
        stages_release(&local->stages);
    free(local);
}

static bool read_chunks(const struct json_at *at, struct local *local, struct error *error)
{
    struct json_at member;
    size_t chosen = CHUNKED;
    if (!json_read_choice(at, "granularity", granularity_names, GRANULARITIES, &chosen,
                          error))
        return false;
    local->granularity = (enum granularity)chosen;
    local->heads_every = chosen == LAYERWISE || chosen == OVERLAPPING;
    if (!stages_read(at, 4, &local->stages, error) ||
        !json_read_u64(at, "heads_every", 0, MODEL_MAX_LAYERS, &local->heads_every, error))
        return false;
    if (chosen == LAYERWISE && local->heads_every != 1)
        return json_optional(at, "heads_every", &member) &&
               json_fail(&member, error,
                         "layerwise means a head after every block; \"chunked\" takes one "
                         "after several");
    local->stages.every = (size_t)local->heads_every;
    return true;
}

static bool read_head(const struct json_at *at, struct local *local, struct error *error)
{
    const char *heads[16], *losses[16];
    size_t head_count = model_head_kind_count(), loss_count = loss_kind_count();
    size_t head = 0, loss = 0;
    for (size_t i = 0; i < head_count; i++)
        heads[i] = model_head_kind_name(i);
    for (size_t i = 0; i < loss_count; i++)
        losses[i] = loss_kind_get(i)->name;
    if (!json_read_choice(at, "head", heads, head_count, &head, error) ||
        !json_read_choice(at, "loss", losses, loss_count, &loss, error))
        return false;
    local->head = heads[head];
    local->loss = loss_kind_get(loss);
    return true;
}

static bool read(const struct json_at *at, struct method *method, struct error *error)
{
    struct json_at member;
    struct local *local = checked_calloc(1, sizeof *local);
    method->parameters = local;
    if (local == NULL)
        return error_memory(error, "method");
    local->chain.queue_capacity = 2;
    if (!read_chunks(at, local, error))
        return false;
    local->chain.gradients = local->granularity == OVERLAPPING;
    if (local->granularity == LAST &&
        (json_optional(at, "head", &member) || json_optional(at, "loss", &member)))
        return json_fail(&member, error, "has no effect: with \"last\" there are no heads");
    if (local->granularity != LAST && !read_head(at, local, error))
        return false;
    return (!json_optional(at, "update_every", &member) ||
            json_u64(&member, 1, UINT64_C(1) << 40, &local->update_every, error)) &&
           json_read_boolean(at, "synchronous", &local->synchronous, error) &&
           json_read_u64(at, "queue_capacity", 1, 1u << 20, &local->chain.queue_capacity,
                         error);
}

/* Heads after the planner's chunks. */
static bool add_heads(const struct local *local, struct planner *planner,
                      struct error *error)
{
    size_t *body = checked_calloc(planner->stage_count, sizeof *body);
    if (body == NULL)
        return error_memory(error, "heads");
    model_free(planner->plan->model);
    planner->plan->model =
        model_with_heads(planner->model, planner->end_block, planner->stage_count,
                         local->head, planner->head_value, body, error);
    free(body);
    return planner->plan->model != NULL;
}

/* The processors' ends fall on chunks' ends; heads count in what a block costs. */
static bool seat_chunks(const struct local *local, struct planner *planner,
                        struct error *error)
{
    size_t *end_block = checked_calloc(local->stages.count, sizeof *end_block);
    planner->seat = checked_calloc(planner->stage_count, sizeof *planner->seat);
    bool done =
        (end_block != NULL && planner->seat != NULL) || error_memory(error, "chunks");
    done = done && stages_cut(&local->stages, NULL, planner, end_block, error);
    for (size_t chunk = 0, seat = 0; done && chunk < planner->stage_count; chunk++) {
        while (end_block[seat] < planner->end_block[chunk])
            seat++;
        planner->seat[chunk] = seat;
    }
    free(end_block);
    return done;
}

static bool chunk_model(const struct local *local, struct planner *planner,
                        struct error *error)
{
    const struct model *model = planner->model;
    size_t every = (size_t)local->heads_every;
    if (every == 0)
        return chain_model(planner, &local->stages, error) &&
               (local->granularity == LAST || add_heads(local, planner, error));
    struct stages chunks = {.count = model->block_count / every +
                                     (model->block_count % every != 0)};
    chunks.blocks = checked_calloc(chunks.count, sizeof *chunks.blocks);
    if (chunks.blocks == NULL)
        return error_memory(error, "chunks");
    for (size_t i = 0; i < chunks.count; i++)
        chunks.blocks[i] = i + 1 < chunks.count ? every : model->block_count - i * every;
    bool done = chain_model(planner, &chunks, error) &&
                (local->granularity == LAST || add_heads(local, planner, error)) &&
                seat_chunks(local, planner, error);
    stages_release(&chunks);
    return done;
}

static bool set_updates(const struct local *local, struct plan *plan, struct error *error)
{
    if (local->update_every == 0)
        return true;
    if (plan->micro_batches % local->update_every != 0)
        return error_set(error, STATUS_BAD_INPUT,
                         "update_every %llu does not divide the step's %llu micro-batches",
                         (unsigned long long)local->update_every,
                         (unsigned long long)plan->micro_batches);
    plan->updates = plan->micro_batches / local->update_every;
    optimizer_count_updates(&plan->optimizer, plan->updates);
    return true;
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct local *local = method->parameters;
    return set_updates(local, planner->plan, error) && chunk_model(local, planner, error);
}

static bool fill(const void *context, const struct planner *planner, struct part *part,
                 struct error *error)
{
    const struct local *local = context;
    const struct plan *plan = planner->plan;
    (void)error;
    part->slots = 1;
    part->gradient_apart = part->gradient_in;
    /* What comes in is treated one micro-batch late, when it is there without waiting. */
    if (part->gradient_apart && plan->micro_batches / plan->updates > 1)
        part->slots = 2;
    if (!part->final_loss) {
        part->trains = local->granularity != LAST;
        part->loss = local->loss;
    }
    return true;
}

static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct local *local = method->parameters;
    const struct chain_stage stage = {local, fill};
    return chain_layout(planner, &local->chain, copy, &stage, error);
}

/* The chunks of one processor. */
struct seat {
    struct plan *plan;
    struct code *code;
    uint32_t first, end; /* parts */
};

static bool emit_micro_batch(const struct seat *seat, int64_t micro_batch,
                             struct error *error)
{
    for (uint32_t p = seat->first; p < seat->end; p++)
        if (!chain_forward(seat->plan, seat->code, p, micro_batch, error) ||
            (seat->plan->parts[p].trains &&
             !chain_backward(seat->plan, seat->code, p, micro_batch, error)))
            return false;
    return true;
}

static bool emit_received(const struct seat *seat, int64_t micro_batch, struct error *error)
{
    for (uint32_t p = seat->first; p < seat->end; p++)
        if (seat->plan->parts[p].gradient_apart &&
            !chain_received(seat->plan, seat->code, p, micro_batch, error))
            return false;
    return true;
}

/* The micro-batches of one update. */
static bool emit_update(const struct seat *seat, uint64_t first, uint64_t count,
                        struct error *error)
{
    for (uint64_t i = first; i < first + count; i++)
        if (!emit_micro_batch(seat, (int64_t)i, error) ||
            (i > first && !emit_received(seat, (int64_t)i - 1, error)))
            return false;
    if (!emit_received(seat, (int64_t)(first + count) - 1, error))
        return false;
    const struct chain_seat all = {seat->first, seat->end - seat->first, 1};
    return chain_updates(seat->plan, seat->code, &all, (int64_t)first, error);
}

static bool emit_seat(struct plan *plan, uint32_t first, uint32_t end, uint32_t barrier,
                      struct error *error)
{
    struct stream *stream;
    uint64_t each = plan->micro_batches / plan->updates;
    if (!plan_stream(plan, plan->parts[first].processor, &stream, error))
        return false;
    const struct seat seat = {plan, &stream->body, first, end};
    for (uint64_t i = 0; i < plan->micro_batches; i += each)
        if (!emit_update(&seat, i, each, error))
            return false;
    return barrier == PLAN_NONE ||
           code_add(seat.code, OP_BARRIER, first, barrier, 0, error);
}

static uint32_t seat_end(const struct plan *plan, uint32_t first, uint32_t end)
{
    uint32_t next = first;
    while (next < end && plan->parts[next].processor == plan->parts[first].processor)
        next++;
    return next;
}

static bool emit_copy(const struct local *local, struct plan *plan, const struct copy copy,
                      struct error *error)
{
    uint32_t barrier = PLAN_NONE, seats = 0;
    for (uint32_t p = copy.first_part; p < copy.end_part;
         p = seat_end(plan, p, copy.end_part))
        seats++;
    if (local->synchronous && !plan_add_barrier(plan, seats, &barrier, error))
        return false;
    for (uint32_t p = copy.first_part, end; p < copy.end_part; p = end) {
        end = seat_end(plan, p, copy.end_part);
        if (!emit_seat(plan, p, end, barrier, error))
            return false;
    }
    return true;
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    for (uint32_t copy = first; copy < end; copy++)
        if (!emit_copy(method->parameters, planner->plan, planner->plan->copies[copy],
                       error))
            return false;
    return true;
}

static const char *const keys[] = {"granularity", "stages",        "heads_every",
                                   "head",        "loss",          "update_every",
                                   "synchronous", "queue_capacity"};

const struct method_kind method_local = {
    .name = "local",
    .summary =
        "local parallelism: a head and a loss for every chunk, activations go forward only",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .read = read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
};
