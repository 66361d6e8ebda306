/* Checkpoints travel in the background and wait for nobody: the parts of a model send
 * theirs as one bundle, or not at all while the bundle before is under way. A pupil's
 * teacher takes up the newest bundle that has arrived as a whole; its first part decides,
 * the others follow it micro-batch by micro-batch. */
#include "sim/executor_internal.h"

#include "base/checked.h"

#include <stdlib.h>

bool bundles_create(struct executor *x, struct error *error)
{
    x->bundles = checked_calloc(x->plan->bundle_count, sizeof *x->bundles);
    return x->bundles != NULL || error_memory(error, "bundles");
}

void bundles_free(struct executor *x)
{
    for (size_t i = 0; x->bundles != NULL && i < x->plan->bundle_count; i++) {
        free(x->bundles[i].goes);
        free(x->bundles[i].taken);
    }
    free(x->bundles);
}

bool executor_idle(const struct executor *x, uint32_t part)
{
    return x->plan->parts[part].teacher && x->parts[part].version == 0;
}

/* All parts have sent those before, all have arrived, and every receiver has room. */
static bool free_to_go(const struct executor *x, const struct bundle *bundle,
                       uint64_t started)
{
    for (size_t i = 0; i < bundle->edge_count; i++) {
        const struct edge_state *state = &x->edges[bundle->edges[i]];
        if (state->arrived != started ||
            started - state->received >= x->plan->edges[bundle->edges[i]].capacity)
            return false;
    }
    return true;
}

/* The first part to come decides for all. */
bool checkpoint_goes(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    uint32_t index = x->plan->edges[i->target].bundle;
    struct bundle_state *state = &x->bundles[index];
    if (w->step + 1 == x->execution->steps)
        return false; /* nobody could use it */
    size_t number = (size_t)((w->step + 1) / (i->every > 1 ? i->every : 1)) - 1;
    if (number < state->decided)
        return state->goes[number];
    if (!checked_grow((void **)&state->goes, &state->capacity, number + 1,
                      sizeof *state->goes)) {
        executor_fail(x, STATUS_HOST, "no memory left for the list of checkpoints");
        return false;
    }
    bool goes = free_to_go(x, &x->plan->bundles[index], state->started);
    state->goes[state->decided++] = goes;
    state->started += goes;
    return goes;
}

static uint64_t newest_whole(const struct executor *x, uint32_t bundle_index)
{
    const struct bundle *bundle = &x->plan->bundles[bundle_index];
    uint64_t newest = UINT64_MAX;
    for (size_t i = 0; i < bundle->edge_count; i++) {
        uint64_t arrived = x->edges[bundle->edges[i]].arrived;
        newest = arrived < newest ? arrived : newest;
    }
    return newest;
}

/* All ranks of a teacher compute with the same checkpoint: the first to come to a step
 * decides. */
static uint64_t choose(struct walker *w, uint32_t bundle)
{
    struct executor *x = w->executor;
    struct bundle_state *state = &x->bundles[bundle];
    uint64_t newest = newest_whole(x, bundle);
    if (x->plan->slice_ranks <= 1)
        return newest;
    if (!checked_grow((void **)&state->taken, &state->taken_capacity, (size_t)w->step + 1,
                      sizeof *state->taken)) {
        executor_fail(x, STATUS_HOST, "no memory left for the list of checkpoints");
        return newest;
    }
    while (state->taken_count <= w->step)
        state->taken[state->taken_count++] = newest;
    return state->taken[w->step];
}

void execute_poll(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[i->target];
    struct edge_state *state = &x->edges[i->target];
    struct part_state *part = &x->parts[i->part];
    bool decides = x->plan->parts[i->part].activation_in == PLAN_NONE;
    uint64_t wanted = decides ? choose(w, edge->bundle) : part->asked;
    while (state->received < wanted) {
        uint64_t number = state->received;
        if (x->training && number + 1 == wanted)
            trainer_unpack(x->execution->trainer, i->target, run_micro_batch(w, i),
                           message_at(x, i->target, number));
        part->version_step = state->letters[number % edge->capacity].step;
        message_end(w, i->target);
    }
    part->version = wanted;
    if (decides && part->version > 0)
        executor_metric(w, "teacher age", i->target,
                        (double)(int64_t)(w->step - part->version_step) - 1);
}
