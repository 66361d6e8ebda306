/* How one copy of the model teaches another: by its logits, sent as they are made, or by
 * its weights, with which the pupil's processors compute the logits beside their own. */
#include "sim/methods/codistillation.h"

#include "base/checked.h"
#include "sim/split.h"

#include <stdlib.h>

static bool note(uint32_t **list, size_t *count, uint32_t number, struct error *error)
{
    size_t capacity = *count;
    if (!checked_grow((void **)list, &capacity, *count + 1, sizeof **list))
        return error_memory(error, "edges");
    (*list)[(*count)++] = number;
    return true;
}

/* Logits from one part to a loss. */
static bool add_predictions(const struct codistillation *c, struct plan *plan,
                            uint32_t from, uint32_t to, uint64_t capacity,
                            struct error *error)
{
    uint32_t edge;
    if (!plan_add_edge(plan, from, to, PAYLOAD_PREDICTIONS, capacity, &edge, error) ||
        !note(&plan->parts[from].pupil_edges, &plan->parts[from].pupil_count, edge,
              error) ||
        !note(&plan->parts[to].teacher_edges, &plan->parts[to].teacher_count, edge, error))
        return false;
    plan->parts[from].teaching = plan->parts[to].teaching = c->teaching;
    return true;
}

/* The pupil's part again, with another model's weights and forward only. */
static bool add_teacher(const struct codistillation *c, struct plan *plan, uint32_t pupil,
                        uint32_t *teacher, struct error *error)
{
    const struct part *own = &plan->parts[pupil];
    const struct part part = {
        .copy = own->copy,
        .stage = own->stage,
        .processor = own->processor,
        .rank = own->rank,
        .first_layer = own->first_layer,
        .end_layer = own->end_layer,
        .logits_value = own->logits_value,
        .slots = 1,
        .activation_in = PLAN_NONE,
        .activation_out = PLAN_NONE,
        .gradient_from = PLAN_NONE,
        .gradient_to = PLAN_NONE,
        .teacher = true,
        .teaching = c->teaching,
    };
    return plan_add_part(plan, &part, teacher, error) &&
           note(&plan->parts[pupil].beside, &plan->parts[pupil].beside_count, *teacher,
                error);
}

static bool add_checkpoints(const struct codistillation *c, struct plan *plan,
                            uint32_t from, uint32_t teacher, uint32_t bundle,
                            struct error *error)
{
    uint32_t edge;
    if (!plan_add_edge(plan, from, teacher, PAYLOAD_PARAMETERS, c->queue_capacity, &edge,
                       error) ||
        !plan_bundle_edge(plan, bundle, edge, error) ||
        !note(&plan->parts[from].checkpoint_edges, &plan->parts[from].checkpoint_count,
              edge, error))
        return false;
    plan->edges[edge].background = true;
    plan->parts[from].checkpoint_every = c->period;
    plan->parts[teacher].checkpoint = edge;
    return true;
}

/* A teacher's activations follow those of its pupil, through queues as long. */
static bool add_activations(struct plan *plan, uint32_t pupil, uint32_t teacher,
                            struct error *error)
{
    uint32_t edge;
    uint64_t capacity = plan->edges[plan->parts[pupil].activation_in].capacity;
    if (!plan_add_edge(plan, teacher - 1, teacher, PAYLOAD_ACTIVATIONS, capacity, &edge,
                       error))
        return false;
    plan->parts[teacher - 1].activation_out = edge;
    plan->parts[teacher].activation_in = edge;
    return true;
}

/* A teacher computes with slices as its pupil does. Its parts, from `first` on, are in the
 * order of the pupil's: rank after rank. */
static bool split_teacher(struct plan *plan, uint32_t first, struct error *error)
{
    const uint32_t ranks = plan->slice_ranks;
    uint32_t stages = ranks > 0 ? ((uint32_t)plan->part_count - first) / ranks : 0;
    uint32_t *parts = checked_calloc(ranks, sizeof *parts);
    bool done = parts != NULL || error_memory(error, "ranks");
    for (uint32_t stage = 0; done && stage < stages; stage++) {
        for (uint32_t r = 0; r < ranks; r++)
            parts[r] = first + r * stages + stage;
        done = split_sums(plan, parts, error);
    }
    free(parts);
    return done;
}

static bool link_checkpoints(const struct codistillation *c, struct plan *plan,
                             const struct copy from, const struct copy to,
                             struct error *error)
{
    uint32_t bundle, teacher = 0, first = (uint32_t)plan->part_count;
    if (!plan_add_bundle(plan, &bundle, error))
        return false;
    for (uint32_t i = 0; i < to.end_part - to.first_part; i++) {
        uint32_t pupil = to.first_part + i;
        if (!add_teacher(c, plan, pupil, &teacher, error) ||
            !add_checkpoints(c, plan, from.first_part + i, teacher, bundle, error) ||
            (plan->parts[pupil].activation_in != PLAN_NONE &&
             !add_activations(plan, pupil, teacher, error)))
            return false;
        /* Predictions wait as long as their micro-batch does. */
        uint64_t slots = plan->parts[pupil].slots;
        if (plan->parts[pupil].final_loss &&
            !add_predictions(c, plan, teacher, pupil, slots, error))
            return false;
    }
    return split_teacher(plan, first, error);
}

static bool link_predictions(const struct codistillation *c, struct plan *plan,
                             const struct copy from, const struct copy to,
                             struct error *error)
{
    for (uint32_t i = 0; i < to.end_part - to.first_part; i++)
        if (plan->parts[to.first_part + i].final_loss &&
            !add_predictions(c, plan, from.first_part + i, to.first_part + i,
                             c->queue_capacity, error))
            return false;
    return true;
}

bool codistillation_link(const struct codistillation *c, struct plan *plan,
                         uint32_t teacher, uint32_t pupil, struct error *error)
{
    const struct copy from = plan->copies[teacher], to = plan->copies[pupil];
    return c->exchange == EXCHANGE_CHECKPOINTS ? link_checkpoints(c, plan, from, to, error)
                                               : link_predictions(c, plan, from, to, error);
}
