/* Tensor parallelism (Shoeybi et al. 2019, section 3): every rank computes its columns,
 * rows and heads of each layer that is split, on all samples, and everything else in full.
 * An inner method trains the ranks' shards of the model; each of its stages is on as many
 * processors as there are ranks. */
#include "engine/model_shard.h"
#include "sim/collective.h"
#include "sim/method.h"
#include "sim/split.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

struct tensor_parallel {
    uint64_t ranks;
    struct method *inner;
    const struct collective_algorithm *algorithm;
};

static void release(struct method *method)
{
    struct tensor_parallel *t = method->parameters;
    if (t != NULL)
        method_free(t->inner);
    free(t);
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
    t->inner = method_read_inner(at, method->kind, error);
    return t->inner != NULL;
}

static bool check_optimizer(const struct planner *planner, struct error *error)
{
    const struct optimizer_options *optimizer = &planner->setting->optimizer;
    if (optimizer->clip_norm > 0)
        return error_set(error, STATUS_BAD_INPUT,
                         "\"clip_norm\" needs the norm of all gradients of a model, of "
                         "which a rank holds a slice; set it to 0");
    return strcmp(optimizer_kind_name(optimizer->kind), "lars") != 0 ||
           error_set(error, STATUS_BAD_INPUT,
                     "lars needs the norm of whole tensors, of which a rank holds a slice");
}

/* The inner method has cut a copy of the shard and may have put heads in: the same layers
 * have other numbers there. */
static size_t find_layer(const struct model *model, const struct model *shard, size_t layer)
{
    size_t i = 0;
    while (i < model->layer_count &&
           model->layers[i].identity != shard->layers[layer].identity)
        i++;
    return i;
}

static void renumber(const struct model *model, struct model_shard *shard)
{
    for (size_t i = 0; i < shard->slice_count; i++)
        shard->slices[i].layer = find_layer(model, shard->model, shard->slices[i].layer);
    for (size_t i = 0; i < shard->group_count; i++) {
        struct split_group *group = &shard->groups[i];
        size_t layers = group->end_layer - group->first_layer;
        group->first_layer = find_layer(model, shard->model, group->first_layer);
        group->end_layer = group->first_layer + layers;
    }
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct tensor_parallel *t = method->parameters;
    struct plan *plan = planner->plan;
    struct model_shard shard = {0};
    if (t->ranks == 1)
        return t->inner->kind->model(t->inner, planner, error);
    planner->ranks = (uint32_t)t->ranks;
    bool made = check_optimizer(planner, error) &&
                model_shard_make(planner->model, planner->ranks, &shard, error);
    planner->model = shard.model;
    if (made && t->inner->kind->model(t->inner, planner, error)) {
        renumber(plan->model, &shard);
        plan->slices = shard.slices;
        plan->slice_count = shard.slice_count;
        plan->slice_ranks = planner->ranks;
        plan->slice_algorithm = t->algorithm;
        plan->groups = shard.groups;
        plan->group_count = shard.group_count;
        planner->model = plan->model;
        model_free(shard.model);
        return true;
    }
    planner->model = planner->setting->model;
    model_shard_release(&shard);
    return false;
}

/* A copy's parts are its stages of rank 0, then those of rank 1 ... */
static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct tensor_parallel *t = method->parameters;
    struct plan *plan = planner->plan;
    uint32_t stages = (uint32_t)planner->stage_count;
    if (!t->inner->kind->layout(t->inner, planner, copy, error))
        return false;
    uint32_t first = plan->copies[plan->copy_count - 1].first_part;
    uint32_t *parts = checked_calloc(t->ranks, sizeof *parts);
    bool done = parts != NULL || error_memory(error, "ranks");
    for (uint32_t stage = 0; done && t->ranks > 1 && stage < stages; stage++) {
        for (uint32_t r = 0; r < t->ranks; r++)
            parts[r] = first + r * stages + stage;
        done = split_sums(plan, parts, error);
    }
    free(parts);
    return done;
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    const struct tensor_parallel *t = method->parameters;
    return t->inner->kind->emit(t->inner, planner, first, end, error);
}

static const char *const keys[] = {"ranks", "all_reduce", "inner"};

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
    .level = METHOD_SPLITS,
};
