#include "sim/split.h"

#include "base/checked.h"
#include "sim/collective.h"

#include <string.h>

static bool note(struct split_sums *list, const struct split_sum *sum, struct error *error)
{
    if (!checked_grow((void **)&list->sums, &list->capacity, list->count + 1,
                      sizeof *list->sums))
        return error_memory(error, "sums over ranks");
    list->sums[list->count++] = *sum;
    return true;
}

/* Of a value of the ranks' parts, or of its gradient. */
static bool add(struct plan *plan, uint32_t *parts, size_t value, bool gradient,
                struct split_sum *sum, struct error *error)
{
    const struct collective collective = {
        .algorithm = plan->slice_algorithm,
        .goal = GOAL_ALL_REDUCE,
        .activations = !gradient,
        .activation_gradients = gradient,
        .value = value,
        .count = plan->micro_batch * shape_count(model_value_shape(plan->model, value)),
        .parts = parts,
        .ranks = plan->slice_ranks,
    };
    if (!plan_add_collective(plan, &collective, &sum->collective, error))
        return false;
    for (uint32_t r = 0; r < plan->slice_ranks; r++) {
        struct part *part = &plan->parts[parts[r]];
        if (!note(gradient ? &part->backward_sums : &part->forward_sums, sum, error))
            return false;
    }
    return true;
}

/* Which gradients the part's backward computes depends on whether it gives any back. */
static bool add_group(struct plan *plan, uint32_t *parts, const struct split_group *group,
                      struct error *error)
{
    const struct part part = plan->parts[parts[0]];
    size_t input = plan->model->layers[group->first_layer].input[0];
    struct value_set own, received;
    struct split_sum forward = {.layer = group->end_layer};
    struct split_sum backward = {.layer = group->first_layer};
    if (!add(plan, parts, group->end_layer, false, &forward, error))
        return false;
    model_gradient_values(plan->model, part.first_layer, part.end_layer, part.gradient_out,
                          &own);
    model_gradient_values(plan->model, part.first_layer, part.end_layer, false, &received);
    backward.received = value_set_has(&received, input);
    return !part.trains || !value_set_has(&own, input) ||
           add(plan, parts, input, true, &backward, error);
}

bool split_sums(struct plan *plan, uint32_t *parts, struct error *error)
{
    const struct part *part = &plan->parts[parts[0]];
    const size_t first = part->first_layer, end = part->end_layer;
    for (size_t i = 0; i < plan->group_count; i++)
        if (plan->groups[i].first_layer >= first && plan->groups[i].end_layer <= end &&
            !add_group(plan, parts, &plan->groups[i], error))
            return false;
    return true;
}
