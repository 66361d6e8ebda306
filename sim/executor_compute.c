#include "sim/executor_internal.h"

/* Occupies the processor for the charges' sum and tells each as an event. */
static void compute(struct walker *w, const struct instruction *instruction,
                    const struct charges *charges)
{
    struct executor *x = w->executor;
    if (charges->count == 0)
        return;
    double asked_s = machine_now_s();
    occupancy_acquire(x->occupancy, USAGE_COMPUTE, w->processor, w->processor, w->gate);
    executor_waited(w, "wait for exchange", asked_s);
    double start_s = machine_now_s(), at_s = start_s;
    double factor = trouble_factor(x, w->processor);
    machine_sleep(charges->seconds * factor);
    double end_s = machine_now_s();
    occupancy_release(x->occupancy, USAGE_COMPUTE, w->processor, w->processor);
    uint64_t run_number = run_micro_batch(w, instruction);
    struct event event = {
        .kind = EVENT_COMPUTE,
        .name = operation_name(instruction->operation),
        .processor = w->processor,
        .stream = w->stream->number,
        .edge = EVENT_NONE,
        .step = run_number / x->plan->micro_batches,
        .micro_batch = run_number % x->plan->micro_batches,
        .memory_after_bytes = ledger_total(x->ledger, w->processor),
    };
    for (size_t i = 0; i < charges->count && !x->failed; i++) {
        bool last = i + 1 == charges->count;
        event.layer = charges->items[i].layer;
        event.flops = charges->items[i].flops;
        event.start_s = at_s;
        at_s += charges->items[i].seconds * factor;
        if (last || at_s > end_s)
            at_s = end_s;
        event.end_s = at_s;
        executor_emit(x, &event);
    }
}

/* What a forward keeps besides its input: the rest of the stash, and the logits. */
static uint64_t kept_bytes(const struct part_memory *memory)
{
    return memory->stash_bytes - memory->kept_input_bytes + memory->logits_bytes;
}

static void forward(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct part *part = &x->plan->parts[i->part];
    const struct part_state *state = &x->parts[i->part];
    const struct part_memory *memory = &state->memory;
    bool keeps = i->operation == OP_RECOMPUTE || !part->recompute;
    if (keeps)
        executor_allocate(x, w->processor, MEMORY_STASH, kept_bytes(memory));
    if (x->training)
        trainer_forward(x->execution->trainer, i->part, run_micro_batch(w, i),
                        i->operation == OP_RECOMPUTE);
    compute(w, i, &state->passes[PASS_FORWARD]);
    if (keeps)
        executor_release(x, w->processor, MEMORY_STASH,
                         memory->input_bytes - memory->kept_input_bytes);
}

/* The charges of the layers that the instruction names. They stand in backward order. */
static struct charges piece_of(const struct charges *all, const struct instruction *i)
{
    struct charges piece = {0};
    for (size_t k = 0; k < all->count; k++) {
        uint32_t layer = all->items[k].layer;
        if (layer < i->first_layer || layer >= i->end_layer)
            continue;
        if (piece.count++ == 0)
            piece.items = &all->items[k];
        piece.seconds += all->items[k].seconds;
    }
    return piece;
}

/* In pieces, the numbers are made with the first one: nobody reads a piece's gradients
 * before its end. */
static void backward(struct walker *w, const struct instruction *i, enum pass pass)
{
    static const enum backward_pass numeric[PASS_COUNT] = {
        [PASS_BACKWARD] = BACKWARD_ALL,
        [PASS_BACKWARD_INPUT] = BACKWARD_INPUT,
        [PASS_BACKWARD_WEIGHT] = BACKWARD_WEIGHT,
    };
    struct executor *x = w->executor;
    const struct part_state *state = &x->parts[i->part];
    const struct part *part = &x->plan->parts[i->part];
    bool whole = i->end_layer == 0;
    struct charges piece = whole ? state->passes[pass] : piece_of(&state->passes[pass], i);
    if (x->training && (whole || i->end_layer == part->end_layer))
        trainer_backward(x->execution->trainer, i->part, run_micro_batch(w, i), numeric[pass]);
    compute(w, i, &piece);
    if (pass != PASS_BACKWARD_INPUT && (whole || i->first_layer == part->first_layer))
        executor_release(x, w->processor, MEMORY_STASH,
                         state->memory.stash_bytes + state->memory.logits_bytes);
}

