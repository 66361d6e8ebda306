/* A collective worked out instead of simulated: when nothing else can use its links, the
 * times of its messages follow from one another, round by round, by the rules that
 * executor_transfer.c lives by. Its ranks wait for the last of them to come, which all of
 * their results depend on anyway. */
#include "sim/executor_internal.h"

#include "base/checked.h"
#include "sim/collective.h"

#include <math.h>
#include <stdlib.h>

enum { LINE_CAPACITY = 8 }; /* messages; at least the capacity of a collective's edge */

/* An edge of the collective. */
struct line {
    double latency_s, bandwidth_bytes_per_s;
    double free_s; /* when its last message so far has arrived */
    double arrive_s[LINE_CAPACITY], take_s[LINE_CAPACITY];
    uint64_t sent, taken, bytes;
    double first_s, transfer_s; /* when the first began; durations of all */
};

struct closed {
    struct executor *x;
    const struct collective *c;
    uint32_t first_edge; /* a collective's edges are numbered in a row */
    size_t edges;
    struct line *lines;
    struct collective_move *moves; /* of a round, one a rank */
    double *ready_s;               /* a rank: its last round is done */
    uint64_t word_bytes, step;
};

static bool open_line(struct closed *k, uint32_t index)
{
    const struct edge *edge = &k->x->plan->edges[index];
    struct line *line = &k->lines[index - k->first_edge];
    struct route route;
    if (!platform_route(k->x->execution->platform, edge->from_processor, edge->to_processor,
                        &route, k->x->error)) {
        k->x->failed = true;
        return false;
    }
    line->latency_s = route.latency_s + executor_sync_s(k->x, edge);
    line->bandwidth_bytes_per_s = route.bandwidth_bytes_per_s;
    if (edge->from_processor == edge->to_processor)
        line->latency_s = 0;
    return true;
}

static bool open_lines(struct closed *k)
{
    uint32_t last = 0;
    k->first_edge = PLAN_NONE;
    size_t slots = collective_slots(k->c);
    for (size_t i = 0; i < slots; i++) {
        uint32_t edge = k->c->edges[i];
        if (edge == PLAN_NONE)
            continue;
        k->first_edge = edge < k->first_edge ? edge : k->first_edge;
        last = edge > last ? edge : last;
    }
    k->edges = k->first_edge == PLAN_NONE ? 0 : last - k->first_edge + 1;
    k->lines = checked_calloc(k->edges, sizeof *k->lines);
    k->moves = checked_calloc(k->c->ranks, sizeof *k->moves);
    if (k->lines == NULL || k->moves == NULL) {
        executor_fail(k->x, STATUS_HOST, "out of memory: collective");
        return false;
    }
    for (size_t i = 0; i < slots; i++)
        if (k->c->edges[i] != PLAN_NONE && !open_line(k, k->c->edges[i]))
            return false;
    return true;
}

static struct line *line_of(struct closed *k, uint32_t lane, uint32_t from, uint32_t to,
                            uint32_t *edge)
{
    *edge = collective_edge(k->c, lane, from, to);
    return &k->lines[*edge - k->first_edge];
}

static void send(struct closed *k, uint32_t rank)
{
    const struct collective_move *move = &k->moves[rank];
    uint32_t index;
    struct line *line = line_of(k, move->send_lane, rank, move->to, &index);
    const struct edge *edge = &k->x->plan->edges[index];
    double issue_s = k->ready_s[rank];
    if (line->sent >= line->taken + edge->capacity) {
        executor_fail(k->x, STATUS_HOST, "a collective cannot be worked out; use fidelity "
                                         "\"message\"");
        return;
    }
    if (line->sent >= edge->capacity)
        issue_s = fmax(issue_s, line->take_s[(line->sent - edge->capacity) % LINE_CAPACITY]);
    uint64_t bytes = move->send_count * k->word_bytes;
    double start_s = fmax(issue_s, line->free_s);
    double end_s = start_s + line->latency_s + (double)bytes / line->bandwidth_bytes_per_s;
    if (line->sent == 0)
        line->first_s = start_s;
    if (k->x->training)
        trainer_pack_piece(k->x->execution->trainer, k->c, rank,
                           collective_first(k->c, rank) + move->send_first, move->send_count,
                           message_at(k->x, index, line->sent));
    line->arrive_s[line->sent % LINE_CAPACITY] = end_s;
    line->free_s = end_s;
    line->bytes += bytes;
    line->transfer_s += end_s - start_s;
    line->sent++;
    /* Who overlaps leaves the message to its carrier and goes on. */
    k->ready_s[rank] = k->x->edges[index].has_carrier ? issue_s : end_s;
}

static void receive(struct closed *k, uint32_t rank)
{
    const struct collective_move *move = &k->moves[rank];
    uint32_t index;
    struct line *line = line_of(k, move->receive_lane, move->from, rank, &index);
    if (line->taken >= line->sent) {
        executor_fail(k->x, STATUS_HOST, "a collective cannot be worked out; use fidelity "
                                         "\"message\"");
        return;
    }
    double at_s = fmax(k->ready_s[rank], line->arrive_s[line->taken % LINE_CAPACITY]);
    if (k->x->training)
        trainer_unpack_piece(k->x->execution->trainer, k->c, rank,
                             collective_first(k->c, rank) + move->receive_first,
                             move->receive_count, move->reduces,
                             message_at(k->x, index, line->taken));
    line->take_s[line->taken % LINE_CAPACITY] = at_s;
    line->taken++;
    k->ready_s[rank] = at_s;
}

static void walk_rounds(struct closed *k)
{
    uint64_t rounds = k->c->algorithm->rounds(k->c);
    for (uint64_t round = 0; round < rounds && !k->x->failed; round++) {
        for (uint32_t rank = 0; rank < k->c->ranks; rank++) {
            k->moves[rank] = (struct collective_move){0};
            k->c->algorithm->move(k->c, rank, round, &k->moves[rank]);
            if (k->moves[rank].sends && !k->x->failed)
                send(k, rank);
        }
        for (uint32_t rank = 0; rank < k->c->ranks && !k->x->failed; rank++)
            if (k->moves[rank].receives)
                receive(k, rank);
    }
}

/* One event for all messages of an edge. */
static void tell(struct closed *k)
{
    for (size_t i = 0; i < k->edges && !k->x->failed; i++) {
        const struct line *line = &k->lines[i];
        uint32_t index = k->first_edge + (uint32_t)i;
        const struct edge *edge = &k->x->plan->edges[index];
        if (line->sent == 0 || edge->from_processor == edge->to_processor)
            continue;
        const struct event event = {.kind = EVENT_TRANSFER,
                                    .name = payload_name(edge->payload),
                                    .processor = edge->from_processor,
                                    .layer = EVENT_NONE,
                                    .edge = index,
                                    .step = k->step,
                                    .start_s = line->first_s,
                                    .end_s = line->free_s,
                                    .bytes = line->bytes,
                                    .messages = line->sent,
                                    .transfer_s = line->transfer_s};
        executor_emit(k->x, &event);
    }
}

void closed_form(struct executor *x, const struct collective *collective, uint64_t step,
                 double *ready_s)
{
    struct closed k = {
        .x = x,
        .c = collective,
        .ready_s = ready_s,
        .word_bytes = number_format_bytes(collective_format(x->plan, collective)),
        .step = step};
    if (open_lines(&k)) {
        walk_rounds(&k);
        tell(&k);
    }
    free(k.lines);
    free(k.moves);
}
