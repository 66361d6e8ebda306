#include "tests/bench/bare_program.h"

#include "base/checked.h"
#include "sim/collective.h"
#include "sim/cost.h"
#include "tests/bench/bare_simgrid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    const struct experiment *experiment;
    const struct plan *plan;
    struct bare_operation *operations; /* of the actor under way */
    size_t count, capacity;
    struct bare_counts counts;
};

static bool add(struct writer *w, enum bare_kind kind, uint32_t mailbox, double seconds,
                uint64_t bytes, struct error *error)
{
    if (!checked_grow((void **)&w->operations, &w->capacity, w->count + 1,
                      sizeof *w->operations))
        return error_memory(error, "bench program");
    w->operations[w->count++] =
        (struct bare_operation){(uint32_t)kind, mailbox, seconds, bytes};
    return true;
}

static bool add_sleep(struct writer *w, double seconds, struct error *error)
{
    return seconds <= 0 || add(w, BARE_SLEEP, 0, seconds, 0, error);
}

static bool pass_seconds(const struct writer *w, const struct part *part, enum pass pass,
                         double *seconds, struct error *error)
{
    const struct plan *plan = w->plan;
    *seconds = 0;
    for (size_t i = part->first_layer; i < part->end_layer; i++) {
        struct pass_cost cost = {0};
        bool wants = model_backward_wants_input(plan->model, part->first_layer,
                                                part->end_layer, i, part->gradient_out);
        if (!cost_layer(
                &plan->model->layers[i], pass, wants, plan->micro_batch, &plan->precision,
                platform_processor(w->experiment->platform, part->processor), &cost, error))
            return false;
        *seconds += cost.empty ? 0 : cost.seconds;
    }
    return true;
}

static bool loss_seconds(const struct writer *w, const struct part *part, double *seconds,
                         struct error *error)
{
    const struct shape *logits = model_value_shape(w->plan->model, part->logits_value);
    uint64_t classes = logits->extent[logits->rank - 1];
    struct pass_cost cost = {0};
    bool known = cost_loss(shape_count(logits) / classes * w->plan->micro_batch, classes,
                           part->teacher_count, &w->plan->precision,
                           platform_processor(w->experiment->platform, part->processor),
                           &cost, error);
    *seconds = cost.empty ? 0 : cost.seconds;
    return known;
}

static bool update_seconds(const struct writer *w, const struct part *part, double *seconds,
                           struct error *error)
{
    struct pass_cost cost = {0};
    bool known = cost_update(plan_shard_parameters(w->plan, part), w->plan->optimizer_flops,
                             w->plan->optimizer_words, &w->plan->precision,
                             platform_processor(w->experiment->platform, part->processor),
                             &cost, error);
    *seconds = cost.empty ? 0 : cost.seconds;
    return known;
}

/* Before the message's bytes: the latency, and what synchronous processors add to it. */
static bool add_latency(struct writer *w, uint32_t index, struct error *error)
{
    const struct edge *edge = &w->plan->edges[index];
    const struct processor *from =
        platform_processor(w->experiment->platform, edge->from_processor);
    const struct processor *to =
        platform_processor(w->experiment->platform, edge->to_processor);
    struct route route;
    w->counts.messages++;
    return platform_route(w->experiment->platform, edge->from_processor, edge->to_processor,
                          &route, error) &&
           add_sleep(w,
                     route.latency_s + fmax(from->overlap ? 0 : from->sync_s,
                                            to->overlap ? 0 : to->sync_s),
                     error);
}

static bool add_collective(struct writer *w, const struct instruction *i,
                           struct error *error)
{
    const struct collective *c = &w->plan->collectives[i->target];
    uint32_t rank = collective_rank(c, i->part);
    uint64_t word = number_format_bytes(c->parameters ? w->plan->precision.weights
                                                      : w->plan->precision.gradients);
    bool good = true;
    for (uint64_t round = 0; good && round < c->algorithm->rounds(c); round++) {
        struct collective_move move = {0};
        c->algorithm->move(c, rank, round, &move);
        if (move.sends) {
            uint32_t edge = c->edges[(size_t)rank * c->ranks + move.to];
            good = add_latency(w, edge, error) &&
                   add(w, BARE_PUT_ASYNC, edge, 0, move.send_count * word, error);
        }
        if (good && move.receives)
            good = add(w, BARE_GET, c->edges[(size_t)move.from * c->ranks + rank], 0, 0,
                       error);
        if (good && move.sends)
            good = add(w, BARE_WAIT, 0, 0, 0, error);
    }
    return good;
}

