#include "sim/executor.h"

#include "base/checked.h"
#include "sim/executor_internal.h"

#include <stdio.h>
#include <stdlib.h>

bool executor_emit(struct executor *x, const struct event *event)
{
    for (size_t i = 0; i < x->execution->sink_count && !x->failed; i++) {
        struct event_sink *sink = x->execution->sinks[i];
        x->failed = !sink->event(sink, event, x->error);
    }
    return !x->failed;
}

void executor_fail(struct executor *x, enum status status, const char *message)
{
    if (!x->failed)
        error_set(x->error, status, "at %.9g s: %s", machine_now_s(), message);
    x->failed = true;
}

static void no_memory_left(struct executor *x)
{
    /* What does not fit cannot train; time, bytes and memory are followed to the end. */
    if (ledger_shortage(x->ledger)->happened)
        x->training = false;
}

bool executor_allocate(struct executor *x, uint32_t processor, enum memory_category category,
                       uint64_t bytes)
{
    struct event event;
    if (bytes == 0)
        return true;
    if (!ledger_add(x->ledger, processor, category, bytes, machine_now_s(), &event)) {
        executor_fail(x, STATUS_HOST, "a processor's memory exceeds 2^64 bytes");
        return false;
    }
    no_memory_left(x);
    event.step = x->steps[processor];
    return executor_emit(x, &event);
}

bool executor_release(struct executor *x, uint32_t processor, enum memory_category category,
                      uint64_t bytes)
{
    struct event event;
    if (bytes == 0)
        return true;
    if (!ledger_remove(x->ledger, processor, category, bytes, machine_now_s(), &event)) {
        executor_fail(x, STATUS_HOST, "memory was freed that was not taken");
        return false;
    }
    event.step = x->steps[processor];
    return executor_emit(x, &event);
}

void executor_waited(struct walker *w, const char *for_what, double since_s)
{
    double now_s = machine_now_s();
    if (now_s <= since_s)
        return;
    struct event event = {.kind = EVENT_WAIT,
                          .name = for_what,
                          .processor = w->processor,
                          .stream = w->stream != NULL ? w->stream->number : 0,
                          .layer = EVENT_NONE,
                          .edge = EVENT_NONE,
                          .step = w->step,
                          .start_s = since_s,
                          .end_s = now_s,
                          .memory_after_bytes = ledger_total(w->executor->ledger, w->processor)};
    executor_emit(w->executor, &event);
}

static void walk_instruction(struct walker *w, const struct instruction *i)
{
    switch (i->operation) {
    case OP_SEND:
        execute_send(w, i);
        break;
    case OP_RECEIVE:
        execute_receive(w, i);
        break;
    case OP_POLL:
        execute_poll(w, i);
        break;
    case OP_COLLECTIVE:
        execute_collective(w, i);
        break;
    case OP_BARRIER:
        execute_barrier(w, i);
        break;
    default:
        execute_compute(w, i);
    }
}

static void walk_code(struct walker *w, const struct code *code)
{
    struct executor *x = w->executor;
    for (size_t i = 0; i < code->count && !x->failed; i++) {
        w->at = &code->instructions[i];
        if (w->stream->number == 0)
            x->steps[w->processor] = w->step;
        trouble_stand(w);
        if (plan_takes_place(x->plan, w->at, w->step, x->last_step))
            walk_instruction(w, w->at);
        if (x->steady != NULL && code == &w->stream->body)
            steady_note(x->steady, (size_t)(w->stream - x->plan->streams), i, w->step,
                        machine_now_s());
    }
}

/* All streams stop after the same step, whose micro-batches nobody has seen yet. */
static void look_for_steady_state(struct walker *w, size_t stream)
{
    struct executor *x = w->executor;
    if (x->steady == NULL || x->last_step < x->execution->steps ||
        !steady_step_done(x->steady, stream, w->step))
        return;
    const uint64_t m = x->plan->micro_batches;
    uint64_t fed_ahead = x->feed_count > 0 ? (FEED_AHEAD + m - 1) / m : 0;
    uint64_t last = steady_begun(x->steady) + 1 + steady_look_ahead(x->steady) + fed_ahead;
    if (last < x->execution->steps)
        x->last_step = last;
}

static void walk_stream(void *walker)
{
    struct walker *w = walker;
    struct executor *x = w->executor;
    walk_code(w, &w->stream->prologue);
    for (uint64_t step = 0; step < x->last_step && !x->failed; step++) {
        w->step = step;
        walk_code(w, &w->stream->body);
        look_for_steady_state(w, (size_t)(w->stream - x->plan->streams));
    }
    w->finished = true;
}