static void metric(struct walker *w, const char *name, double value)
{
    double now_s = machine_now_s();
    struct event event = {.kind = EVENT_METRIC,
                          .name = name,
                          .processor = w->processor,
                          .layer = EVENT_NONE,
                          .edge = EVENT_NONE,
                          .step = w->step,
                          .start_s = now_s,
                          .end_s = now_s,
                          .value = value};
    executor_emit(w->executor, &event);
}

/* Updates that all parts of a copy have done. */
static uint64_t copy_updates(const struct executor *x, const struct copy *copy)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t p = copy->first_part; p < copy->end_part; p++)
        if (x->parts[p].updates < least)
            least = x->parts[p].updates;
    return least;
}

static void evaluate(struct walker *w, uint32_t copy, uint64_t done)
{
    struct executor *x = w->executor;
    const struct execution *execution = x->execution;
    bool due = done == execution->steps ||
               (execution->evaluate_every > 0 && done % execution->evaluate_every == 0);
    if (!due || x->plan->copies[copy].shard != 0)
        return;
    struct evaluation evaluation;
    trainer_evaluate(execution->trainer, copy, &evaluation);
    metric(w, "accuracy", evaluation.accuracy);
    metric(w, "test loss", evaluation.loss);
}

/* The part's weights are those of the next step: tells of it when that goes for the whole
 * copy. */
static void updated(struct walker *w, uint32_t index)
{
    struct executor *x = w->executor;
    const struct part *part = &x->plan->parts[index];
    const struct copy *copy = &x->plan->copies[part->copy];
    uint64_t before = copy_updates(x, copy);
    x->parts[index].updates++;
    uint64_t done = copy_updates(x, copy);
    if (done == before)
        return;
    if (x->training)
        evaluate(w, part->copy, done);
    if (part->copy == 0 && x->execution->progress != NULL)
        x->execution->progress(x->execution->progress_context, machine_now_s(), done);
}

static void update(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct part *part = &x->plan->parts[i->part];
    compute(w, i, &x->parts[i->part].update);
    if (x->training)
        trainer_update(x->execution->trainer, i->part, w->step);
    if (part->final_loss && x->training)
        metric(w, "loss", trainer_step_loss(x->execution->trainer, i->part));
    bool gathers = part->gather_every <= 1 || (w->step + 1) % part->gather_every == 0;
    x->parts[i->part].gathers_left = gathers ? part->gather_count : 0;
    if (x->parts[i->part].gathers_left == 0)
        updated(w, i->part);
}

void execute_gathered(struct walker *w, uint32_t part)
{
    size_t *left = &w->executor->parts[part].gathers_left;
    if (*left > 0 && --*left == 0)
        updated(w, part);
}

void execute_compute(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct part_state *state = &x->parts[i->part];
    switch (i->operation) {
    case OP_LOAD:
        feed_load(w, i->part);
        if (x->training)
            trainer_load(x->execution->trainer, i->part, run_micro_batch(w, i));
        break;
    case OP_FORWARD:
    case OP_RECOMPUTE:
        forward(w, i);
        break;
    case OP_LOSS:
        if (x->training)
            trainer_loss(x->execution->trainer, i->part, run_micro_batch(w, i));
        compute(w, i, &state->loss);
        break;
    case OP_BACKWARD:
        backward(w, i, PASS_BACKWARD);
        break;
    case OP_BACKWARD_INPUT:
        backward(w, i, PASS_BACKWARD_INPUT);
        break;
    case OP_BACKWARD_WEIGHT:
        backward(w, i, PASS_BACKWARD_WEIGHT);
        break;
    case OP_UPDATE:
        update(w, i);
        break;
    default:
        executor_fail(x, STATUS_HOST, "an instruction that is no computation");
    }
}
