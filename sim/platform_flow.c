#include "sim/platform_flow.h"

#include "base/checked.h"
#include "sim/platform_internal.h"

#include <math.h>
#include <stdlib.h>

#define EDGE_NONE UINT32_MAX

/* Edge e and its reverse e ^ 1 are neighbours in the list. */
struct flow_edge {
    uint32_t to, next;
    double room;
};

struct network {
    struct flow_edge *edges;
    size_t edge_count, edge_capacity;
    uint32_t *first; /* of each node */
    uint32_t *current;
    uint32_t *level;
    uint32_t *queue;
    uint32_t *way; /* edges of the path under construction */
    size_t node_count;
    double smallest; /* room below this is none: what rounding left */
};

static void network_release(struct network *network)
{
    free(network->edges);
    free(network->first);
    free(network->current);
    free(network->level);
    free(network->queue);
    free(network->way);
}

static bool network_allocate(struct network *network, size_t nodes)
{
    network->node_count = nodes;
    network->first = checked_calloc(nodes, sizeof(*network->first));
    network->current = checked_calloc(nodes, sizeof(*network->current));
    network->level = checked_calloc(nodes, sizeof(*network->level));
    network->queue = checked_calloc(nodes, sizeof(*network->queue));
    network->way = checked_calloc(nodes, sizeof(*network->way));
    if (network->first == NULL || network->current == NULL || network->level == NULL ||
        network->queue == NULL || network->way == NULL)
        return false;
    for (size_t i = 0; i < nodes; i++)
        network->first[i] = EDGE_NONE;
    return true;
}

static bool add_edge(struct network *network, size_t from, size_t to, double room)
{
    size_t count = network->edge_count;
    if (count + 2 >= EDGE_NONE ||
        !checked_grow((void **)&network->edges, &network->edge_capacity, count + 2,
                      sizeof(*network->edges)))
        return false;
    network->edges[count] = (struct flow_edge){(uint32_t)to, network->first[from], room};
    network->first[from] = (uint32_t)count;
    network->edges[count + 1] = (struct flow_edge){(uint32_t)from, network->first[to], 0};
    network->first[to] = (uint32_t)count + 1;
    network->edge_count += 2;
    return true;
}

/* Nodes: the vertices, then source and sink, then an entry and an exit for each link, which
 * are joined when the link serves several arcs. */
static bool add_arcs(struct network *network, const struct platform *platform,
                     const uint32_t *arcs_of_link)
{
    size_t entry = platform->vertex_count + 2, out = entry + platform->link_count;
    for (size_t i = 0; i < platform->link_count; i++)
        if (arcs_of_link[i] > 1 && !add_edge(network, entry + i, out + i,
                                             platform->links[i].bandwidth_bytes_per_s))
            return false;
    for (size_t i = 0; i < platform->arc_count; i++) {
        const struct arc *arc = &platform->arcs[i];
        bool added = true;
        if (arc->link == LINK_NONE || platform->links[arc->link].sharing == LINK_FATPIPE)
            added = add_edge(network, arc->from, arc->to, INFINITY);
        else if (arcs_of_link[arc->link] == 1)
            added = add_edge(network, arc->from, arc->to,
                             platform->links[arc->link].bandwidth_bytes_per_s);
        else
            added = add_edge(network, arc->from, entry + arc->link, INFINITY) &&
                    add_edge(network, out + arc->link, arc->to, INFINITY);
        if (!added)
            return false;
    }
    return true;
}