static bool spawn_walkers(struct executor *x, struct error *error)
{
    const struct plan *plan = x->plan;
    x->walkers = checked_calloc(plan->stream_count + plan->edge_count, sizeof *x->walkers);
    if (x->walkers == NULL)
        return error_memory(error, "actors");
    for (size_t i = 0; i < plan->stream_count + plan->edge_count; i++) {
        struct walker *w = &x->walkers[i];
        bool stream = i < plan->stream_count;
        uint32_t edge = stream ? PLAN_NONE : (uint32_t)(i - plan->stream_count);
        if (!stream && !x->edges[edge].has_carrier)
            continue;
        *w = (struct walker){
            .executor = x,
            .stream = stream ? &plan->streams[i] : NULL,
            .processor = stream ? plan->streams[i].processor : plan->edges[edge].from_processor,
            .edge = edge,
            .gate = gate_create(),
        };
        if (w->gate == NULL)
            return error_memory(error, "actors");
        if (!stream)
            x->edges[edge].carrier_gate = w->gate;
        if (!machine_spawn(x->machine, w->processor, stream ? walk_stream : carry_messages, w,
                           !stream, error))
            return false;
    }
    return true;
}

static void change_memory(struct executor *x, bool take, uint32_t processor,
                          enum memory_category category, uint64_t bytes)
{
    if (take)
        executor_allocate(x, processor, category, bytes);
    else
        executor_release(x, processor, category, bytes);
}

/* Weights, gradients, optimiser state and workspace are there from start to end. */
static void resident_memory(struct executor *x, bool take)
{
    for (size_t p = 0; p < x->plan->part_count && !x->failed; p++) {
        const struct part_memory *m = &x->parts[p].memory;
        const struct {
            enum memory_category category;
            uint64_t bytes;
        } needs[] = {{MEMORY_WEIGHTS, m->weights_bytes},
                     {MEMORY_GRADIENTS, m->gradients_bytes},
                     {MEMORY_OPTIMIZER, m->optimizer_bytes}};
        uint32_t processor = x->plan->parts[p].processor;
        for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
            change_memory(x, take, processor, needs[i].category, needs[i].bytes);
        if (m->workspace_bytes > x->workspace_bytes[processor])
            x->workspace_bytes[processor] = m->workspace_bytes;
    }
    for (uint32_t i = 0; i < x->plan->processor_count && !x->failed; i++)
        change_memory(x, take, i, MEMORY_WORKSPACE, x->workspace_bytes[i]);
}

/* The first stream that did not finish; one whose processor failed goes before others. */
static const struct walker *unfinished(const struct executor *x)
{
    const struct walker *first = NULL;
    size_t count = x->plan->stream_count + x->plan->edge_count;
    for (size_t i = 0; i < count; i++) {
        const struct walker *w = &x->walkers[i];
        if (w->lost)
            return w;
        if (first == NULL && w->stream != NULL && !w->finished)
            first = w;
    }
    return first;
}

static bool all_finished(struct executor *x, struct error *error)
{
    const struct walker *w = unfinished(x);
    char text[160] = "start";
    if (w == NULL)
        return true;
    const char *name = platform_processor(x->execution->platform, w->processor)->name;
    if (w->at != NULL)
        instruction_text(x->plan, w->at, text, sizeof text);
    if (w->lost_link != NULL)
        return error_set(error, STATUS_IMPOSSIBLE,
                         "stopped at %.9g s: link %s is down for good, and processor %s has "
                         "to send over it",
                         machine_now_s(), w->lost_link->name, name);
    return error_set(error, STATUS_IMPOSSIBLE, "%s at %.9g s in step %llu: processor %s %s %s",
                     w->lost ? "stopped" : "deadlock", machine_now_s(),
                     (unsigned long long)w->step, name,
                     w->lost ? "failed for good before" : "waits in", text);
}

static bool finish_sinks(struct executor *x, double total_s, struct error *error)
{
    for (size_t i = 0; i < x->execution->sink_count; i++) {
        struct event_sink *sink = x->execution->sinks[i];
        if (x->last_step < x->execution->steps && sink->repeat != NULL &&
            !sink->repeat(sink, x->last_step, x->execution->steps, error))
            return false;
        if (!sink->finish(sink, total_s, error))
            return false;
    }
    return true;
}

