/* How long a plan takes when no two messages share a link and every processor computes and
 * exchanges at once: the longest chain through programs and bounded queues, worked out
 * from the programs, the layers' costs and the routes, without a simulator. On other
 * machines it is a lower bound. */
#ifndef PODSIM_TESTS_TIMING_ORACLE_H
#define PODSIM_TESTS_TIMING_ORACLE_H

#include "sim/collective.h"
#include "sim/cost.h"
#include "sim/experiment.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

enum { ORACLE_MESSAGES = 4096 };

struct oracle_edge {
    uint64_t sent, received;
    double arrived_s[ORACLE_MESSAGES], taken_s[ORACLE_MESSAGES];
    double latency_s, bandwidth_bytes_per_s;
};

struct oracle_stream {
    uint64_t step;
    size_t next;
    uint64_t round; /* of a collective */
    bool sent;
    double now_s;
};

struct oracle {
    const struct experiment *experiment;
    const struct plan *plan;
    struct oracle_edge *edges;
    struct oracle_stream *streams;
    bool moved;
};

/* Is every instruction of a kind that this file knows? */
static inline bool oracle_knows(const struct plan *plan)
{
    for (size_t s = 0; s < plan->stream_count; s++) {
        const struct code *body = &plan->streams[s].body;
        if (plan->streams[s].number > 0 || plan->streams[s].prologue.count > 0)
            return false;
        for (size_t i = 0; i < body->count; i++) {
            enum operation o = body->instructions[i].operation;
            if (o == OP_POLL || o == OP_BARRIER || o == OP_BACKWARD_INPUT ||
                o == OP_BACKWARD_WEIGHT || o == OP_BACKWARD_RECEIVED ||
                body->instructions[i].end_layer > 0)
                return false;
        }
    }
    for (size_t i = 0; i < plan->part_count; i++)
        if (plan->parts[i].shards > 1 || plan->parts[i].recompute == RECOMPUTE_BLOCKS)
            return false;
    return true;
}

static inline double oracle_pass_s(const struct oracle *o, const struct part *part,
                                   enum pass pass)
{
    const struct plan *plan = o->plan;
    double sum_s = 0;
    for (size_t i = part->first_layer; i < part->end_layer; i++) {
        struct pass_cost cost = {0};
        struct error error;
        bool wants = model_backward_wants_input(plan->model, part->first_layer,
                                                part->end_layer, i, part->gradient_out);
        CU_ASSERT_FATAL(cost_layer(
            &plan->model->layers[i], pass, wants, plan->micro_batch, &plan->precision,
            platform_processor(o->experiment->platform, part->processor), &cost, &error));
        sum_s += cost.empty ? 0 : cost.seconds;
    }
    return sum_s;
}

static inline double oracle_loss_s(const struct oracle *o, const struct part *part)
{
    const struct shape *logits = model_value_shape(o->plan->model, part->logits_value);
    uint64_t classes = logits->extent[logits->rank - 1];
    struct pass_cost cost = {0};
    struct error error;
    CU_ASSERT_FATAL(cost_loss(shape_count(logits) / classes * o->plan->micro_batch, classes,
                              part->teacher_count, &o->plan->precision,
                              platform_processor(o->experiment->platform, part->processor),
                              &cost, &error));
    return cost.empty ? 0 : cost.seconds;
}

static inline double oracle_update_s(const struct oracle *o, const struct part *part)
{
    struct pass_cost cost = {0};
    struct error error;
    CU_ASSERT_FATAL(cost_update(
        plan_part_parameters(o->plan, part), o->plan->optimizer_flops,
        o->plan->optimizer_words, &o->plan->precision,
        platform_processor(o->experiment->platform, part->processor), &cost, &error));
    return cost.empty ? 0 : cost.seconds;
}

static inline bool oracle_send(struct oracle *o, struct oracle_stream *s, uint32_t edge,
                               uint64_t bytes)
{
    struct oracle_edge *e = &o->edges[edge];
    uint64_t capacity = o->plan->edges[edge].capacity;
    if (e->sent >= e->received + capacity)
        return false;
    CU_ASSERT_FATAL(e->sent < ORACLE_MESSAGES);
    if (e->sent >= capacity) /* the place that it takes became free then */
        s->now_s = fmax(s->now_s, e->taken_s[e->sent - capacity]);
    double start_s = e->sent > 0 ? fmax(s->now_s, e->arrived_s[e->sent - 1]) : s->now_s;
    e->arrived_s[e->sent++] =
        start_s + e->latency_s + (double)bytes / e->bandwidth_bytes_per_s;
    return true;
}

static inline bool oracle_receive(struct oracle *o, struct oracle_stream *s, uint32_t edge)
{
    struct oracle_edge *e = &o->edges[edge];
    if (e->received == e->sent)
        return false;
    s->now_s = fmax(s->now_s, e->arrived_s[e->received]);
    e->taken_s[e->received++] = s->now_s;
    return true;
}

