#include "sim/executor_internal.h"

/* Occupies the processor for the charges' sum and tells each as an event. */
static void compute(struct walker *w, const struct instruction *instruction,
                    enum operation operation, const struct charges *charges)
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
        .name = operation_name(operation),
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

/* The layers of the part that an instruction is about. */
struct layers {
    size_t first, end;
    bool has_first, has_last; /* layer of the part */
};

static struct layers layers_of(const struct walker *w, const struct instruction *i)
{
    const struct part *part = &w->executor->plan->parts[i->part];
    bool whole = i->end_layer == 0;
    struct layers layers = {.first = whole ? part->first_layer : i->first_layer,
                            .end = whole ? part->end_layer : i->end_layer};
    layers.has_first = layers.first == part->first_layer;
    layers.has_last = layers.end == part->end_layer;
    return layers;
}

/* The charges of a run of layers. They stand in the pass's order; what belongs to no layer
 * comes at the pass's end. */
static struct charges charges_of(const struct charges *all, const struct layers *layers,
                                 bool ends)
{
    struct charges piece = {0};
    if (layers->has_first && layers->has_last)
        return *all;
    for (size_t k = 0; k < all->count; k++) {
        uint32_t layer = all->items[k].layer;
        if (layer == EVENT_NONE ? !ends : layer < layers->first || layer >= layers->end)
            continue;
        if (piece.count++ == 0)
            piece.items = &all->items[k];
        piece.seconds += all->items[k].seconds;
    }
    return piece;
}

/* What a forward keeps besides its input: the rest of the stash, and the logits. */
static uint64_t kept_bytes(const struct part_memory *memory)
{
    return memory->stash_bytes - memory->kept_input_bytes + memory->logits_bytes;
}

static void take_stash(struct walker *w, uint64_t bytes)
{
    executor_allocate(w->executor, w->processor, MEMORY_STASH, bytes);
}

static void free_stash(struct walker *w, uint64_t bytes)
{
    executor_release(w->executor, w->processor, MEMORY_STASH, bytes);
}

static void run_forward(struct walker *w, const struct instruction *i, enum pass pass,
                        const struct layers *layers)
{
    struct executor *x = w->executor;
    struct charges piece =
        charges_of(&x->parts[i->part].passes[pass], layers, layers->has_last);
    if (x->training)
        trainer_forward(x->execution->trainer, i->part, run_micro_batch(w, i),
                        layers->first, layers->end, i->operation == OP_RECOMPUTE);
    compute(w, i, i->operation, &piece);
}

static void forward(struct walker *w, const struct instruction *i)
{
    const struct part_memory *memory = &w->executor->parts[i->part].memory;
    const struct layers layers = layers_of(w, i);
    enum recompute recompute = w->executor->plan->parts[i->part].recompute;
    if (executor_idle(w->executor, i->part))
        return;
    if (layers.has_first && recompute == RECOMPUTE_NONE)
        take_stash(w, kept_bytes(memory));
    else if (layers.has_first && recompute == RECOMPUTE_BLOCKS)
        take_stash(w, memory->block_inputs_bytes);
    run_forward(w, i, PASS_FORWARD, &layers);
    if (layers.has_last && recompute == RECOMPUTE_NONE)
        free_stash(w, memory->input_bytes - memory->kept_input_bytes);
}

/* The block that begins with a layer; NULL: none does, or the part does not go back block
 * by block. */
static const struct block_state *block_from(const struct part_state *state, size_t layer)
{
    for (size_t b = 0; b < state->block_count; b++)
        if (state->blocks[b].first_layer == layer)
            return &state->blocks[b];
    return NULL;
}

static void recompute(struct walker *w, const struct instruction *i)
{
    const struct part_state *state = &w->executor->parts[i->part];
    const struct part_memory *memory = &state->memory;
    const struct layers layers = layers_of(w, i);
    const struct block_state *block = block_from(state, layers.first);
    if (block != NULL)
        take_stash(w, block->stash_bytes);
    if (block != NULL && block->last)
        take_stash(w, memory->logits_bytes);
    if (state->block_count == 0 && layers.has_first)
        take_stash(w, kept_bytes(memory));
    run_forward(w, i, PASS_RECOMPUTE, &layers);
    if (state->block_count == 0 && layers.has_last)
        free_stash(w, memory->input_bytes - memory->kept_input_bytes);
}

/* Bytes that are free after the last backward of a micro-batch. */
static uint64_t spent_bytes(const struct part_state *state)
{
    const struct part_memory *memory = &state->memory;
    if (state->block_count > 0)
        return memory->input_bytes + memory->block_inputs_bytes + memory->logits_bytes;
    return memory->stash_bytes + memory->logits_bytes;
}

