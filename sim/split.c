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

/* The gradients that the group gives back, which the part's backward computes or not. */
static bool add_backward(struct plan *plan, uint32_t *parts,
                         const struct split_group *group, struct error *error)
{
    const struct part part = plan->parts[parts[0]];
    const struct layer *layer = &plan->model->layers[group->first_layer];
    struct value_set own, received;
    model_gradient_values(plan->model, part.first_layer, part.end_layer, part.gradient_out,
                          &own);
    model_gradient_values(plan->model, part.first_layer, part.end_layer, false, &received);
    for (size_t k = 0; part.trains && k < layer->input_count; k++) {
        struct split_sum sum = {.layer = group->first_layer,
                                .received = value_set_has(&received, layer->input[k])};
        bool again = k > 0 && layer->input[k] == layer->input[0];
        if (!again && value_set_has(&own, layer->input[k]) &&
            !add(plan, parts, layer->input[k], true, &sum, error))
            return false;
    }
    return true;
}

static bool add_group(struct plan *plan, uint32_t *parts, const struct split_group *group,
                      struct error *error)
{
    struct split_sum sum = {.layer = group->end_layer};
    return add(plan, parts, group->end_layer, false, &sum, error) &&
           add_backward(plan, parts, group, error);
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
