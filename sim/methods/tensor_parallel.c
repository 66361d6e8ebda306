/* Tensor parallelism (Shoeybi et al. 2019, section 3): every rank computes its columns,
 * rows and heads of each layer that is split, on all samples, and everything else in full.
 * A rank's parts are the runs of layers between two sums over the ranks; they are on one
 * processor and hand over through edges of the processor to itself. */
#include "engine/model_shard.h"
#include "sim/collective.h"
#include "sim/methods/chain.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

struct tensor_parallel {
    uint64_t ranks;
    const struct collective_algorithm *algorithm;
};

static void release(struct method *method)
{
    free(method->parameters);
}

static bool read(const struct json_at *at, struct method *method, struct error *error)
{
    static const char *const algorithms[] = {"ring", "recursive_doubling"};
    struct tensor_parallel *t = checked_calloc(1, sizeof *t);
    size_t algorithm = 0;
    method->parameters = t;
    if (t == NULL)
        return error_memory(error, "method");
    t->ranks = 2;
    if (!json_read_u64(at, "ranks", 1, 1u << 16, &t->ranks, error) ||
        !json_read_choice(at, "all_reduce", algorithms, 2, &algorithm, error))
        return false;
    t->algorithm = collective_algorithm_find(algorithms[algorithm]);
    return true;
}

static bool check(const struct planner *planner, struct error *error)
{
    const struct model *model = planner->setting->model;
    for (size_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].tied_to != SIZE_MAX)
            return error_set(error, STATUS_BAD_INPUT,
                             "layer \"%s\" shares its weights with another layer, which "
                             "tensor_parallel does not do; untie them (transformers: "
                             "\"tied\": false)",
                             model->layers[i].name);
    if (strcmp(optimizer_kind_name(planner->setting->optimizer.kind), "lars") == 0)
        return error_set(error, STATUS_BAD_INPUT,
                         "lars needs the norm of whole tensors, of which a rank holds a "
                         "slice");
    return true;
}

/* The layers before which a part ends: planner->end_block, which here counts layers. */
static bool cut(struct planner *planner, struct error *error)
{
    const struct plan *plan = planner->plan;
    size_t layers = plan->model->layer_count, count = 0;
    planner->end_block = checked_calloc(2 * plan->group_count + 1, sizeof(size_t));
    if (planner->end_block == NULL)
        return error_memory(error, "stages");
    for (size_t i = 0; i < plan->group_count; i++) {
        const struct split_group *group = &plan->groups[i];
        size_t before = count > 0 ? planner->end_block[count - 1] : 0;
        if (group->gradient && group->first_layer > before)
            planner->end_block[count++] = group->first_layer;
        planner->end_block[count++] = group->end_layer;
    }
    if (count == 0 || planner->end_block[count - 1] < layers)
        planner->end_block[count++] = layers;
    planner->stage_count = count;
    return true;
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct tensor_parallel *t = method->parameters;
    struct plan *plan = planner->plan;
    struct model_shard shard = {0};
    if (t->ranks == 1) {
        plan->model = model_copy(planner->setting->model, error);
        return plan->model != NULL && cut(planner, error);
    }
    if (check(planner, error) &&
        model_shard_make(planner->setting->model, (uint32_t)t->ranks, &shard, error)) {
        plan->model = shard.model;
        plan->slices = shard.slices;
        plan->slice_count = shard.slice_count;
        plan->slice_ranks = (uint32_t)t->ranks;
        plan->groups = shard.groups;
        plan->group_count = shard.group_count;
        return cut(planner, error);
    }
    model_shard_release(&shard);
    return false;
}

static struct part part_of(const struct planner *planner, uint32_t copy, size_t stage,
                           uint32_t rank, uint32_t processor)
{
    bool last = stage + 1 == planner->stage_count;
    return (struct part){
        .copy = copy,
        .stage = (uint32_t)stage,
        .processor = processor,
        .rank = rank,
        .first_layer = stage == 0 ? 0 : planner->end_block[stage - 1],
        .end_layer = planner->end_block[stage],
        .has_loss = last,
        .logits_value = last ? model_output_value(planner->plan->model) : SIZE_MAX,
        .final_loss = last,
        .gradient_in = !last,
        .gradient_out = stage > 0,
        .trains = true,
        .slots = 1,
        .activation_in = PLAN_NONE,
        .activation_out = PLAN_NONE,
        .gradient_from = PLAN_NONE,
        .gradient_to = PLAN_NONE,
    };
}

