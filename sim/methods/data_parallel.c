/* Data parallelism: replicas of a model, each on its share of the batch, whose gradients
 * are summed before every update. Each replica is trained by an inner method; the parts
 * that hold the same layers make up a collective. */
#include "base/checked.h"
#include "sim/collective.h"
#include "sim/method.h"

#include <stdlib.h>

struct data_parallel {
    uint64_t replicas;
    struct method *inner;
    const struct collective_algorithm *algorithm;
};

static const char *const keys[] = {"replicas", "inner", "all_reduce"};

static void release(struct method *method)
{
    struct data_parallel *d = method->parameters;
    if (d != NULL)
        method_free(d->inner);
    free(d);
}

static bool read_algorithm(const struct json_at *at, struct data_parallel *d,
                           struct error *error)
{
    const char *names[16];
    size_t count = collective_algorithm_count(), chosen = 0;
    for (size_t i = 0; i < count; i++)
        names[i] = collective_algorithm_get(i)->name;
    if (!json_read_choice(at, "all_reduce", names, count, &chosen, error))
        return false;
    d->algorithm = collective_algorithm_get(chosen);
    return true;
}

static bool read(const struct json_at *at, struct method *method, struct error *error)
{
    struct data_parallel *d = checked_calloc(1, sizeof *d);
    method->parameters = d;
    if (d == NULL)
        return error_memory(error, "method");
    d->replicas = 2;
    if (!json_read_u64(at, "replicas", 1, 1u << 20, &d->replicas, error) ||
        !read_algorithm(at, d, error))
        return false;
    d->inner = method_read_inner(at, false, error);
    return d->inner != NULL;
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct data_parallel *d = method->parameters;
    struct plan *plan = planner->plan;
    if (plan->micro_batches % d->replicas != 0)
        return error_set(error, STATUS_BAD_INPUT,
                         "%llu replicas cannot share %llu micro-batches of %llu samples evenly",
                         (unsigned long long)d->replicas,
                         (unsigned long long)plan->micro_batches,
                         (unsigned long long)plan->micro_batch);
    plan->micro_batches /= d->replicas;
    return d->inner->kind->model(d->inner, planner, error);
}

/* One collective a part, over its counterparts in all replicas. */
static bool tie(const struct data_parallel *d, struct plan *plan, uint32_t first,
                struct error *error)
{
    uint32_t replicas = (uint32_t)d->replicas;
    uint32_t parts = plan->copies[first].end_part - plan->copies[first].first_part;
    uint32_t *ranks = checked_calloc(replicas, sizeof *ranks);
    bool tied = ranks != NULL || error_memory(error, "replicas");
    for (uint32_t p = 0; tied && p < parts; p++) {
        for (uint32_t r = 0; r < replicas; r++)
            ranks[r] = plan->copies[first + r].first_part + p;
        const struct collective collective = {
            .algorithm = d->algorithm,
            .goal = GOAL_ALL_REDUCE,
            .count = plan_part_parameters(plan, &plan->parts[ranks[0]]),
            .parts = ranks,
            .ranks = replicas,
        };
        uint32_t index = 0;
        tied = plan_add_collective(plan, &collective, &index, error);
        for (uint32_t r = 0; tied && r < replicas; r++)
            tied = plan_note_collective(&plan->parts[ranks[r]].sums,
                                        &plan->parts[ranks[r]].sum_count, index, error);
    }
    free(ranks);
    return tied;
}

static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct data_parallel *d = method->parameters;
    struct plan *plan = planner->plan;
    uint32_t first = (uint32_t)plan->copy_count;
    for (uint32_t r = 0; r < d->replicas; r++) {
        struct copy own = *copy;
        own.shard = r;
        own.shards = (uint32_t)d->replicas;
        if (!d->inner->kind->layout(d->inner, planner, &own, error))
            return false;
    }
    return d->replicas == 1 || tie(d, plan, first, error);
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    const struct data_parallel *d = method->parameters;
    return d->inner->kind->emit(d->inner, planner, first, end, error);
}

const struct method_kind method_data_parallel = {
    .name = "data_parallel",
    .summary = "replicas on shares of the batch, gradients summed by an all-reduce",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .read = read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
    .combines = true,
};
