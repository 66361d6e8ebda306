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

/* The holders of one owner's parameters in a copy: a rank is a processor. */
struct holders {
    uint32_t *parts;
    uint64_t *firsts;
    uint32_t ranks;
    struct tied_part *tied; /* further parts of these processors */
    size_t tied_count;
};

static bool add_collective(struct plan *plan, size_t owner, const struct holders *h,
                           struct error *error)
{
    const struct collective collective = {
        .algorithm = collective_algorithm_find("ring"),
        .goal = GOAL_ALL_REDUCE,
        .count = layer_parameter_count(&plan->model->layers[owner]),
        .firsts = h->firsts,
        .parts = h->parts,
        .ranks = h->ranks,
        .tied = h->tied_count > 0 ? h->tied : NULL,
        .tied_count = h->tied_count,
    };
    uint32_t index = 0;
    if (!plan_add_collective(plan, &collective, &index, error))
        return false;
    for (uint32_t r = 0; r < h->ranks; r++)
        if (!plan_note_collective(&plan->parts[h->parts[r]].ties,
                                  &plan->parts[h->parts[r]].tie_count, index, error))
            return false;
    return true;
}

static void add_holder(const struct plan *plan, struct holders *h, uint32_t part,
                       uint64_t first)
{
    for (uint32_t r = 0; r < h->ranks; r++)
        if (plan->parts[h->parts[r]].processor == plan->parts[part].processor) {
            h->tied[h->tied_count++] = (struct tied_part){r, part, first};
            return;
        }
    h->parts[h->ranks] = part;
    h->firsts[h->ranks++] = first;
}

/* Of one copy and one owner of parameters. Each rank of tensor parallelism has its own. */
static bool tie_owner(struct plan *plan, const struct copy *copy, uint32_t rank,
                      size_t owner, struct holders *h, struct error *error)
{
    h->ranks = 0;
    h->tied_count = 0;
    for (uint32_t p = copy->first_part; p < copy->end_part; p++) {
        const struct part *part = &plan->parts[p];
        size_t layer = holder(plan, part, owner);
        if (layer != SIZE_MAX && part->rank == rank)
            add_holder(plan, h, p,
                       model_run_parameter_count(plan->model, part->first_layer, layer));
    }
    return h->ranks + h->tied_count < 2 || add_collective(plan, owner, h, error);
}

bool tie_parts(struct plan *plan, struct error *error)
{
    struct holders h = {.parts = checked_calloc(plan->part_count, sizeof *h.parts),
                        .firsts = checked_calloc(plan->part_count, sizeof *h.firsts),
                        .tied = checked_calloc(plan->part_count, sizeof *h.tied)};
    bool tied = (h.parts != NULL && h.firsts != NULL && h.tied != NULL) ||
                error_memory(error, "tied weights");
    for (size_t i = 0; tied && i < plan->model->layer_count; i++) {
        size_t owner = model_owner(plan->model, i);
        bool first = true; /* the first layer that is tied to this owner */
        for (size_t k = 0; k < i; k++)
            first = first && (k == owner || model_owner(plan->model, k) != owner);
        uint32_t ranks = plan->slice_ranks > 0 ? plan->slice_ranks : 1;
        for (uint32_t c = 0; tied && owner != i && first && c < plan->copy_count * ranks;
             c++)
            tied = tie_owner(plan, &plan->copies[c / ranks], c % ranks, owner, &h, error);
    }
    free(h.parts);
    free(h.firsts);
    free(h.tied);
    return tied;
}
