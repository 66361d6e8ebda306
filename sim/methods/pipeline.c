/* Pipelined backprop: the model's stages on a chain of processors, micro-batches through
 * them, one update after the flush. With one stage and one micro-batch at a time it is
 * plain backprop with gradient accumulation, which is why `backprop` lives here too.
 *
 * A schedule says in which order a stage runs its forwards and backwards:
 *   gpipe  all forwards, then all backwards (Huang et al. 2019)
 *   1f1b   as few forwards ahead as the depth needs, then one backward, one forward
 *          (Narayanan et al. 2019, with a flush) */
#include "base/checked.h"
#include "sim/methods/chain.h"

#include <stdlib.h>

struct schedule {
    const char *name;
    /* Forwards that stage `stage` of `stages` runs before its first backward. */
    uint64_t (*ahead)(uint64_t stages, uint64_t stage, uint64_t micro_batches);
};

static uint64_t gpipe_ahead(uint64_t stages, uint64_t stage, uint64_t micro_batches)
{
    (void)stages;
    (void)stage;
    return micro_batches;
}

static uint64_t one_forward_one_backward_ahead(uint64_t stages, uint64_t stage,
                                               uint64_t micro_batches)
{
    uint64_t ahead = stages - stage;
    return ahead < micro_batches ? ahead : micro_batches;
}

static const struct schedule schedules[] = {
    {"gpipe", gpipe_ahead},
    {"1f1b", one_forward_one_backward_ahead},
};
enum { SCHEDULES = sizeof schedules / sizeof schedules[0] };

struct pipeline {
    struct stages stages;
    const struct schedule *schedule;
    struct chain chain;
};

struct slots_context {
    const struct pipeline *pipeline;
    uint64_t micro_batches;
};

static void release(struct method *method)
{
    struct pipeline *pipeline = method->parameters;
    if (pipeline != NULL)
        stages_release(&pipeline->stages);
    free(pipeline);
}

static struct pipeline *create(struct method *method, struct error *error)
{
    struct pipeline *pipeline = checked_calloc(1, sizeof *pipeline);
    method->parameters = pipeline;
    if (pipeline == NULL) {
        error_memory(error, "method");
        return NULL;
    }
    pipeline->stages.count = 1;
    pipeline->schedule = &schedules[1];
    pipeline->chain = (struct chain){.gradients = true, .queue_capacity = 2};
    return pipeline;
}

static bool read_recompute(const struct json_at *at, struct pipeline *pipeline,
                           struct error *error)
{
    static const char *const names[] = {"none", "stage"};
    size_t chosen = 0;
    if (!json_read_choice(at, "recompute", names, 2, &chosen, error))
        return false;
    pipeline->chain.recompute = chosen == 1;
    return true;
}

static bool backprop_read(const struct json_at *at, struct method *method,
                          struct error *error)
{
    struct pipeline *pipeline = create(method, error);
    return pipeline != NULL && read_recompute(at, pipeline, error);
}

static bool pipeline_read(const struct json_at *at, struct method *method,
                          struct error *error)
{
    const char *names[SCHEDULES];
    size_t chosen = 0;
    struct pipeline *pipeline = create(method, error);
    for (size_t i = 0; i < SCHEDULES; i++)
        names[i] = schedules[i].name;
    if (pipeline == NULL || !stages_read(at, 4, &pipeline->stages, error) ||
        !json_read_choice(at, "schedule", names, SCHEDULES, &chosen, error) ||
        !read_recompute(at, pipeline, error))
        return false;
    pipeline->schedule = &schedules[chosen];
    return json_read_u64(at, "queue_capacity", 1, 1u << 20, &pipeline->chain.queue_capacity,
                         error);
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct pipeline *pipeline = method->parameters;
    return chain_model(planner, &pipeline->stages, error);
}

static uint32_t slots(const void *context, size_t stage)
{
    const struct slots_context *c = context;
    return (uint32_t)c->pipeline->schedule->ahead(c->pipeline->stages.count, stage,
                                                  c->micro_batches);
}

static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct pipeline *pipeline = method->parameters;
    struct slots_context context = {pipeline, planner->plan->micro_batches};
    return chain_layout(planner, &pipeline->chain, copy, slots, &context, error);
}

static bool emit_stage(const struct pipeline *pipeline, struct plan *plan, uint32_t part,
                       struct error *error)
{
    struct stream *stream;
    if (!plan_stream(plan, plan->parts[part].processor, &stream, error))
        return false;
    struct code *body = &stream->body;
    uint64_t total = plan->micro_batches;
    uint64_t ahead =
        pipeline->schedule->ahead(pipeline->stages.count, plan->parts[part].stage, total);
    uint64_t forwards = 0;
    for (uint64_t backwards = 0; backwards < total; backwards++) {
        for (; forwards < total && forwards < backwards + ahead; forwards++)
            if (!chain_forward(plan, body, part, (int64_t)forwards, error))
                return false;
        if (!chain_backward(plan, body, part, (int64_t)backwards, error))
            return false;
    }
    return chain_update(plan, body, part, error);
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    struct plan *plan = planner->plan;
    for (uint32_t copy = first; copy < end; copy++)
        for (uint32_t p = plan->copies[copy].first_part; p < plan->copies[copy].end_part; p++)
            if (!emit_stage(method->parameters, plan, p, error))
                return false;
    return true;
}

static const char *const backprop_keys[] = {"recompute"};
static const char *const pipeline_keys[] = {"stages", "schedule", "recompute",
                                            "queue_capacity"};

const struct method_kind method_backprop = {
    .name = "backprop",
    .summary = "plain backprop on one processor, gradients accumulated over micro-batches",
    .keys = backprop_keys,
    .key_count = sizeof backprop_keys / sizeof backprop_keys[0],
    .read = backprop_read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
};

const struct method_kind method_pipeline = {
    .name = "pipeline",
    .summary = "pipelined backprop: stages on a chain of processors, a flush per update",
    .keys = pipeline_keys,
    .key_count = sizeof pipeline_keys / sizeof pipeline_keys[0],
    .read = pipeline_read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
};
