/* Nodes of processors: one topology inside each node, another across them. A node has one
 * or more ports (network cards), each serving a run of its processors; the topology across
 * joins the ports: all of them in one network or, as rails, the ports of equal number. */
#include "base/checked.h"
#include "sim/topologies/kinds.h"

#include <math.h>
#include <stdlib.h>

static const char *const keys[] = {"nodes", "inside", "across", "ports", "port", "rails"};

struct hierarchy {
    uint64_t nodes, ports; /* ports of a node */
    size_t per_node, per_port;
    bool rails;
    uint32_t first_port;
    struct fabric **inside; /* of each node */
    struct fabric **across; /* one, or one a rail */
};

static void hierarchical_release(void *parameters)
{
    struct hierarchy *hierarchy = parameters;
    free(hierarchy->inside);
    free(hierarchy->across);
    free(hierarchy);
}

static uint32_t port_vertex(const struct hierarchy *hierarchy, size_t node, size_t port)
{
    return hierarchy->first_port + (uint32_t)(node * hierarchy->ports + port);
}

static bool read_shape(const struct json_at *at, const struct fabric *fabric,
                       struct hierarchy *hierarchy, struct error *error)
{
    struct json_at member;
    hierarchy->ports = 1;
    if (!json_member(at, "nodes", &member, error) ||
        !json_u64(&member, 1, PLATFORM_MAX_PROCESSORS, &hierarchy->nodes, error))
        return false;
    if (fabric->count % hierarchy->nodes != 0)
        return json_fail(&member, error, "%zu processors are not a multiple of %llu nodes",
                         fabric->count, (unsigned long long)hierarchy->nodes);
    hierarchy->per_node = fabric->count / hierarchy->nodes;
    if (!json_read_u64(at, "ports", 1, hierarchy->per_node, &hierarchy->ports, error) ||
        !json_read_boolean(at, "rails", &hierarchy->rails, error))
        return false;
    if (hierarchy->per_node % hierarchy->ports != 0)
        return json_fail(at, error,
                         "the %zu processors of a node are not a multiple of its "
                         "%llu ports",
                         hierarchy->per_node, (unsigned long long)hierarchy->ports);
    hierarchy->per_port = hierarchy->per_node / hierarchy->ports;
    hierarchy->inside = checked_calloc(hierarchy->nodes, sizeof(*hierarchy->inside));
    hierarchy->across = checked_calloc(hierarchy->ports, sizeof(*hierarchy->across));
    return (hierarchy->inside != NULL && hierarchy->across != NULL) ||
           error_memory(error, "topology");
}

static bool add_ports(struct platform *platform, struct fabric *fabric,
                      struct hierarchy *hierarchy, struct error *error)
{
    for (size_t i = 0; i < hierarchy->nodes * hierarchy->ports; i++) {
        char name[PLATFORM_NAME_BYTES];
        uint32_t vertex = 0;
        snprintf(name, sizeof(name), "node%zu.port%zu", i / (size_t)hierarchy->ports,
                 i % (size_t)hierarchy->ports);
        if (!fabric_add_switch(platform, fabric, name, &vertex, error))
            return false;
        if (i == 0)
            hierarchy->first_port = vertex;
    }
    return true;
}

/* Without "port" a processor is at its port at no cost. */
static bool connect_ports(const struct json_at *at, struct platform *platform,
                          const struct fabric *fabric, const struct hierarchy *hierarchy,
                          struct error *error)
{
    struct json_at member;
    struct link_spec spec;
    bool linked = json_optional(at, "port", &member);
    if (linked && !link_spec_read(at, "port", &spec, error))
        return false;
    for (size_t i = 0; i < fabric->count; i++) {
        uint32_t port = hierarchy->first_port + (uint32_t)(i / hierarchy->per_port);
        uint32_t own = fabric->endpoints[i];
        bool added =
            linked ? fabric_add_duplex(platform, fabric, own, port, &spec, error)
                   : fabric_add_arc(platform, fabric, own, port, LINK_NONE, error) &&
                         fabric_add_arc(platform, fabric, port, own, LINK_NONE, error);
        if (!added)
            return false;
    }
    return true;
}

static bool build_inside(const struct json_at *at, struct platform *platform,
                         const struct fabric *fabric, struct hierarchy *hierarchy,
                         struct error *error)
{
    struct json_at inside;
    if (!json_member(at, "inside", &inside, error))
        return false;
    for (size_t node = 0; node < hierarchy->nodes; node++) {
        char prefix[2 * PLATFORM_NAME_BYTES];
        snprintf(prefix, sizeof(prefix), "%snode%zu.", fabric->prefix, node);
        if (!fabric_build(&inside, platform, fabric->endpoints + node * hierarchy->per_node,
                          hierarchy->per_node, prefix, &hierarchy->inside[node], error))
            return false;
    }
    return true;
}

