/* Edges are bounded queues. A sender waits while the queue is full, then the message
 * travels, occupying both processors where they are bulk-synchronous, and waits in the
 * receiver's memory until its RECEIVE. A sender that may overlap leaves the message to
 * the edge's carrier and goes on. The buffers of a collective are counted as a whole, by
 * executor_together.c. */
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
        state->has_carrier =
            (processor_of(x, edge->from_processor)->overlap || edge->background) &&
            edge->from_processor != edge->to_processor;
        uint64_t scalars;
        state->letters = checked_calloc((size_t)edge->capacity, sizeof *state->letters);
        if (state->letters == NULL)
            return error_memory(error, "messages");
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
    for (size_t i = 0; x->edges != NULL && i < x->plan->edge_count; i++) {
        free(x->edges[i].messages);
        free(x->edges[i].letters);
    }
    free(x->edges);
}

scalar *message_at(const struct executor *x, uint32_t edge, uint64_t number)
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

double executor_sync_s(const struct executor *x, const struct edge *edge)
{
    const struct processor *from = processor_of(x, edge->from_processor);
    const struct processor *to = processor_of(x, edge->to_processor);
    double a = from->overlap ? 0 : from->sync_s, b = to->overlap ? 0 : to->sync_s;
    return edge->from_processor == edge->to_processor ? 0 : fmax(a, b);
}

static void tell_transfer(struct executor *x, uint32_t index, const struct letter *letter,
                          double start_s)
{
    const struct edge *edge = &x->plan->edges[index];
    struct event event = {.kind = EVENT_TRANSFER,
                          .name = payload_name(edge->payload),
                          .processor = edge->from_processor,
                          .layer = EVENT_NONE,
                          .edge = index,
                          .step = letter->step,
                          .micro_batch = letter->micro_batch,
                          .start_s = start_s,
                          .end_s = machine_now_s(),
                          .bytes = letter->bytes};
    executor_emit(x, &event);
}

/* Carries message `number` of the edge to the receiver's queue. Inside a processor
 * nothing travels. */
static void carry(struct walker *w, uint32_t index, uint64_t number)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[index];
    struct edge_state *state = &x->edges[index];
    const struct letter letter = state->letters[number % edge->capacity];
    bool travels = edge->from_processor != edge->to_processor;
    uint32_t held[2];
    bool holds = hold_processors(x, edge, held);
    if (travels)
        trouble_wait_for_links(w, edge);
    double asked_s = machine_now_s();
    if (holds)
        occupancy_acquire(x->occupancy, USAGE_EXCHANGE, held[0], held[1], w->gate);
    if (!state->has_carrier)
        executor_waited(w, "wait for receiver", asked_s);
    state->carried = number + 1;
    if (edge->payload != PAYLOAD_PIECES)
        executor_allocate(x, edge->to_processor, MEMORY_QUEUE, letter.bytes);
    double start_s = machine_now_s();
    if (travels)
        machine_transfer(x->machine, index, letter.bytes, executor_sync_s(x, edge));
    if (holds)
        occupancy_release(x->occupancy, USAGE_EXCHANGE, held[0], held[1]);
    if (state->has_carrier && edge->payload != PAYLOAD_PIECES)
        executor_release(x, edge->from_processor, MEMORY_QUEUE, letter.bytes);
    state->arrived = number + 1;
    if (travels)
        tell_transfer(x, index, &letter, start_s);
    wake(&state->receiver);
}

void carry_messages(void *walker)
{
    struct walker *w = walker;
    struct executor *x = w->executor;
    struct edge_state *state = &x->edges[w->edge];
    while (!x->failed) {
        if (state->carried < state->sent) {
            carry(w, w->edge, state->carried);
            continue;
        }
        state->carrier_waits = true;
        gate_wait(w->gate);
    }
}

uint64_t message_begin(struct walker *w, uint32_t index, const struct letter *letter)
{
    const struct edge *edge = &w->executor->plan->edges[index];
    struct edge_state *state = &w->executor->edges[index];
    double asked_s = machine_now_s();
    while (state->sent - state->received >= edge->capacity)
        wait_on(&state->sender, w->gate);
    executor_waited(w, "wait for queue space", asked_s);
    state->letters[state->sent % edge->capacity] = *letter;
    return state->sent++;
}

