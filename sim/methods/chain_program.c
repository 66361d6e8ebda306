/* The instructions around a forward, a backward and an update of a part, whatever it is
 * tied to. */
#include "sim/methods/chain.h"

/* A pass of a part over one micro-batch. */
struct passing {
    struct plan *plan;
    struct code *code;
    uint32_t part;
    int64_t micro_batch;
    enum operation operation;
};

/* What belongs to distillation does not take place in the burn-in, nor between the steps
 * in which predictions are exchanged. */
static void only_when_taught(const struct plan *plan, struct code *code, uint32_t part)
{
    code_from(code, plan->parts[part].teaching.burn_in_steps);
    code_every(code, plan->parts[part].teaching.every);
}

static bool add_taught(struct plan *plan, struct code *code, enum operation operation,
                       uint32_t part, uint32_t target, int64_t micro_batch,
                       struct error *error)
{
    if (!code_add(code, operation, part, target, micro_batch, error))
        return false;
    only_when_taught(plan, code, part);
    return true;
}

static bool add_pass(const struct passing *p, enum operation operation, uint32_t target,
                     struct error *error)
{
    return p->plan->parts[p->part].teacher
               ? add_taught(p->plan, p->code, operation, p->part, target, p->micro_batch,
                            error)
               : code_add(p->code, operation, p->part, target, p->micro_batch, error);
}

static bool add_layers(const struct passing *p, size_t first, size_t end,
                       struct error *error)
{
    const struct part *part = &p->plan->parts[p->part];
    if (!add_pass(p, p->operation, PLAN_NONE, error))
        return false;
    if (first != part->first_layer || end != part->end_layer)
        code_layers(p->code, first, end);
    return true;
}

/* Layers [first, end) forward, with the sums over ranks among them. */
static bool pass_forward(const struct passing *p, size_t first, size_t end,
                         struct error *error)
{
    const struct split_sums *list = &p->plan->parts[p->part].forward_sums;
    for (size_t i = 0; i < list->count; i++) {
        const struct split_sum *sum = &list->sums[i];
        if (sum->layer <= first || sum->layer > end)
            continue;
        if (!add_layers(p, first, sum->layer, error) ||
            !add_pass(p, OP_COLLECTIVE, sum->collective, error))
            return false;
        first = sum->layer;
    }
    return first == end || add_layers(p, first, end, error);
}

/* The same backward. */
static bool pass_backward(const struct passing *p, size_t first, size_t end,
                          struct error *error)
{
    const struct split_sums *list = &p->plan->parts[p->part].backward_sums;
    const size_t all = end;
    for (size_t i = list->count; i-- > 0;) {
        const struct split_sum *sum = &list->sums[i];
        bool wanted = p->operation != OP_BACKWARD_RECEIVED || sum->received;
        if (sum->layer < first || sum->layer >= all || !wanted)
            continue;
        /* A layer with two inputs has two sums. */
        if ((sum->layer < end && !add_layers(p, sum->layer, end, error)) ||
            !add_pass(p, OP_COLLECTIVE, sum->collective, error))
            return false;
        end = sum->layer;
    }
    return first == end || add_layers(p, first, end, error);
}

bool chain_run_forward(struct plan *plan, struct code *code, uint32_t part,
                       int64_t micro_batch, struct error *error)
{
    const struct passing p = {plan, code, part, micro_batch, OP_FORWARD};
    const struct part *own = &plan->parts[part];
    bool first = own->activation_in == PLAN_NONE;
    return code_add(code, first ? OP_LOAD : OP_RECEIVE, part, own->activation_in,
                    micro_batch, error) &&
           pass_forward(&p, own->first_layer, own->end_layer, error);
}

/* A teacher takes up checkpoints between steps; its first part decides which. */
static bool teacher_forward(struct plan *plan, struct code *code, uint32_t part,
                            int64_t micro_batch, struct error *error)
{
    const struct passing p = {plan, code, part, micro_batch, OP_FORWARD};
    const struct part *own = &plan->parts[part];
    bool first = own->activation_in == PLAN_NONE;
    bool takes = !first || (uint64_t)micro_batch % plan->micro_batches == 0;
    if ((!first && !add_pass(&p, OP_RECEIVE, own->activation_in, error)) ||
        (takes && !add_pass(&p, OP_POLL, own->checkpoint, error)) ||
        (first && !add_pass(&p, OP_LOAD, PLAN_NONE, error)) ||
        !pass_forward(&p, own->first_layer, own->end_layer, error))
        return false;
    for (size_t i = 0; i < own->pupil_count; i++)
        if (!add_pass(&p, OP_SEND, own->pupil_edges[i], error))
            return false;
    return own->activation_out == PLAN_NONE ||
           add_pass(&p, OP_SEND, own->activation_out, error);
}

bool chain_send_forward(struct plan *plan, struct code *code, uint32_t part,
                        int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
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
        if (!add_taught(plan, code, OP_SEND, part, p->pupil_edges[i], micro_batch, error))
            return false;
    for (size_t i = 0; i < p->teacher_count; i++)
        if (!add_taught(plan, code, OP_RECEIVE, part, p->teacher_edges[i], micro_batch,
                        error))
            return false;
    return code_add(code, OP_LOSS, part, PLAN_NONE, micro_batch, error);
}

/* The loss, and the gradient of what comes out, where anybody gives one. */
static bool begin_backward(struct plan *plan, struct code *code, uint32_t part,
                           int64_t micro_batch, struct error *error)
{
    const struct part *own = &plan->parts[part];
    if (own->has_loss && !emit_loss(plan, code, part, micro_batch, error))
        return false;
    return own->gradient_from == PLAN_NONE || own->gradient_apart ||
           code_add(code, OP_RECEIVE, part, own->gradient_from, micro_batch, error);
}

