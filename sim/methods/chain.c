#include "sim/methods/chain.h"

#include "base/checked.h"

bool chain_model(struct planner *planner, const struct stages *stages, struct error *error)
{
    planner->stage_count = stages->count;
    planner->end_block = checked_calloc(stages->count, sizeof *planner->end_block);
    planner->head_value = checked_calloc(stages->count, sizeof *planner->head_value);
    if (planner->end_block == NULL || planner->head_value == NULL)
        return error_memory(error, "stages");
    const struct model *model = planner->setting->model;
    if (!stages_cut(stages, planner, model, planner->end_block, error))
        return false;
    for (size_t i = 0; i < stages->count; i++)
        planner->head_value[i] = SIZE_MAX;
    planner->head_value[stages->count - 1] = model_output_value(model);
    planner->plan->model = model_copy(model, error);
    return planner->plan->model != NULL;
}

static struct part chain_part(const struct planner *planner, const struct chain *chain,
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
        .recompute = chain->recompute ? RECOMPUTE_STAGE : RECOMPUTE_NONE,
        .trains = true,
        .activation_in = PLAN_NONE,
        .activation_out = PLAN_NONE,
        .gradient_from = PLAN_NONE,
        .gradient_to = PLAN_NONE,
    };
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
    if (!plan_add_edge(plan, to, from, PAYLOAD_GRADIENTS, chain->queue_capacity, &edge, error))
        return false;
    plan->parts[to].gradient_to = edge;
    plan->parts[from].gradient_from = edge;
    return true;
}

bool chain_layout(struct planner *planner, const struct chain *chain,
                  const struct copy *copy, uint32_t (*slots)(const void *, size_t stage),
                  const void *context, struct error *error)
{
    struct plan *plan = planner->plan;
    uint32_t copy_index, part_index = 0;
    if (!plan_add_copy(plan, copy, &copy_index, error))
        return false;
    for (size_t stage = 0; stage < planner->stage_count; stage++) {
        struct part part = chain_part(planner, chain, copy_index, stage);
        part.slots = slots(context, stage);
        if (!planner_place(planner, &part.processor, error) ||
            !plan_add_part(plan, &part, &part_index, error))
            return false;
        if (stage > 0 && !connect(plan, chain, part_index - 1, part_index, error))
            return false;
    }
    plan->copies[copy_index].end_part = part_index + 1;
    plan->copies[copy_index].first_part = part_index + 1 - (uint32_t)planner->stage_count;
    return true;
}

bool chain_forward(struct plan *plan, struct code *code, uint32_t part, int64_t micro_batch,
                   struct error *error)
{
    const struct part *p = &plan->parts[part];
    bool first = p->activation_in == PLAN_NONE;
    if (!code_add(code, first ? OP_LOAD : OP_RECEIVE, part, p->activation_in, micro_batch,
                  error) ||
        !code_add(code, OP_FORWARD, part, PLAN_NONE, micro_batch, error))
        return false;
    return p->activation_out == PLAN_NONE ||
           code_add(code, OP_SEND, part, p->activation_out, micro_batch, error);
}

static bool emit_loss(struct plan *plan, struct code *code, uint32_t part,
                      int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    for (size_t i = 0; i < p->pupil_count; i++)
        if (!code_add(code, OP_SEND, part, p->pupil_edges[i], micro_batch, error))
            return false;
    for (size_t i = 0; i < p->teacher_count; i++)
        if (!code_add(code, OP_RECEIVE, part, p->teacher_edges[i], micro_batch, error))
            return false;
    return code_add(code, OP_LOSS, part, PLAN_NONE, micro_batch, error);
}

bool chain_backward(struct plan *plan, struct code *code, uint32_t part,
                    int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    if (p->recompute && !code_add(code, OP_RECOMPUTE, part, PLAN_NONE, micro_batch, error))
        return false;
    if (p->has_loss && !emit_loss(plan, code, part, micro_batch, error))
        return false;
    if (p->gradient_from != PLAN_NONE &&
        !code_add(code, OP_RECEIVE, part, p->gradient_from, micro_batch, error))
        return false;
    if (!code_add(code, OP_BACKWARD, part, PLAN_NONE, micro_batch, error))
        return false;
    return p->gradient_to == PLAN_NONE ||
           code_add(code, OP_SEND, part, p->gradient_to, micro_batch, error);
}

bool chain_update(struct plan *plan, struct code *code, uint32_t part, struct error *error)
{
    const struct part *p = &plan->parts[part];
    for (size_t i = 0; i < p->tie_count; i++)
        if (!code_add(code, OP_COLLECTIVE, part, p->ties[i], 0, error))
            return false;
    for (size_t i = 0; i < p->sum_count; i++)
        if (!code_add(code, OP_COLLECTIVE, part, p->sums[i], 0, error))
            return false;
    if (!code_add(code, OP_UPDATE, part, PLAN_NONE, 0, error))
        return false;
    for (size_t i = 0; i < p->gather_count; i++) {
        if (!code_add(code, OP_COLLECTIVE, part, p->gathers[i], 0, error))
            return false;
        code_every(code, p->gather_every);
    }
    return true;
}