static bool run(struct executor *x, struct execution_result *result, struct error *error)
{
    x->training = x->execution->trainer != NULL;
    x->last_step = x->execution->steps;
    resident_memory(x, true);
    machine_run(x->machine);
    result->time_s = machine_now_s();
    result->simulated_steps = x->last_step;
    if (x->last_step < x->execution->steps)
        result->time_s +=
            (double)(x->execution->steps - x->last_step) * steady_period_s(x->steady);
    if (x->failed)
        return false;
    if (!all_finished(x, error)) {
        if (!trouble_ended_run(x, result->note, sizeof result->note))
            return false;
        return finish_sinks(x, result->time_s, error); /* what was held is lost */
    }
    edges_settle(x);
    feeds_settle(x);
    resident_memory(x, false);
    if (x->failed)
        return false;
    result->shortage = *ledger_shortage(x->ledger);
    return finish_sinks(x, result->time_s, error);
}

static struct machine *make_machine(const struct executor *x, struct error *error)
{
    const struct execution *execution = x->execution;
    const struct plan *plan = execution->plan;
    size_t count = plan->edge_count + x->feed_count;
    struct platform_pair *channels = checked_calloc(count, sizeof *channels);
    bool *alone = checked_calloc(count, sizeof *alone); /* the host's links are shared */
    if (channels == NULL || alone == NULL) {
        free(channels);
        free(alone);
        error_memory(error, "channels");
        return NULL;
    }
    for (size_t i = 0; i < plan->edge_count; i++) {
        channels[i] = (struct platform_pair){plan->edges[i].from_processor,
                                             plan->edges[i].to_processor};
        alone[i] = x->alone.edge_alone[i];
    }
    for (size_t i = 0; i < x->feed_count; i++)
        channels[plan->edge_count + i] = (struct platform_pair){
            PLATFORM_HOST, plan->parts[x->feeds[i].part].processor};
    struct machine *machine =
        machine_create(execution->platform, channels, alone, count, error);
    free(channels);
    free(alone);
    return machine;
}

bool execute(const struct execution *execution, struct execution_result *result,
             struct error *error)
{
    struct executor x = {.execution = execution, .plan = execution->plan, .error = error};
    *result = (struct execution_result){0};
    /* A link that changes must be simulated. */
    enum fidelity fidelity = trouble_changes_links(execution->platform) ? FIDELITY_MESSAGE
                                                                        : execution->fidelity;
    bool done = fidelity_map_make(execution->plan, execution->platform, fidelity, &x.alone,
                                  error) &&
                charges_create(&x, error) && edges_create(&x, error) &&
                feeds_create(&x, error) &&
                barriers_create(&x, error) && bundles_create(&x, error);
    if (done) {
        x.occupancy = occupancy_create(platform_processor_count(execution->platform), error);
        if (execution->trainer == NULL && !execution->every_step &&
            execution->steps > STEADY_STEPS && execution->fidelity != FIDELITY_MESSAGE &&
            !trouble_any(execution->platform))
            x.steady = steady_create(execution->plan, error);
        x.ledger = ledger_create(execution->header, error);
        size_t processors = execution->header->processor_count;
        x.steps = checked_calloc(processors, sizeof *x.steps);
        x.workspace_bytes = checked_calloc(processors, sizeof *x.workspace_bytes);
        bool counts = x.steps != NULL && x.workspace_bytes != NULL;
        if (!counts)
            error_memory(error, "processors");
        x.machine = x.occupancy != NULL && x.ledger != NULL && counts ? make_machine(&x, error)
                                                                     : NULL;
        done = x.machine != NULL && trouble_spawn(&x, error) && feeds_spawn(&x, error) &&
               spawn_walkers(&x, error) &&
               run(&x, result, error);
    }
    for (size_t i = 0; x.walkers != NULL && i < x.plan->stream_count + x.plan->edge_count; i++)
        gate_free(x.walkers[i].gate);
    free(x.walkers);
    free(x.steps);
    free(x.workspace_bytes);
    steady_free(x.steady);
    machine_free(x.machine);
    ledger_free(x.ledger);
    occupancy_free(x.occupancy);
    feeds_free(&x);
    bundles_free(&x);
    barriers_free(&x);
    result->edges_alone = x.alone.edges_alone;
    result->collectives_alone = x.alone.collectives_alone;
    fidelity_map_free(&x.alone);
    edges_free(&x);
    charges_free(&x);
    return done;
}