/* The last block forward again before the gradient comes, the others when it has come to
 * them. */
static bool run_backward_blocks(const struct passing *backward, struct error *error)
{
    struct plan *plan = backward->plan;
    const struct part *own = &plan->parts[backward->part];
    struct passing again = *backward;
    again.operation = OP_RECOMPUTE;
    for (size_t b = plan->model->block_count; b-- > 0;) {
        size_t first = plan->model->blocks[b].first_layer;
        size_t end = plan->model->blocks[b].end_layer;
        if (first < own->first_layer || end > own->end_layer || first == end)
            continue;
        if (!pass_forward(&again, first, end, error) ||
            (end == own->end_layer && !begin_backward(plan, backward->code, backward->part,
                                                      backward->micro_batch, error)) ||
            !pass_backward(backward, first, end, error))
            return false;
    }
    return true;
}

bool chain_run_backward(struct plan *plan, struct code *code, enum operation operation,
                        uint32_t part, int64_t micro_batch, struct error *error)
{
    const struct passing backward = {plan, code, part, micro_batch, operation};
    const struct passing again = {plan, code, part, micro_batch, OP_RECOMPUTE};
    const struct part *own = &plan->parts[part];
    if (own->recompute == RECOMPUTE_BLOCKS)
        return run_backward_blocks(&backward, error);
    if (own->recompute == RECOMPUTE_STAGE &&
        !pass_forward(&again, own->first_layer, own->end_layer, error))
        return false;
    return begin_backward(plan, code, part, micro_batch, error) &&
           pass_backward(&backward, own->first_layer, own->end_layer, error);
}

bool chain_send_backward(struct plan *plan, struct code *code, uint32_t part,
                         int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    uint32_t edge = p->gradient_to;
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
    const struct passing p = {plan, code, part, micro_batch, OP_BACKWARD_RECEIVED};
    const struct part *own = &plan->parts[part];
    return code_add(code, OP_RECEIVE, part, own->gradient_from, micro_batch, error) &&
           pass_backward(&p, own->first_layer, own->end_layer, error);
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

static bool emit_sums(struct plan *plan, struct code *code, uint32_t part,
                      int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    for (size_t i = 0; p->trains && i < p->sum_count; i++)
        if (!code_add(code, OP_COLLECTIVE, part, p->sums[i], micro_batch, error))
            return false;
    return true;
}

static bool emit_update(struct plan *plan, struct code *code, uint32_t part,
                        int64_t micro_batch, struct error *error)
{
    const struct part *p = &plan->parts[part];
    if (p->trains && !code_add(code, OP_UPDATE, part, PLAN_NONE, micro_batch, error))
        return false;
    for (size_t i = 0; p->trains && i < p->gather_count; i++) {
        if (!code_add(code, OP_COLLECTIVE, part, p->gathers[i], micro_batch, error))
            return false;
        code_every(code, p->gather_every);
    }
    return true;
}

/* The part's next tie from a number on, in the order of the plan; PLAN_NONE: no more. */
static uint32_t next_tie(const struct part *part, uint32_t from)
{
    uint32_t next = PLAN_NONE;
    for (size_t i = 0; i < part->tie_count; i++)
        if (part->ties[i] >= from && part->ties[i] < next)
            next = part->ties[i];
    return next;
}

/* Ties of all parts of the processor, in one order for all processors. */
static bool emit_ties(struct plan *plan, struct code *code, const struct chain_seat *seat,
                      int64_t micro_batch, struct error *error)
{
    for (uint32_t from = 0, next = 0; next != PLAN_NONE; from = next + 1) {
        uint32_t owner = PLAN_NONE;
        next = PLAN_NONE;
        for (uint32_t i = 0; i < seat->count; i++) {
            uint32_t part = seat->first + i * seat->stride;
            uint32_t tie = next_tie(&plan->parts[part], from);
            owner = tie < next ? part : owner;
            next = tie < next ? tie : next;
        }
        if (next != PLAN_NONE &&
            !code_add(code, OP_COLLECTIVE, owner, next, micro_batch, error))
            return false;
    }
    return true;
}

static bool any_tied(const struct plan *plan, const struct chain_seat *seat)
{
    for (uint32_t i = 0; i < seat->count; i++)
        if (plan->parts[seat->first + i * seat->stride].tie_count > 0)
            return true;
    return false;
}

/* Ties come after all sums: it is they that leave the same bits in all holders of a weight.
 */
bool chain_updates(struct plan *plan, struct code *code, const struct chain_seat *seat,
                   int64_t micro_batch, struct error *error)
{
    const uint64_t each = plan->micro_batches / plan->updates;
    const bool last = (uint64_t)micro_batch + each == plan->micro_batches;
    const bool tied = any_tied(plan, seat);
    for (uint32_t i = 0; tied && i < seat->count; i++)
        if (!emit_sums(plan, code, seat->first + i * seat->stride, micro_batch, error))
            return false;
    if (!emit_ties(plan, code, seat, micro_batch, error))
        return false;
    for (uint32_t i = 0; i < seat->count; i++) {
        uint32_t part = seat->first + i * seat->stride;
        if ((!tied && !emit_sums(plan, code, part, micro_batch, error)) ||
            !emit_update(plan, code, part, micro_batch, error) ||
            (last && !emit_checkpoints(plan, code, part, micro_batch, error)))
            return false;
    }
    return true;
}
