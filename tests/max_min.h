/* Plain max-min sharing, from its definition and apart from the simulator: all flows grow
 * at one rate until a link is full; the flows through it are then fixed, and the others
 * grow on. Event driven: the rates hold until a flow starts or ends. */
#ifndef PODSIM_TESTS_MAX_MIN_H
#define PODSIM_TESTS_MAX_MIN_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct max_min_link {
    double bandwidth_bytes_per_s; /* INFINITY: free */
    bool fatpipe;                 /* each flow may have all of it */
};

struct max_min_flow {
    const uint32_t *links;
    size_t link_count;
    double start_s, latency_s, bytes;
    double finish_s; /* the result */
};

struct max_min {
    const struct max_min_link *links;
    size_t link_count;
    struct max_min_flow *flows;
    size_t flow_count;
    double *left_bytes, *rate; /* a flow */
    bool *fixed, *done;        /* a flow */
    double *free_rate;         /* a link: not yet given away */
    size_t *growing;           /* a link: flows through it that are not fixed */
};

/* After the latency of its route a flow asks for its share, until it is done. */
static inline bool max_min_asks(const struct max_min *m, size_t flow, double now_s)
{
    const struct max_min_flow *f = &m->flows[flow];
    return !m->done[flow] && f->start_s + f->latency_s <= now_s;
}

/* What the links that are not shared leave a flow at most. */
static inline double max_min_bound(const struct max_min *m, size_t flow)
{
    double bound = INFINITY;
    for (size_t i = 0; i < m->flows[flow].link_count; i++)
        if (m->links[m->flows[flow].links[i]].fatpipe)
            bound = fmin(bound, m->links[m->flows[flow].links[i]].bandwidth_bytes_per_s);
    return bound;
}

static inline void max_min_fix(struct max_min *m, size_t flow, double rate)
{
    m->fixed[flow] = true;
    m->rate[flow] = rate;
    for (size_t i = 0; i < m->flows[flow].link_count; i++) {
        m->free_rate[m->flows[flow].links[i]] -= isinf(rate) ? 0 : rate;
        m->growing[m->flows[flow].links[i]]--;
    }
}

/* How far all growing flows can grow together. */
static inline double max_min_level(const struct max_min *m, double now_s)
{
    double level = INFINITY;
    for (size_t i = 0; i < m->link_count; i++)
        if (m->growing[i] > 0 && !m->links[i].fatpipe)
            level = fmin(level, m->free_rate[i] / (double)m->growing[i]);
    for (size_t f = 0; f < m->flow_count; f++)
        if (max_min_asks(m, f, now_s) && !m->fixed[f])
            level = fmin(level, max_min_bound(m, f));
    return level;
}

/* Does it end at this level: its own bound, or a link that is full? */
static inline bool max_min_stops(const struct max_min *m, size_t flow, double level)
{
    if (isinf(level) || max_min_bound(m, flow) <= level)
        return true;
    for (size_t i = 0; i < m->flows[flow].link_count; i++) {
        uint32_t link = m->flows[flow].links[i];
        if (!m->links[link].fatpipe &&
            m->free_rate[link] / (double)m->growing[link] <= level * (1 + 1e-14))
            return true;
    }
    return false;
}

static inline void max_min_fill(struct max_min *m, double now_s)
{
    for (size_t i = 0; i < m->link_count; i++) {
        m->free_rate[i] = m->links[i].bandwidth_bytes_per_s;
        m->growing[i] = 0;
    }
    size_t left = 0;
    for (size_t f = 0; f < m->flow_count; f++) {
        m->fixed[f] = !max_min_asks(m, f, now_s);
        m->rate[f] = 0;
        left += !m->fixed[f];
        for (size_t i = 0; !m->fixed[f] && i < m->flows[f].link_count; i++)
            m->growing[m->flows[f].links[i]]++;
    }
    while (left > 0) {
        double level = max_min_level(m, now_s);
        bool stops[4096] = {false};
        for (size_t f = 0; f < m->flow_count; f++)
            stops[f] = !m->fixed[f] && max_min_stops(m, f, level);
        for (size_t f = 0; f < m->flow_count; f++)
            if (stops[f]) {
                max_min_fix(m, f, level);
                left--;
            }
    }
}

/* When the next flow starts or ends. */
static inline double max_min_next_s(const struct max_min *m, double now_s)
{
    double next_s = INFINITY;
    for (size_t f = 0; f < m->flow_count; f++) {
        double begin_s = m->flows[f].start_s + m->flows[f].latency_s;
        if (m->done[f])
            continue;
        if (begin_s > now_s)
            next_s = fmin(next_s, begin_s);
        else
            next_s = fmin(next_s, now_s + m->left_bytes[f] / m->rate[f]);
    }
    return next_s;
}

static inline size_t max_min_advance(struct max_min *m, double now_s, double next_s)
{
    size_t ended = 0;
    for (size_t f = 0; f < m->flow_count; f++) {
        if (!max_min_asks(m, f, now_s))
            continue;
        bool ends = now_s + m->left_bytes[f] / m->rate[f] <= next_s;
        m->left_bytes[f] -= isinf(m->rate[f]) ? 0 : m->rate[f] * (next_s - now_s);
        if (!ends)
            continue;
        m->done[f] = true;
        m->flows[f].finish_s = next_s;
        ended++;
    }
    return ended;
}

/* Fills finish_s of every flow (at most 4096). False: out of memory. */
static inline bool max_min_finish(const struct max_min_link *links, size_t link_count,
                                  struct max_min_flow *flows, size_t flow_count)
{
    struct max_min m = {.links = links,
                        .link_count = link_count,
                        .flows = flows,
                        .flow_count = flow_count,
                        .left_bytes = calloc(flow_count + 1, sizeof(double)),
                        .rate = calloc(flow_count + 1, sizeof(double)),
                        .fixed = calloc(flow_count + 1, sizeof(bool)),
                        .done = calloc(flow_count + 1, sizeof(bool)),
                        .free_rate = calloc(link_count + 1, sizeof(double)),
                        .growing = calloc(link_count + 1, sizeof(size_t))};
    bool good = m.left_bytes != NULL && m.rate != NULL && m.fixed != NULL &&
                m.done != NULL && m.free_rate != NULL && m.growing != NULL &&
                flow_count <= 4096;
    double now_s = 0;
    size_t left = flow_count;
    for (size_t f = 0; good && f < flow_count; f++)
        m.left_bytes[f] = flows[f].bytes;
    while (good && left > 0) {
        max_min_fill(&m, now_s);
        double next_s = max_min_next_s(&m, now_s);
        left -= max_min_advance(&m, now_s, next_s);
        now_s = next_s;
    }
    free(m.left_bytes);
    free(m.rate);
    free(m.fixed);
    free(m.done);
    free(m.free_rate);
    free(m.growing);
    return good;
}

#endif