static inline bool oracle_rounds(struct oracle *o, struct oracle_stream *s,
                                 const struct instruction *i)
{
    const struct collective *c = &o->plan->collectives[i->target];
    uint32_t rank = collective_rank(c, i->part);
    uint64_t word = number_format_bytes(c->parameters ? o->plan->precision.weights
                                                      : o->plan->precision.gradients);
    for (; s->round < c->algorithm->rounds(c); s->round++, s->sent = false) {
        struct collective_move move = {0};
        c->algorithm->move(c, rank, s->round, &move);
        if (move.sends && !s->sent &&
            !oracle_send(o, s, c->edges[(size_t)rank * c->ranks + move.to],
                         move.send_count * word))
            return false;
        o->moved = o->moved || !s->sent;
        s->sent = true;
        if (move.receives &&
            !oracle_receive(o, s, c->edges[(size_t)move.from * c->ranks + rank]))
            return false;
    }
    s->round = 0;
    return true;
}

static inline bool oracle_take(struct oracle *o, struct oracle_stream *s,
                               const struct instruction *i)
{
    const struct part *part = &o->plan->parts[i->part];
    switch (i->operation) {
    case OP_SEND:
        return oracle_send(o, s, i->target, o->plan->edges[i->target].message_bytes);
    case OP_RECEIVE:
        return oracle_receive(o, s, i->target);
    case OP_COLLECTIVE:
        return oracle_rounds(o, s, i);
    case OP_FORWARD:
    case OP_RECOMPUTE:
        s->now_s += oracle_pass_s(o, part, PASS_FORWARD);
        return true;
    case OP_BACKWARD:
        s->now_s += oracle_pass_s(o, part, PASS_BACKWARD);
        return true;
    case OP_LOSS:
        s->now_s += oracle_loss_s(o, part);
        return true;
    case OP_UPDATE:
        s->now_s += oracle_update_s(o, part);
        return true;
    default:
        return true;
    }
}

static inline void oracle_advance(struct oracle *o, size_t index)
{
    struct oracle_stream *s = &o->streams[index];
    const struct code *body = &o->plan->streams[index].body;
    uint64_t steps = o->experiment->steps;
    while (s->step < steps) {
        if (s->next == body->count) {
            s->next = 0;
            s->step++;
            continue;
        }
        const struct instruction *i = &body->instructions[s->next];
        if (plan_takes_place(o->plan, i, s->step, steps) && !oracle_take(o, s, i))
            return;
        s->next++;
        o->moved = true;
    }
}

static inline void oracle_routes(struct oracle *o)
{
    for (size_t i = 0; i < o->plan->edge_count; i++) {
        struct route route;
        struct error error;
        const struct edge *edge = &o->plan->edges[i];
        CU_ASSERT_FATAL(platform_route(o->experiment->platform, edge->from_processor,
                                       edge->to_processor, &route, &error));
        o->edges[i].latency_s = route.latency_s;
        o->edges[i].bandwidth_bytes_per_s = route.bandwidth_bytes_per_s;
    }
}

/* Seconds; NaN when the plan has instructions that this file does not know. */
static inline double oracle_time_s(const struct experiment *experiment, size_t method)
{
    const struct plan *plan = experiment->plans[method];
    struct oracle o = {.experiment = experiment, .plan = plan};
    double end_s = 0;
    if (!oracle_knows(plan))
        return NAN;
    o.edges = calloc(plan->edge_count + 1, sizeof *o.edges);
    o.streams = calloc(plan->stream_count, sizeof *o.streams);
    CU_ASSERT_FATAL(o.edges != NULL && o.streams != NULL);
    oracle_routes(&o);
    do {
        o.moved = false;
        for (size_t s = 0; s < plan->stream_count; s++)
            oracle_advance(&o, s);
    } while (o.moved);
    for (size_t s = 0; s < plan->stream_count; s++) {
        CU_ASSERT_EQUAL(o.streams[s].step, experiment->steps);
        end_s = fmax(end_s, o.streams[s].now_s);
    }
    free(o.edges);
    free(o.streams);
    return end_s;
}

/* Does every link of the plan's routes carry the messages of one edge only, and does every
 * processor compute and exchange at once? */
static inline bool oracle_exact(const struct experiment *experiment, size_t method)
{
    const struct plan *plan = experiment->plans[method];
    size_t links = platform_link_count(experiment->platform);
    uint32_t *user = calloc(links + 1, sizeof *user);
    bool exact = true;
    CU_ASSERT_PTR_NOT_NULL_FATAL(user);
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        struct route route;
        struct error error;
        const struct edge *edge = &plan->edges[i];
        CU_ASSERT_FATAL(platform_route(experiment->platform, edge->from_processor,
                                       edge->to_processor, &route, &error));
        for (size_t k = 0; k < route.link_count; k++) {
            exact = exact && user[route.links[k]] == 0;
            user[route.links[k]] = i + 1;
        }
    }
    for (size_t i = 0; i < platform_processor_count(experiment->platform); i++)
        exact = exact && platform_processor(experiment->platform, i)->overlap;
    free(user);
    return exact;
}

#endif
