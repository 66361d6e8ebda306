/* Pipelined backprop: the model's stages on a chain of processors, micro-batches through
 * them in the order of a schedule (sim/schedules/). With one stage and one micro-batch at
 * a time it is plain backprop with gradient accumulation, which is why `backprop` lives
 * here too. */
#include "base/checked.h"
#include "sim/methods/chain.h"
#include "sim/schedule.h"

#include <stdlib.h>

struct pipeline {
    struct stages stages;
    const struct schedule *schedule;
    struct chain chain;
};

static void release(struct method *method)
{
    struct pipeline *pipeline = method->parameters;
    if (pipeline != NULL) {
        stages_release(&pipeline->stages);
        chain_release(&pipeline->chain);
    }
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
    pipeline->stages.count = pipeline->stages.processors = 1;
    pipeline->schedule = schedule_get(0);
    pipeline->chain = (struct chain){.gradients = true, .queue_capacity = 2};
    return pipeline;
}

static bool backprop_read(const struct json_at *at, struct method *method,
                          struct error *error)
{
    struct pipeline *pipeline = create(method, error);
    return pipeline != NULL && chain_read_recompute(at, 1, &pipeline->chain, error);
}

static bool read_schedule(const struct json_at *at, struct pipeline *pipeline,
                          struct error *error)
{
    const char *names[16];
    size_t count = schedule_count(), chosen = 0;
    for (size_t i = 0; i < count; i++)
        names[i] = schedule_get(i)->name;
    if (!json_read_choice(at, "schedule", names, count, &chosen, error))
        return false;
    pipeline->schedule = schedule_get(chosen);
    return true;
}

/* A number of stages is one of processors; a list has an entry for each virtual stage. */
static bool read_virtual(const struct json_at *at, struct stages *stages,
                         struct error *error)
{
    uint64_t virtual = 2;
    struct json_at list;
    if (!json_read_u64(at, "virtual", 2, PARTITION_MAX_STAGES, &virtual, error))
        return false;
    if (stages->blocks == NULL)
        stages->count *= (size_t)virtual;
    stages->processors = stages->count / (size_t)virtual;
    if (stages->count > PARTITION_MAX_STAGES)
        return json_fail(at, error, "%zu stages, virtual ones included; %d are possible",
                         stages->count, PARTITION_MAX_STAGES);
    if (stages->processors * virtual == stages->count)
        return true;
    json_optional(at, "stages", &list);
    return json_fail(&list, error,
                     "has %zu stages, which is no multiple of the %llu virtual stages of "
                     "every processor",
                     stages->count, (unsigned long long)virtual);
}

static bool read_stages(const struct json_at *at, struct pipeline *pipeline,
                        struct error *error)
{
    struct json_at member;
    struct stages *stages = &pipeline->stages;
    if (!stages_read(at, 4, stages, error))
        return false;
    stages->processors = stages->count;
    if (pipeline->schedule->virtual_stages)
        return read_virtual(at, stages, error);
    if (json_optional(at, "virtual", &member))
        return json_fail(&member, error, "schedule \"%s\" has no virtual stages",
                         pipeline->schedule->name);
    return true;
}

static bool check_recompute(const struct json_at *at, const struct pipeline *pipeline,
                            struct error *error)
{
    struct json_at member;
    if (!json_optional(at, "recompute", &member))
        return true;
    for (size_t i = 0; i < pipeline->chain.recompute_count; i++)
        if (pipeline->schedule->split_backward &&
            pipeline->chain.recompute[i] == RECOMPUTE_BLOCKS)
            return json_fail(&member, error,
                             "\"blocks\" cannot be used with schedule \"%s\", whose second "
                             "half of backward reads the whole stash; \"none\" and "
                             "\"stage\" are allowed",
                             pipeline->schedule->name);
    return true;
}

static bool pipeline_read(const struct json_at *at, struct method *method,
                          struct error *error)
{
    struct pipeline *pipeline = create(method, error);
    if (pipeline == NULL || !read_schedule(at, pipeline, error) ||
        !read_stages(at, pipeline, error) ||
        !chain_read_recompute(at, pipeline->stages.count, &pipeline->chain, error) ||
        !check_recompute(at, pipeline, error))
        return false;
    struct chain *chain = &pipeline->chain;
    chain->processors = pipeline->stages.processors;
    if (pipeline->schedule->queue_capacity != NULL)
        chain->queue_capacity = pipeline->schedule->queue_capacity(chain->processors);
    return json_read_u64(at, "queue_capacity", 1, 1u << 20, &chain->queue_capacity, error);
}

static struct schedule_place place_of(const struct pipeline *pipeline,
                                      const struct plan *plan, size_t stage)
{
    const struct stages *stages = &pipeline->stages;
    return (struct schedule_place){.processors = stages->processors,
                                   .rank = stage % stages->processors,
                                   .chunks = stages->count / stages->processors,
                                   .micro_batches = plan->micro_batches};
}

/* What the schedule asks of a stage. */
static bool schedule_part(const struct pipeline *pipeline, const struct plan *plan,
                          struct part *part, struct error *error)
{
    const struct schedule *schedule = pipeline->schedule;
    struct schedule_place place = place_of(pipeline, plan, part->stage);
    part->split_backward = schedule->split_backward;
    if (schedule->weight_versions != NULL)
        part->weight_versions = (uint32_t)schedule->weight_versions(&place);
    return schedule_slots(schedule, &place, part->stage / place.processors, &part->slots,
                          error);
}

