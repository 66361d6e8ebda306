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
    const struct model *model = planner->setting->model;
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

struct part chain_part(const struct planner *planner, const struct chain *chain,
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

bool chain_connect(struct plan *plan, const struct chain *chain, uint32_t from, uint32_t to,
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
        bool again = chain->processors > 0 && stage >= chain->processors;
        part.slots = slots(context, stage);
        if (again)
            part.processor = plan->parts[plan->part_count - chain->processors].processor;
        else if (!planner_place(planner, &part.processor, error))
            return false;
        if (!plan_add_part(plan, &part, &part_index, error))
            return false;
        if (stage > 0 && !chain_connect(plan, chain, part_index - 1, part_index, error))
            return false;
    }
    plan->copies[copy_index].end_part = part_index + 1;
    plan->copies[copy_index].first_part = part_index + 1 - (uint32_t)planner->stage_count;
    return true;
}

bool chain_run_forward(struct plan *plan, struct code *code, uint32_t part,
                       int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    bool first = p->activation_in == PLAN_NONE;
    return code_add(code, first ? OP_LOAD : OP_RECEIVE, part, p->activation_in, micro_batch,
                    error) &&
           code_add(code, OP_FORWARD, part, PLAN_NONE, micro_batch, error);
}

/* What belongs to distillation does not take place in the burn-in, nor between the steps
 * in which predictions are exchanged. */
static bool add_teaching(struct plan *plan, struct code *code, enum operation operation,
                         uint32_t part, uint32_t target, int64_t micro_batch,
                         struct error *error)
{
    if (!code_add(code, operation, part, target, micro_batch, error))
        return false;
    code_from(code, plan->parts[part].teaching.burn_in_steps);
    code_every(code, plan->parts[part].teaching.every);
    return true;
}

/* A teacher takes up checkpoints between steps; its first part decides which. */
static bool teacher_forward(struct plan *plan, struct code *code, uint32_t part,
                            int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    bool first = p->activation_in == PLAN_NONE;
    bool takes = !first || (uint64_t)micro_batch % plan->micro_batches == 0;
    if ((!first &&
         !add_teaching(plan, code, OP_RECEIVE, part, p->activation_in, micro_batch, error)) ||
        (takes && !add_teaching(plan, code, OP_POLL, part, p->checkpoint, micro_batch, error)) ||
        (first && !add_teaching(plan, code, OP_LOAD, part, PLAN_NONE, micro_batch, error)) ||
        !add_teaching(plan, code, OP_FORWARD, part, PLAN_NONE, micro_batch, error))
        return false;
    for (size_t i = 0; i < p->pupil_count; i++)
        if (!add_teaching(plan, code, OP_SEND, part, p->pupil_edges[i], micro_batch, error))
            return false;
    return p->activation_out == PLAN_NONE ||
           add_teaching(plan, code, OP_SEND, part, p->activation_out, micro_batch, error);
}

bool chain_send_forward(struct plan *plan, struct code *code, uint32_t part,
                        int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    for (size_t i = 0; i < p->forward_sum_count; i++)
        if (!code_add(code, OP_COLLECTIVE, part, p->forward_sums[i], micro_batch, error))
            return false;
    if (p->activation_out != PLAN_NONE &&
        !code_add(code, OP_SEND, part, p->activation_out, micro_batch, error))
        return false;
    for (size_t i = 0; i < p->beside_count; i++)
        if (!teacher_forward(plan, code, p->beside[i], micro_batch, error))
            return false;
    return true;
}

bool chain_forward(struct plan *plan, struct code *code, uint32_t part, int64_t micro_batch,
                   struct error *error)
{
    return chain_run_forward(plan, code, part, micro_batch, error) &&
           chain_send_forward(plan, code, part, micro_batch, error);
}