static bool build_network(const struct json_at *across, struct platform *platform,
                          const struct fabric *fabric, struct hierarchy *hierarchy,
                          size_t rail, uint32_t *ports, struct error *error)
{
    char prefix[2 * PLATFORM_NAME_BYTES];
    size_t count = 0;
    for (size_t node = 0; node < hierarchy->nodes; node++)
        for (size_t port = 0; port < hierarchy->ports; port++)
            if (!hierarchy->rails || port == rail)
                ports[count++] = port_vertex(hierarchy, node, port);
    if (hierarchy->rails)
        snprintf(prefix, sizeof(prefix), "%srail%zu.", fabric->prefix, rail);
    else
        snprintf(prefix, sizeof(prefix), "%sacross.", fabric->prefix);
    return fabric_build(across, platform, ports, count, prefix, &hierarchy->across[rail],
                        error);
}

static bool build_across(const struct json_at *at, struct platform *platform,
                         const struct fabric *fabric, struct hierarchy *hierarchy,
                         struct error *error)
{
    struct json_at across;
    if (!json_member(at, "across", &across, error))
        return false;
    uint32_t *ports = checked_calloc(hierarchy->nodes * hierarchy->ports, sizeof(*ports));
    bool built = ports != NULL || error_memory(error, "topology");
    for (size_t rail = 0; built && rail < (hierarchy->rails ? hierarchy->ports : 1); rail++)
        built = build_network(&across, platform, fabric, hierarchy, rail, ports, error);
    free(ports);
    return built;
}

static bool hierarchical_build(const struct json_at *at, struct platform *platform,
                               struct fabric *fabric, struct error *error)
{
    struct hierarchy *hierarchy = checked_calloc(1, sizeof(*hierarchy));
    fabric->parameters = hierarchy;
    if (hierarchy == NULL)
        return error_memory(error, "topology");
    return read_shape(at, fabric, hierarchy, error) &&
           add_ports(platform, fabric, hierarchy, error) &&
           connect_ports(at, platform, fabric, hierarchy, error) &&
           build_inside(at, platform, fabric, hierarchy, error) &&
           build_across(at, platform, fabric, hierarchy, error);
}

/* On rails a message changes rail inside the sender's node, before it leaves. */
static bool hierarchical_route(struct platform *platform, const struct fabric *fabric,
                               size_t from, size_t to, struct path *path,
                               struct error *error)
{
    const struct hierarchy *hierarchy = fabric->parameters;
    size_t node = from / hierarchy->per_node, local = from % hierarchy->per_node;
    size_t to_node = to / hierarchy->per_node, to_local = to % hierarchy->per_node;
    size_t port = local / hierarchy->per_port, to_port = to_local / hierarchy->per_port;
    if (node == to_node)
        return fabric_route(platform, hierarchy->inside[node], local, to_local, path,
                            error);
    if (hierarchy->rails && port != to_port) {
        size_t next = to_port * hierarchy->per_port + local % hierarchy->per_port;
        if (!fabric_route(platform, hierarchy->inside[node], local, next, path, error))
            return false;
        local = next;
        port = to_port;
    }
    const struct fabric *across = hierarchy->across[hierarchy->rails ? port : 0];
    size_t ports = hierarchy->rails ? 1 : (size_t)hierarchy->ports;
    size_t out = node * ports + (hierarchy->rails ? 0 : port);
    size_t in = to_node * ports + (hierarchy->rails ? 0 : to_port);
    return path_step(platform, fabric,
                     fabric->endpoints[node * hierarchy->per_node + local],
                     port_vertex(hierarchy, node, port), path, error) &&
           fabric_route(platform, across, out, in, path, error) &&
           path_step(platform, fabric, port_vertex(hierarchy, to_node, to_port),
                     fabric->endpoints[to], path, error);
}

/* Node boxes in rows, ports at their lower edge, the network across below them. */
static void hierarchical_place(const struct platform *platform, const struct fabric *fabric,
                               struct box box, struct point *points)
{
    const struct hierarchy *hierarchy = fabric->parameters;
    size_t columns = (size_t)ceil(sqrt((double)hierarchy->nodes));
    size_t rows = (hierarchy->nodes + columns - 1) / columns;
    struct box below = {box.x, box.y + 0.8 * box.height, box.width, 0.2 * box.height};
    for (size_t i = 0; i < (hierarchy->rails ? hierarchy->ports : 1); i++)
        fabric_place(platform, hierarchy->across[i], below, points);
    double width = box.width / (double)columns, height = 0.8 * box.height / (double)rows;
    for (size_t node = 0; node < hierarchy->nodes; node++) {
        double x = box.x + width * (double)(node % columns);
        double y = box.y + height * (double)(node / columns);
        struct box inner = {x + 0.08 * width, y + 0.08 * height, 0.84 * width,
                            0.68 * height};
        fabric_place(platform, hierarchy->inside[node], inner, points);
        for (size_t port = 0; port < hierarchy->ports; port++)
            points[port_vertex(hierarchy, node, port)] = (struct point){
                inner.x + inner.width * ((double)port + 0.5) / (double)hierarchy->ports,
                y + 0.88 * height};
    }
}

const struct topology_kind topology_hierarchical = {
    .name = "hierarchical",
    .summary = "nodes: one topology inside each, another across their ports",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = hierarchical_build,
    .release = hierarchical_release,
    .route = hierarchical_route,
    .place = hierarchical_place,
};
