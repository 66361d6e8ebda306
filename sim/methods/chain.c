#include "sim/methods/chain.h"

#include "base/checked.h"

#include <stdlib.h>

static const char *const recompute_names[] = {
    [RECOMPUTE_NONE] = "none", [RECOMPUTE_STAGE] = "stage", [RECOMPUTE_BLOCKS] = "blocks"};
enum { RECOMPUTES = sizeof recompute_names / sizeof recompute_names[0] };

static bool read_recompute_list(const struct json_at *list, size_t stages,
                                struct chain *chain, struct error *error)
{
    struct json_at element;
    if (json_length(list) != stages)
        return json_fail(list, error, "has %zu entries; one for each of the %zu stages",
                         json_length(list), stages);
    for (size_t i = 0; i < stages; i++) {
        size_t chosen = 0;
        json_element(list, i, &element);
        if (!json_choice(&element, recompute_names, RECOMPUTES, &chosen, error))
            return false;
        chain->recompute[i] = (enum recompute)chosen;
    }
    return true;
}

bool chain_read_recompute(const struct json_at *at, size_t stages, struct chain *chain,
                          struct error *error)
{
    struct json_at member;
    bool list = json_optional(at, "recompute", &member) && json_is_array(&member);
    chain->recompute_count = list ? stages : 1;
    chain->recompute = checked_calloc(chain->recompute_count, sizeof *chain->recompute);
    if (chain->recompute == NULL)
        return error_memory(error, "stages");
    if (list)
        return read_recompute_list(&member, stages, chain, error);
    size_t chosen = RECOMPUTE_NONE;
    if (!json_read_choice(at, "recompute", recompute_names, RECOMPUTES, &chosen, error))
        return false;
    chain->recompute[0] = (enum recompute)chosen;
    return true;
}

void chain_release(struct chain *chain)
{
    free(chain->recompute);
    chain->recompute = NULL;
}

enum recompute chain_recompute(const struct chain *chain, size_t stage)
{
    if (chain->recompute == NULL)
        return RECOMPUTE_NONE;
    return chain->recompute[chain->recompute_count > 1 ? stage : 0];
}

bool chain_model_within(struct planner *planner, const struct stages *stages,
                        const struct stage_demand *demand, struct error *error)
{
    planner->stage_count = stages->count;
    planner->end_block = checked_calloc(stages->count, sizeof *planner->end_block);
    planner->head_value = checked_calloc(stages->count, sizeof *planner->head_value);
    if (planner->end_block == NULL || planner->head_value == NULL)
        return error_memory(error, "stages");
    const struct model *model = planner->model;
    planner->plan->model = model_copy(model, error);
    if (planner->plan->model == NULL ||
        !stages_cut(stages, demand, planner, planner->end_block, error))
        return false;
    for (size_t i = 0; i < stages->count; i++)
        planner->head_value[i] = SIZE_MAX;
    planner->head_value[stages->count - 1] = model_output_value(model);
    return true;
}

bool chain_model(struct planner *planner, const struct stages *stages, struct error *error)
{
    return chain_model_within(planner, stages, NULL, error);
}

static struct part plain_part(const struct planner *planner, const struct chain *chain,
                              uint32_t copy, size_t stage)
{
    const struct model *model = planner->plan->model;
    size_t first_block = stage == 0 ? 0 : planner->end_block[stage - 1];
    bool last = stage + 1 == planner->stage_count;
    return (struct part){
        .copy = copy,
        .stage = (uint32_t)stage,
        .first_layer = model->blocks[first_block].first_layer,
        .end_layer = model->blocks[planner->end_block[stage] - 1].end_layer,
        .has_loss = planner->head_value[stage] != SIZE_MAX,
        .logits_value = planner->head_value[stage],
        .final_loss = last,
        .gradient_in = chain->gradients && !last,
        .gradient_out = chain->gradients && stage > 0,
        .recompute = chain_recompute(chain, stage),
        .trains = true,
        .activation_in = PLAN_NONE,
        .activation_out = PLAN_NONE,
        .gradient_from = PLAN_NONE,
        .gradient_to = PLAN_NONE,
    };
}

/* A gradient that is treated apart, inside a processor, waits for as long as its
 * micro-batch's stash. */
static uint64_t gradient_capacity(const struct plan *plan, const struct chain *chain,
                                  uint32_t from, uint32_t to)
{
    const struct part *part = &plan->parts[from];
    bool waits = part->gradient_apart && part->processor == plan->parts[to].processor;
    return waits && chain->queue_capacity < part->slots ? part->slots : chain->queue_capacity;
}

static bool connect(struct plan *plan, const struct chain *chain, uint32_t from, uint32_t to,
                    struct error *error)
{
    uint32_t edge;
    if (!plan_add_edge(plan, from, to, PAYLOAD_ACTIVATIONS, chain->queue_capacity, &edge,
                       error))
        return false;
    plan->parts[from].activation_out = edge;
    plan->parts[to].activation_in = edge;
    if (!chain->gradients)
        return true;
    if (!plan_add_edge(plan, to, from, PAYLOAD_GRADIENTS,
                       gradient_capacity(plan, chain, from, to), &edge, error))
        return false;
    plan->parts[to].gradient_to = edge;
    plan->parts[from].gradient_from = edge;
    return true;
}

static size_t seat_of(const struct planner *planner, const struct chain *chain, size_t stage)
{
    if (planner->seat != NULL)
        return planner->seat[stage];
    return chain->processors > 0 ? stage % chain->processors : stage;
}

/* The stages of one rank. */
static bool lay_rank(struct planner *planner, const struct chain *chain, uint32_t copy,
                     uint32_t rank, const struct chain_stage *own, size_t *seats,
                     struct error *error)
{
    struct plan *plan = planner->plan;
    for (size_t stage = 0; stage < planner->stage_count; stage++) {
        struct part part = plain_part(planner, chain, copy, stage);
        size_t seat = seat_of(planner, chain, stage);
        uint32_t index;
        part.rank = rank;
        if (!planner_processor(planner, planner->placed + seat * planner->ranks + rank,
                               &part.processor, error) ||
            !own->fill(own->context, planner, &part, error) ||
            !plan_add_part(plan, &part, &index, error) ||
            (stage > 0 && !connect(plan, chain, index - 1, index, error)))
            return false;
        *seats = seat >= *seats ? seat + 1 : *seats;
    }
    return true;
}

bool chain_layout(struct planner *planner, const struct chain *chain,
                  const struct copy *copy, const struct chain_stage *stage,
                  struct error *error)
{
    struct plan *plan = planner->plan;
    uint32_t index, first_part = (uint32_t)plan->part_count;
    size_t seats = 0;
    if (!plan_add_copy(plan, copy, &index, error))
        return false;
    for (uint32_t rank = 0; rank < planner->ranks; rank++)
        if (!lay_rank(planner, chain, index, rank, stage, &seats, error))
            return false;
    plan->copies[index].first_part = first_part;
    plan->copies[index].end_part = (uint32_t)plan->part_count;
    planner->placed += seats * planner->ranks;
    return true;
}