static bool network_build(struct network *network, const struct platform *platform,
                          const bool *upper, bool from)
{
    size_t source = platform->vertex_count, sink = source + 1;
    uint32_t *arcs_of_link = checked_calloc(platform->link_count, sizeof(*arcs_of_link));
    bool good = arcs_of_link != NULL &&
                network_allocate(network, sink + 1 + 2 * platform->link_count);
    for (size_t i = 0; good && i < platform->arc_count; i++)
        if (platform->arcs[i].link != LINK_NONE)
            arcs_of_link[platform->arcs[i].link]++;
    double largest = 0;
    for (size_t i = 0; good && i < platform->link_count; i++)
        if (isfinite(platform->links[i].bandwidth_bytes_per_s))
            largest = fmax(largest, platform->links[i].bandwidth_bytes_per_s);
    network->smallest = largest * 1e-12;
    good = good && add_arcs(network, platform, arcs_of_link);
    for (size_t i = 0; good && i < platform->processor_count; i++)
        good = upper[i] == from ? add_edge(network, source, i, INFINITY)
                                : add_edge(network, i, sink, INFINITY);
    free(arcs_of_link);
    return good;
}

/* Distances from the source over edges with room; false when the sink is out of reach. */
static bool find_levels(struct network *network, size_t source, size_t sink)
{
    size_t head = 0, tail = 0;
    for (size_t i = 0; i < network->node_count; i++) {
        network->level[i] = UINT32_MAX;
        network->current[i] = network->first[i];
    }
    network->level[source] = 0;
    network->queue[tail++] = (uint32_t)source;
    while (head < tail) {
        uint32_t node = network->queue[head++];
        for (uint32_t e = network->first[node]; e != EDGE_NONE;
             e = network->edges[e].next) {
            const struct flow_edge *edge = &network->edges[e];
            if (!(edge->room > network->smallest) || network->level[edge->to] != UINT32_MAX)
                continue;
            network->level[edge->to] = network->level[node] + 1;
            network->queue[tail++] = edge->to;
        }
    }
    return network->level[sink] != UINT32_MAX;
}

/* The next usable edge out of a node, or EDGE_NONE. */
static uint32_t next_edge(struct network *network, uint32_t node)
{
    uint32_t e = network->current[node];
    while (e != EDGE_NONE) {
        const struct flow_edge *edge = &network->edges[e];
        if (edge->room > network->smallest &&
            network->level[edge->to] == network->level[node] + 1)
            break;
        e = edge->next;
    }
    network->current[node] = e;
    return e;
}

/* Sends along the path what its tightest edge takes; returns it. */
static double push(struct network *network, size_t length)
{
    double amount = INFINITY;
    for (size_t i = 0; i < length; i++)
        amount = fmin(amount, network->edges[network->way[i]].room);
    for (size_t i = 0; isfinite(amount) && i < length; i++) {
        network->edges[network->way[i]].room -= amount;
        network->edges[network->way[i] ^ 1].room += amount;
    }
    return amount;
}

/* A flow that no path by ascending levels can add to. Depth first, without recursion: a
 * line of processors is as deep as it is long. */
static double blocking_flow(struct network *network, size_t source, size_t sink)
{
    double total = 0;
    uint32_t node = (uint32_t)source;
    size_t length = 0;
    for (;;) {
        uint32_t e = next_edge(network, node);
        if (e != EDGE_NONE) {
            network->way[length++] = e;
            node = network->edges[e].to;
        } else if (length == 0) {
            return total;
        } else {
            uint32_t back = network->edges[network->way[--length] ^ 1].to;
            network->current[back] = network->edges[network->current[back]].next;
            node = back;
        }
        if (node == sink) {
            total += push(network, length);
            if (isinf(total))
                return total;
            length = 0;
            node = (uint32_t)source;
        }
    }
}

bool platform_flow(const struct platform *platform, const bool *upper, bool from,
                   double *bytes_per_s, struct error *error)
{
    struct network network = {0};
    size_t source = platform->vertex_count, sink = source + 1;
    bool built = network_build(&network, platform, upper, from);
    *bytes_per_s = 0;
    while (built && isfinite(*bytes_per_s) && find_levels(&network, source, sink))
        *bytes_per_s += blocking_flow(&network, source, sink);
    network_release(&network);
    return built || error_memory(error, "bisection");
}