static bool lay_rank(struct planner *planner, uint32_t copy, uint32_t rank,
                     struct error *error)
{
    static const struct chain chain = {.gradients = true, .queue_capacity = 1};
    struct plan *plan = planner->plan;
    uint32_t processor, index;
    if (!planner_place(planner, &processor, error))
        return false;
    for (size_t stage = 0; stage < planner->stage_count; stage++) {
        const struct part part = part_of(planner, copy, stage, rank, processor);
        if (!plan_add_part(plan, &part, &index, error) ||
            (stage > 0 && !chain_connect(plan, &chain, index - 1, index, error)))
            return false;
    }
    return true;
}

/* A sum over the ranks of a value of their parts, or of its gradient. */
static bool add_sum(const struct tensor_parallel *t, struct plan *plan, uint32_t *parts,
                    size_t value, bool gradient, struct error *error)
{
    const struct collective collective = {
        .algorithm = t->algorithm,
        .goal = GOAL_ALL_REDUCE,
        .activations = !gradient,
        .activation_gradients = gradient,
        .value = value,
        .count = plan->micro_batch * shape_count(model_value_shape(plan->model, value)),
        .parts = parts,
        .ranks = (uint32_t)t->ranks,
    };
    uint32_t index = 0;
    if (!plan_add_collective(plan, &collective, &index, error))
        return false;
    for (uint32_t r = 0; r < t->ranks; r++) {
        struct part *part = &plan->parts[parts[r]];
        if (!plan_note_collective(gradient ? &part->backward_sums : &part->forward_sums,
                                  gradient ? &part->backward_sum_count
                                           : &part->forward_sum_count,
                                  index, error))
            return false;
    }
    return true;
}

/* The sums of a stage that ends with a split group: what it makes, and the gradient of what
 * comes in, where the group begins the stage. */
static bool sum_stage(const struct tensor_parallel *t, struct plan *plan, uint32_t *parts,
                      struct error *error)
{
    const struct part *part = &plan->parts[parts[0]];
    size_t first = part->first_layer, end = part->end_layer;
    for (size_t i = 0; i < plan->group_count; i++) {
        const struct split_group *group = &plan->groups[i];
        if (group->end_layer != end)
            continue;
        if (!add_sum(t, plan, parts, end, false, error))
            return false;
        if (group->gradient && group->first_layer == first)
            return add_sum(t, plan, parts, plan->model->layers[first].input[0], true,
                           error);
    }
    return true;
}

static bool sum_stages(const struct tensor_parallel *t, struct planner *planner,
                       uint32_t first_part, struct error *error)
{
    uint32_t stages = (uint32_t)planner->stage_count;
    uint32_t *parts = checked_calloc(t->ranks, sizeof *parts);
    bool done = parts != NULL || error_memory(error, "ranks");
    for (uint32_t stage = 0; done && stage < stages; stage++) {
        for (uint32_t r = 0; r < t->ranks; r++)
            parts[r] = first_part + r * stages + stage;
        done = sum_stage(t, planner->plan, parts, error);
    }
    free(parts);
    return done;
}

static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct tensor_parallel *t = method->parameters;
    struct plan *plan = planner->plan;
    uint32_t index, first_part = (uint32_t)plan->part_count;
    if (!plan_add_copy(plan, copy, &index, error))
        return false;
    for (uint32_t rank = 0; rank < t->ranks; rank++)
        if (!lay_rank(planner, index, rank, error))
            return false;
    plan->copies[index].first_part = first_part;
    plan->copies[index].end_part = (uint32_t)plan->part_count;
    return sum_stages(t, planner, first_part, error);
}

/* A micro-batch after the other, there and back; then the updates. */
static bool emit_rank(struct plan *plan, uint32_t first, uint32_t end, struct error *error)
{
    struct stream *stream;
    if (!plan_stream(plan, plan->parts[first].processor, &stream, error))
        return false;
    for (int64_t m = 0; m < (int64_t)plan->micro_batches; m++) {
        for (uint32_t p = first; p < end; p++)
            if (!chain_forward(plan, &stream->body, p, m, error))
                return false;
        for (uint32_t p = end; p-- > first;)
            if (!chain_backward(plan, &stream->body, p, m, error))
                return false;
    }
    for (uint32_t p = first; p < end; p++)
        if (!chain_update(plan, &stream->body, p, error))
            return false;
    return true;
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    (void)method;
    struct plan *plan = planner->plan;
    uint32_t stages = (uint32_t)planner->stage_count;
    for (uint32_t c = first; c < end; c++)
        for (uint32_t p = plan->copies[c].first_part; p < plan->copies[c].end_part;
             p += stages)
            if (!emit_rank(plan, p, p + stages, error))
                return false;
    return true;
}

static const char *const keys[] = {"ranks", "all_reduce"};

const struct method_kind method_tensor_parallel = {
    .name = "tensor_parallel",
    .summary =
        "layers split by columns, rows and heads, their terms summed over processors",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .read = read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
};