static void backward(struct walker *w, const struct instruction *i, enum pass pass)
{
    static const enum backward_pass numeric[PASS_COUNT] = {
        [PASS_BACKWARD] = BACKWARD_ALL,
        [PASS_BACKWARD_INPUT] = BACKWARD_INPUT,
        [PASS_BACKWARD_WEIGHT] = BACKWARD_WEIGHT,
    };
    struct executor *x = w->executor;
    const struct part_state *state = &x->parts[i->part];
    const struct layers layers = layers_of(w, i);
    const struct block_state *block = block_from(state, layers.first);
    struct charges piece = charges_of(&state->passes[pass], &layers, layers.has_first);
    if (pass == PASS_BACKWARD_INPUT && layers.has_last)
        take_stash(w, state->memory.kept_gradients_bytes);
    if (x->training)
        trainer_backward(x->execution->trainer, i->part, run_micro_batch(w, i),
                         layers.first, layers.end, numeric[pass]);
    compute(w, i, i->operation, &piece);
    if (block != NULL)
        free_stash(w, block->stash_bytes);
    if (pass == PASS_BACKWARD_INPUT || !layers.has_first)
        return;
    free_stash(w, x->plan->parts[i->part].gradient_apart ? state->memory.logits_bytes
                                                         : spent_bytes(state));
    if (pass == PASS_BACKWARD_WEIGHT)
        free_stash(w, state->memory.kept_gradients_bytes);
}

/* After the own loss's backward: what both have read goes. */
static void backward_received(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct part_state *state = &x->parts[i->part];
    const struct layers layers = layers_of(w, i);
    struct charges piece = charges_of(&state->received, &layers, layers.has_first);
    if (x->training)
        trainer_backward_received(x->execution->trainer, i->part, run_micro_batch(w, i),
                                  layers.first, layers.end);
    compute(w, i, i->operation, &piece);
    if (layers.has_first)
        free_stash(w, state->memory.stash_bytes);
}

static void loss(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    struct part_state *state = &x->parts[i->part];
    if (x->training)
        trainer_loss(x->execution->trainer, i->part, run_micro_batch(w, i));
    compute(w, i, OP_LOSS, &state->losses[state->present]);
    state->present = 0;
}

void executor_metric(struct walker *w, const char *name, uint32_t edge, double value)
{
    double now_s = machine_now_s();
    struct event event = {.kind = EVENT_METRIC,
                          .name = name,
                          .processor = w->processor,
                          .layer = EVENT_NONE,
                          .edge = edge,
                          .step = w->step,
                          .start_s = now_s,
                          .end_s = now_s,
                          .value = value};
    executor_emit(w->executor, &event);
}

/* Steps whose updates all parts of a copy have done. */
static uint64_t copy_updates(const struct executor *x, const struct copy *copy)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t p = copy->first_part; p < copy->end_part; p++)
        if (x->plan->parts[p].trains && x->parts[p].updates < least)
            least = x->parts[p].updates;
    return least / x->plan->updates;
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
    executor_metric(w, "accuracy", EVENT_NONE, evaluation.accuracy);
    executor_metric(w, "test loss", EVENT_NONE, evaluation.loss);
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
    const uint64_t updates = x->plan->updates;
    uint64_t number = run_micro_batch(w, i) / (x->plan->micro_batches / updates);
    compute(w, i, OP_UPDATE, &x->parts[i->part].update);
    if (x->training)
        trainer_update(x->execution->trainer, i->part, number);
    if (part->final_loss && part->rank == 0 && x->training && (number + 1) % updates == 0)
        executor_metric(w, "loss", EVENT_NONE,
                        trainer_step_loss(x->execution->trainer, i->part));
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
    switch (i->operation) {
    case OP_LOAD:
        if (executor_idle(x, i->part))
            break;
        feed_load(w, i->part);
        if (x->training)
            trainer_load(x->execution->trainer, i->part, run_micro_batch(w, i));
        break;
    case OP_FORWARD:
        forward(w, i);
        break;
    case OP_RECOMPUTE:
        recompute(w, i);
        break;
    case OP_LOSS:
        loss(w, i);
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
    case OP_BACKWARD_RECEIVED:
        backward_received(w, i);
        break;
    case OP_UPDATE:
        update(w, i);
        break;
    default:
        executor_fail(x, STATUS_HOST, "an instruction that is no computation");
    }
}