void message_dispatch(struct walker *w, uint32_t index, uint64_t number)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[index];
    struct edge_state *state = &x->edges[index];
    if (!state->has_carrier) {
        carry(w, index, number);
        return;
    }
    if (edge->payload != PAYLOAD_PIECES)
        executor_allocate(x, edge->from_processor, MEMORY_QUEUE,
                          state->letters[number % edge->capacity].bytes);
    if (state->carrier_waits) {
        state->carrier_waits = false;
        gate_open(state->carrier_gate);
    }
}

uint64_t message_await(struct walker *w, uint32_t index)
{
    static const char *const waits[PAYLOAD_COUNT] = {
        [PAYLOAD_ACTIVATIONS] = "wait for activations",
        [PAYLOAD_GRADIENTS] = "wait for gradients",
        [PAYLOAD_PREDICTIONS] = "wait for predictions",
        [PAYLOAD_PARAMETERS] = "wait for parameters",
        [PAYLOAD_PIECES] = "wait for pieces",
        [PAYLOAD_SIGNAL] = "wait for other stream",
    };
    struct edge_state *state = &w->executor->edges[index];
    double asked_s = machine_now_s();
    while (state->arrived == state->received)
        wait_on(&state->receiver, w->gate);
    executor_waited(w, waits[w->executor->plan->edges[index].payload], asked_s);
    return state->received;
}

void message_end(struct walker *w, uint32_t index)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[index];
    struct edge_state *state = &x->edges[index];
    if (edge->payload != PAYLOAD_PIECES)
        executor_release(x, edge->to_processor, MEMORY_QUEUE,
                         state->letters[state->received % edge->capacity].bytes);
    state->received++;
    wake(&state->sender);
}

void execute_send(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[i->target];
    uint64_t micro_batch = run_micro_batch(w, i);
    if (edge->bundle != PLAN_NONE && !checkpoint_goes(w, i))
        return;
    bool idle = executor_idle(x, i->part);
    const struct letter letter = {
        .step = micro_batch / x->plan->micro_batches,
        .micro_batch = micro_batch % x->plan->micro_batches,
        .bytes = idle ? 0 : edge->message_bytes,
        .version = x->plan->parts[i->part].teacher ? x->parts[i->part].version : 1};
    uint64_t number = message_begin(w, i->target, &letter);
    if (x->training && !idle)
        trainer_pack(x->execution->trainer, i->target, micro_batch,
                     message_at(x, i->target, number));
    message_dispatch(w, i->target, number);
}

/* What came in becomes the slot's input; gradients, predictions and parameters have their
 * place already. */
void execute_receive(struct walker *w, const struct instruction *i)
{
    struct executor *x = w->executor;
    const struct edge *edge = &x->plan->edges[i->target];
    uint64_t number = message_await(w, i->target);
    const struct letter letter = x->edges[i->target].letters[number % edge->capacity];
    x->parts[i->part].asked = letter.version;
    if (x->training && letter.version > 0)
        trainer_unpack(x->execution->trainer, i->target, run_micro_batch(w, i),
                       message_at(x, i->target, number));
    message_end(w, i->target);
    if (edge->payload == PAYLOAD_ACTIVATIONS)
        executor_allocate(x, w->processor, MEMORY_STASH, letter.bytes);
    if (edge->payload == PAYLOAD_PREDICTIONS && letter.version > 0)
        x->parts[i->part].present++;
}

void edges_settle(struct executor *x)
{
    for (uint32_t i = 0; i < x->plan->edge_count; i++) {
        const struct edge *edge = &x->plan->edges[i];
        struct edge_state *state = &x->edges[i];
        for (uint64_t n = state->arrived; state->has_carrier && n < state->sent; n++)
            executor_release(x, edge->from_processor, MEMORY_QUEUE,
                             state->letters[n % edge->capacity].bytes);
        for (; state->received < state->carried; state->received++)
            executor_release(x, edge->to_processor, MEMORY_QUEUE,
                             state->letters[state->received % edge->capacity].bytes);
    }
}
