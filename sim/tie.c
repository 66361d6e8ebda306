#include "sim/tie.h"

#include "base/checked.h"
#include "sim/collective.h"

#include <stdlib.h>

/* The first layer of the part whose parameters are the owner's; SIZE_MAX: none. */
static size_t holder(const struct plan *plan, const struct part *part, size_t owner)
{
    for (size_t i = part->first_layer; part->trains && i < part->end_layer; i++)
        if (model_owner(plan->model, i) == owner)
            return i;
    return SIZE_MAX;
}

static bool add_collective(struct plan *plan, size_t owner, uint32_t *parts, uint64_t *firsts,
                           uint32_t ranks, struct error *error)
{
    const struct collective collective = {
        .algorithm = collective_algorithm_find("ring"),
        .goal = GOAL_ALL_REDUCE,
        .count = layer_parameter_count(&plan->model->layers[owner]),
        .firsts = firsts,
        .parts = parts,
        .ranks = ranks,
    };
    uint32_t index = 0;
    if (!plan_add_collective(plan, &collective, &index, error))
        return false;
    for (uint32_t r = 0; r < ranks; r++)
        if (!plan_note_collective(&plan->parts[parts[r]].ties,
                                  &plan->parts[parts[r]].tie_count, index, error))
            return false;
    return true;
}

/* Of one copy and one owner of parameters. Each rank of tensor parallelism has its own. */
static bool tie_owner(struct plan *plan, const struct copy *copy, uint32_t rank, size_t owner,
                      uint32_t *parts, uint64_t *firsts, struct error *error)
{
    uint32_t ranks = 0;
    for (uint32_t p = copy->first_part; p < copy->end_part; p++) {
        const struct part *part = &plan->parts[p];
        size_t layer = holder(plan, part, owner);
        if (layer == SIZE_MAX || part->rank != rank)
            continue;
        parts[ranks] = p;
        firsts[ranks++] = model_run_parameter_count(plan->model, part->first_layer, layer);
    }
    return ranks < 2 || add_collective(plan, owner, parts, firsts, ranks, error);
}

bool tie_parts(struct plan *plan, struct error *error)
{
    uint32_t *parts = checked_calloc(plan->part_count, sizeof *parts);
    uint64_t *firsts = checked_calloc(plan->part_count, sizeof *firsts);
    bool tied = (parts != NULL && firsts != NULL) || error_memory(error, "tied weights");
    for (size_t i = 0; tied && i < plan->model->layer_count; i++) {
        size_t owner = model_owner(plan->model, i);
        bool first = true; /* the first layer that is tied to this owner */
        for (size_t k = 0; k < i; k++)
            first = first && (k == owner || model_owner(plan->model, k) != owner);
        uint32_t ranks = plan->slice_ranks > 0 ? plan->slice_ranks : 1;
        for (uint32_t c = 0; tied && owner != i && first && c < plan->copy_count * ranks; c++)
            tied = tie_owner(plan, &plan->copies[c / ranks], c % ranks, owner, parts, firsts,
                             error);
    }
    free(parts);
    free(firsts);
    return tied;
}