static bool add_computation(struct writer *w, const struct instruction *i,
                            struct error *error)
{
    const struct part *part = &w->plan->parts[i->part];
    double seconds = 0;
    bool known = true;
    switch (i->operation) {
    case OP_LOAD:
        return true;
    case OP_FORWARD:
        known = pass_seconds(w, part, PASS_FORWARD, &seconds, error);
        break;
    case OP_BACKWARD:
        known = pass_seconds(w, part, PASS_BACKWARD, &seconds, error);
        break;
    case OP_LOSS:
        known = loss_seconds(w, part, &seconds, error);
        break;
    case OP_UPDATE:
        known = update_seconds(w, part, &seconds, error);
        break;
    default:
        return error_set(error, STATUS_BAD_INPUT, "bench-scale has no %s",
                         operation_name(i->operation));
    }
    w->counts.computations++;
    return known && add_sleep(w, seconds, error);
}

static bool add_instruction(struct writer *w, const struct instruction *i,
                            struct error *error)
{
    switch (i->operation) {
    case OP_SEND:
        return add_latency(w, i->target, error) &&
               add(w, BARE_PUT, i->target, 0, w->plan->edges[i->target].message_bytes,
                   error);
    case OP_RECEIVE:
        return add(w, BARE_GET, i->target, 0, 0, error);
    case OP_COLLECTIVE:
        return add_collective(w, i, error);
    default:
        return add_computation(w, i, error);
    }
}

static bool write_actor(struct writer *w, const struct stream *stream, FILE *out,
                        struct error *error)
{
    const char *host = platform_processor(w->experiment->platform, stream->processor)->name;
    w->count = 0;
    for (size_t i = 0; i < stream->body.count; i++)
        if (plan_takes_place(w->plan, &stream->body.instructions[i], 0, 1) &&
            !add_instruction(w, &stream->body.instructions[i], error))
            return false;
    struct bare_actor actor = {.operations = w->count};
    memcpy(actor.host, host, strlen(host) + 1);
    return (fwrite(&actor, sizeof actor, 1, out) == 1 &&
            fwrite(w->operations, sizeof *w->operations, w->count, out) == w->count) ||
           error_set(error, STATUS_HOST, "cannot write the bench's program");
}

bool bare_program_write(const struct experiment *experiment, FILE *out,
                        struct bare_counts *counts, struct error *error)
{
    const struct plan *plan = experiment->plans[0];
    struct writer w = {.experiment = experiment, .plan = plan};
    const struct bare_header header = {plan->stream_count, plan->edge_count};
    bool good = fwrite(&header, sizeof header, 1, out) == 1 ||
                error_set(error, STATUS_HOST, "cannot write the bench's program");
    for (size_t s = 0; good && s < plan->stream_count; s++)
        good = write_actor(&w, &plan->streams[s], out, error);
    free(w.operations);
    *counts = w.counts;
    return good && (fflush(out) == 0 ||
                    error_set(error, STATUS_HOST, "cannot write the bench's program"));
}

bool bare_platform_write(const struct experiment *experiment, FILE *out,
                         struct error *error)
{
    const struct plan *plan = experiment->plans[0];
    struct platform_pair *pairs = checked_calloc(plan->edge_count, sizeof *pairs);
    if (pairs == NULL)
        return error_memory(error, "routes");
    for (size_t i = 0; i < plan->edge_count; i++)
        pairs[i] = (struct platform_pair){plan->edges[i].from_processor,
                                          plan->edges[i].to_processor};
    bool good =
        platform_write_xml(experiment->platform, pairs, plan->edge_count, out, error);
    free(pairs);
    return good && (fflush(out) == 0 ||
                    error_set(error, STATUS_HOST, "cannot write the bench's platform"));
}