static bool emit_loss(struct plan *plan, struct code *code, uint32_t part,
                      int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    for (size_t i = 0; i < p->pupil_count; i++)
        if (!add_teaching(plan, code, OP_SEND, part, p->pupil_edges[i], micro_batch, error))
            return false;
    for (size_t i = 0; i < p->teacher_count; i++)
        if (!add_teaching(plan, code, OP_RECEIVE, part, p->teacher_edges[i], micro_batch,
                          error))
            return false;
    return code_add(code, OP_LOSS, part, PLAN_NONE, micro_batch, error);
}

bool chain_run_backward(struct plan *plan, struct code *code, enum operation operation,
                        uint32_t part, int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    if (p->recompute && !code_add(code, OP_RECOMPUTE, part, PLAN_NONE, micro_batch, error))
        return false;
    if (p->has_loss && !emit_loss(plan, code, part, micro_batch, error))
        return false;
    if (p->gradient_from != PLAN_NONE && !p->gradient_apart &&
        !code_add(code, OP_RECEIVE, part, p->gradient_from, micro_batch, error))
        return false;
    return code_add(code, operation, part, PLAN_NONE, micro_batch, error);
}

bool chain_send_backward(struct plan *plan, struct code *code, uint32_t part,
                         int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    uint32_t edge = p->gradient_to;
    for (size_t i = 0; i < p->backward_sum_count; i++)
        if (!code_add(code, OP_COLLECTIVE, part, p->backward_sums[i], micro_batch, error))
            return false;
    return edge == PLAN_NONE || code_add(code, OP_SEND, part, edge, micro_batch, error);
}

bool chain_backward(struct plan *plan, struct code *code, uint32_t part,
                    int64_t micro_batch, struct error *error)
{
    return chain_run_backward(plan, code, OP_BACKWARD, part, micro_batch, error) &&
           chain_send_backward(plan, code, part, micro_batch, error);
}

bool chain_received(struct plan *plan, struct code *code, uint32_t part,
                    int64_t micro_batch, struct error *error)
{
    return code_add(code, OP_RECEIVE, part, plan->parts[part].gradient_from, micro_batch,
                    error) &&
           code_add(code, OP_BACKWARD_RECEIVED, part, PLAN_NONE, micro_batch, error);
}

static bool emit_checkpoints(struct plan *plan, struct code *code, uint32_t part,
                             int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    for (size_t i = 0; i < p->checkpoint_count; i++) {
        if (!code_add(code, OP_SEND, part, p->checkpoint_edges[i], micro_batch, error))
            return false;
        code_every(code, p->checkpoint_every);
    }
    return true;
}

static bool emit_update(struct plan *plan, struct code *code, uint32_t part,
                        int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    for (size_t i = 0; i < p->sum_count; i++)
        if (!code_add(code, OP_COLLECTIVE, part, p->sums[i], micro_batch, error))
            return false;
    /* Ties last: it is they that leave the same bits in all holders of a weight. */
    for (size_t i = 0; i < p->tie_count; i++)
        if (!code_add(code, OP_COLLECTIVE, part, p->ties[i], micro_batch, error))
            return false;
    if (!code_add(code, OP_UPDATE, part, PLAN_NONE, micro_batch, error))
        return false;
    for (size_t i = 0; i < p->gather_count; i++) {
        if (!code_add(code, OP_COLLECTIVE, part, p->gathers[i], micro_batch, error))
            return false;
        code_every(code, p->gather_every);
    }
    return true;
}

bool chain_update_of(struct plan *plan, struct code *code, uint32_t part,
                     int64_t micro_batch, struct error *error)
{
    uint64_t each = plan->micro_batches / plan->updates;
    if (plan->parts[part].trains && !emit_update(plan, code, part, micro_batch, error))
        return false;
    return (uint64_t)micro_batch + each != plan->micro_batches ||
           emit_checkpoints(plan, code, part, micro_batch, error);
}

bool chain_update(struct plan *plan, struct code *code, uint32_t part, struct error *error)
{
    return chain_update_of(plan, code, part, 0, error);
}
