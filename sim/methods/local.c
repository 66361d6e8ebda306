/* Local parallelism (Laskin, Metz et al. 2020): a gradient stop at every chunk boundary.
 * Each chunk has a head and a loss of its own, sends activations forward only, and goes
 * on to the next micro-batch without waiting for anybody behind or ahead of it but the
 * bounded queues. */
#include "base/checked.h"
#include "sim/methods/chain.h"

#include <stdlib.h>

struct local {
    struct stages stages;
    const char *head; /* borrowed from the experiment's tree */
    struct chain chain;
};

static void release(struct method *method)
{
    struct local *local = method->parameters;
    if (local != NULL)
        stages_release(&local->stages);
    free(local);
}

static bool read(const struct json_at *at, struct method *method, struct error *error)
{
    struct local *local = checked_calloc(1, sizeof *local);
    method->parameters = local;
    if (local == NULL)
        return error_memory(error, "method");
    local->head = "auto";
    local->chain.queue_capacity = 2;
    return stages_read(at, 4, &local->stages, error) &&
           json_read_string(at, "head", &local->head, error) &&
           json_read_u64(at, "queue_capacity", 1, 1u << 20, &local->chain.queue_capacity,
                         error);
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct local *local = method->parameters;
    if (!chain_model(planner, &local->stages, error))
        return false;
    size_t *body = checked_calloc(planner->stage_count, sizeof *body);
    if (body == NULL)
        return error_memory(error, "heads");
    model_free(planner->plan->model);
    planner->plan->model =
        model_with_heads(planner->setting->model, planner->end_block, planner->stage_count,
                         local->head, planner->head_value, body, error);
    free(body);
    return planner->plan->model != NULL;
}

static uint32_t slots(const void *context, size_t stage)
{
    (void)context;
    (void)stage;
    return 1;
}

static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct local *local = method->parameters;
    return chain_layout(planner, &local->chain, copy, slots, NULL, error);
}

static bool emit_chunk(struct plan *plan, uint32_t part, struct error *error)
{
    struct stream *stream;
    if (!plan_stream(plan, plan->parts[part].processor, &stream, error))
        return false;
    for (uint64_t i = 0; i < plan->micro_batches; i++)
        if (!chain_forward(plan, &stream->body, part, (int64_t)i, error) ||
            !chain_backward(plan, &stream->body, part, (int64_t)i, error))
            return false;
    return chain_update(plan, &stream->body, part, error);
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    struct plan *plan = planner->plan;
    (void)method;
    for (uint32_t copy = first; copy < end; copy++)
        for (uint32_t p = plan->copies[copy].first_part; p < plan->copies[copy].end_part; p++)
            if (!emit_chunk(plan, p, error))
                return false;
    return true;
}

static const char *const keys[] = {"stages", "head", "queue_capacity"};

const struct method_kind method_local = {
    .name = "local",
    .summary = "local parallelism: a head and a loss for every chunk, activations go forward only",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .read = read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
};
