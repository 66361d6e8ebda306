/* Edges are bounded queues. A sender waits while the queue is full, then the message
 * travels, occupying both processors where they are bulk-synchronous, and waits in the
 * receiver's memory until its RECEIVE. A sender that may overlap leaves the message to
 * the edge's carrier and goes on. */
#include "sim/executor_internal.h"

#include "base/checked.h"

#include <math.h>
#include <stdlib.h>

static const struct processor *processor_of(const struct executor *x, uint32_t index)
{
    return platform_processor(x->execution->platform, index);
}

bool edges_create(struct executor *x, struct error *error)
{
    const struct plan *plan = x->plan;
    x->edges = checked_calloc(plan->edge_count, sizeof *x->edges);
    if (x->edges == NULL)
        return error_memory(error, "edges");
    for (size_t i = 0; i < plan->edge_count; i++) {
        const struct edge *edge = &plan->edges[i];
        struct edge_state *state = &x->edges[i];
        state->has_carrier = processor_of(x, edge->from_processor)->overlap &&
                             edge->from_processor != edge->to_processor;
        uint64_t scalars;
        if (x->execution->trainer == NULL)
            continue;
        if (!checked_multiply(edge->capacity, edge->message_count, &scalars))
            return error_memory(error, "messages");
        state->messages = checked_calloc_aligned((size_t)scalars, sizeof *state->messages);
        if (state->messages == NULL)
            return error_memory(error, "messages");
    }
    return true;
}

void edges_free(struct executor *x)
{
    for (size_t i = 0; x->edges != NULL && i < x->plan->edge_count; i++)
        free(x->edges[i].messages);
    free(x->edges);
}

static scalar *message_at(const struct executor *x, uint32_t edge, uint64_t number)
{
    const struct edge *e = &x->plan->edges[edge];
    return x->edges[edge].messages + (number % e->capacity) * e->message_count;
}

static void wake(struct gate **waiting)
{
    struct gate *gate = *waiting;
    *waiting = NULL;
    if (gate != NULL)
        gate_open(gate);
}

static void wait_on(struct gate **waiting, struct gate *gate)
{
    *waiting = gate;
    gate_wait(gate);
}

/* Holds the bulk-synchronous ones of the two processors for the length of a transfer. */
static bool hold_processors(struct executor *x, const struct edge *edge, uint32_t held[2])
{
    bool from = !processor_of(x, edge->from_processor)->overlap;
    bool to = !processor_of(x, edge->to_processor)->overlap;
    held[0] = from ? edge->from_processor : edge->to_processor;
    held[1] = to ? edge->to_processor : edge->from_processor;
    return (from || to) && edge->from_processor != edge->to_processor;
}

static double sync_s(const struct executor *x, const struct edge *edge)
{
    const struct processor *from = processor_of(x, edge->from_processor);
    const struct processor *to = processor_of(x, edge->to_processor);
    double a = from->overlap ? 0 : from->sync_s, b = to->overlap ? 0 : to->sync_s;
    return edge->from_processor == edge->to_processor ? 0 : fmax(a, b);
}

/* Carries message `number` of the edge to the receiver's queue. An edge carries one
 * message a micro-batch, in order, so the number is also the micro-batch's. */
static void carry(struct walker *w, uint32_t index, uint64_t number)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[index];
    struct edge_state *state = &x->edges[index];
    uint32_t held[2];
    bool holds = hold_processors(x, edge, held);
    double asked_s = machine_now_s();
    if (holds)
        occupancy_acquire(x->occupancy, USAGE_EXCHANGE, held[0], held[1], w->gate);
    if (!state->has_carrier)
        executor_waited(w, "wait for receiver", asked_s);
    executor_allocate(x, edge->to_processor, MEMORY_QUEUE, edge->message_bytes);
    double start_s = machine_now_s();
    if (edge->from_processor != edge->to_processor &&
        !machine_transfer(x->machine, index, edge->message_bytes, sync_s(x, edge)))
        executor_fail(x, STATUS_IMPOSSIBLE, "a transfer failed");
    if (holds)
        occupancy_release(x->occupancy, USAGE_EXCHANGE, held[0], held[1]);
    if (state->has_carrier)
        executor_release(x, edge->from_processor, MEMORY_QUEUE, edge->message_bytes);
    state->arrived = number + 1;
    struct event event = {.kind = EVENT_TRANSFER,
                          .name = payload_name(edge->payload),
                          .processor = edge->from_processor,
                          .layer = EVENT_NONE,
                          .edge = index,
                          .step = number / x->plan->micro_batches,
                          .micro_batch = number % x->plan->micro_batches,
                          .start_s = start_s,
                          .end_s = machine_now_s(),
                          .bytes = edge->message_bytes,
                          .memory_after_bytes = ledger_total(x->ledger, edge->from_processor)};
    executor_emit(x, &event);
    wake(&state->receiver);
}

void carry_messages(void *walker)
{
    struct walker *w = walker;
    struct executor *x = w->executor;
    struct edge_state *state = &x->edges[w->edge];
    while (!x->failed) {
        if (state->carried == state->sent) {
            state->carrier_waits = true;
            gate_wait(w->gate);
            continue;
        }
        carry(w, w->edge, state->carried++);
    }
}

void execute_send(struct walker *w, const struct instruction *instruction)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[instruction->target];
    struct edge_state *state = &x->edges[instruction->target];
    double asked_s = machine_now_s();
    while (state->sent - state->received >= edge->capacity)
        wait_on(&state->sender, w->gate);
    executor_waited(w, "wait for queue space", asked_s);
    uint64_t number = state->sent++;
    if (x->training)
        trainer_pack(x->execution->trainer, instruction->target,
                     run_micro_batch(w, instruction),
                     message_at(x, instruction->target, number));
    if (!state->has_carrier) {
        carry(w, instruction->target, number);
        return;
    }
    executor_allocate(x, edge->from_processor, MEMORY_QUEUE, edge->message_bytes);
    if (state->carrier_waits) {
        state->carrier_waits = false;
        gate_open(state->carrier_gate);
    }
}

/* What came in becomes the slot's input; gradients and predictions become workspace,
 * which is counted there already. */
void execute_receive(struct walker *w, const struct instruction *instruction)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[instruction->target];
    struct edge_state *state = &x->edges[instruction->target];
    static const char *const waits[PAYLOAD_COUNT] = {
        "wait for activations", "wait for gradients", "wait for predictions"};
    double asked_s = machine_now_s();
    while (state->arrived == state->received)
        wait_on(&state->receiver, w->gate);
    executor_waited(w, waits[edge->payload], asked_s);
    if (x->training)
        trainer_unpack(x->execution->trainer, instruction->target,
                       run_micro_batch(w, instruction),
                       message_at(x, instruction->target, state->received));
    executor_release(x, w->processor, MEMORY_QUEUE, edge->message_bytes);
    if (edge->payload == PAYLOAD_ACTIVATIONS)
        executor_allocate(x, w->processor, MEMORY_STASH, edge->message_bytes);
    state->received++;
    wake(&state->sender);
}