static bool fill(const void *context, const struct planner *planner, struct part *part,
                 struct error *error)
{
    return schedule_part(context, planner->plan, part, error);
}

static bool demand(const void *context, const struct planner *planner, size_t stage,
                   struct part *part, struct error *error)
{
    const struct pipeline *pipeline = context;
    part->recompute = chain_recompute(&pipeline->chain, stage);
    return schedule_part(pipeline, planner->plan, part, error);
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct pipeline *pipeline = method->parameters;
    const struct stage_demand needs = {pipeline, demand, pipeline->chain.queue_capacity};
    return chain_model_within(planner, &pipeline->stages, &needs, error);
}

static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct pipeline *pipeline = method->parameters;
    const struct chain_stage stage = {pipeline, fill};
    return chain_layout(planner, &pipeline->chain, copy, &stage, error);
}

/* One processor of one copy, while its program is made. */
struct emitter {
    struct plan *plan;
    const struct schedule *schedule;
    struct schedule_place place;
    uint32_t first_part; /* its chunk 0 */
    uint32_t barrier;
};

static uint32_t part_of(const struct emitter *e, const struct task *task)
{
    return e->first_part + task->chunk * (uint32_t)e->place.processors;
}

static bool emit_send(const struct emitter *e, struct code *code, const struct task *task,
                      struct error *error)
{
    if (task->operation == OP_FORWARD)
        return chain_send_forward(e->plan, code, part_of(e, task), task->micro_batch, error);
    if (task->operation == OP_BACKWARD || task->operation == OP_BACKWARD_INPUT)
        return chain_send_backward(e->plan, code, part_of(e, task), task->micro_batch, error);
    return true;
}

static bool emit_run(const struct emitter *e, struct code *code, const struct task *task,
                     struct error *error)
{
    uint32_t part = part_of(e, task);
    switch (task->operation) {
    case OP_FORWARD:
        return chain_run_forward(e->plan, code, part, task->micro_batch, error);
    case OP_BACKWARD:
    case OP_BACKWARD_INPUT:
        return chain_run_backward(e->plan, code, task->operation, part, task->micro_batch,
                                  error);
    default:
        return code_add(code, task->operation, part, PLAN_NONE, task->micro_batch, error);
    }
}

/* In lock step, what was made since the last barrier is sent before the next one. */
static bool emit_tasks(const struct emitter *e, struct code *code,
                       const struct task_list *list, struct error *error)
{
    size_t unsent = 0;
    for (size_t i = 0; i < list->count; i++) {
        bool send = !e->schedule->lock_step || list->tasks[i].operation == OP_BARRIER;
        if (list->tasks[i].operation != OP_BARRIER &&
            !emit_run(e, code, &list->tasks[i], error))
            return false;
        for (; send && unsent <= i; unsent++)
            if (!emit_send(e, code, &list->tasks[unsent], error))
                return false;
        if (list->tasks[i].operation == OP_BARRIER &&
            !code_add(code, OP_BARRIER, e->first_part, e->barrier, 0, error))
            return false;
    }
    return true;
}

static bool emit_processor(const struct emitter *e, struct error *error)
{
    struct task_list prologue = {0}, body = {0};
    struct stream *stream;
    const struct schedule *schedule = e->schedule;
    const struct chain_seat seat = {e->first_part, (uint32_t)e->place.chunks,
                                    (uint32_t)e->place.processors};
    bool done = plan_stream(e->plan, e->plan->parts[e->first_part].processor, &stream, error) &&
                (schedule->prologue == NULL || schedule->prologue(&e->place, &prologue, error)) &&
                schedule->body(&e->place, &body, error) &&
                emit_tasks(e, &stream->prologue, &prologue, error) &&
                emit_tasks(e, &stream->body, &body, error) &&
                chain_updates(e->plan, &stream->body, &seat, 0, error);
    task_list_free(&prologue);
    task_list_free(&body);
    return done;
}

/* A copy is a line of processors, or one for each rank of tensor parallelism. */
static bool emit_copy(const struct pipeline *pipeline, const struct planner *planner,
                      const struct copy copy, struct error *error)
{
    struct plan *plan = planner->plan;
    struct emitter e = {.plan = plan, .schedule = pipeline->schedule, .barrier = PLAN_NONE};
    uint32_t processors = (uint32_t)pipeline->stages.processors;
    if (e.schedule->lock_step &&
        !plan_add_barrier(plan, processors * planner->ranks, &e.barrier, error))
        return false;
    for (uint32_t line = copy.first_part; line < copy.end_part;
         line += (uint32_t)pipeline->stages.count)
        for (uint32_t place = 0; place < processors; place++) {
            e.place = place_of(pipeline, plan, place);
            e.first_part = line + place;
            if (!emit_processor(&e, error))
                return false;
        }
    return true;
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    for (uint32_t copy = first; copy < end; copy++)
        if (!emit_copy(method->parameters, planner, planner->plan->copies[copy], error))
            return false;
    return true;
}

static const char *const backprop_keys[] = {"recompute"};
static const char *const pipeline_keys[] = {"stages", "schedule", "virtual", "recompute",
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
    .summary = "pipelined backprop: stages on a chain of processors, in one of several schedules",
    .keys = pipeline_keys,
    .key_count = sizeof pipeline_keys / sizeof pipeline_keys[0],
    .read = pipeline_read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
};
