/* A star: every processor on one switch. With a backplane limit all that is under way
 * shares that bandwidth too. */
#include "base/checked.h"
#include "sim/platform_keys.h"
#include "sim/topologies/kinds.h"

static const char *const keys[] = {"link", "backplane_bytes_per_s"};

struct star {
    uint32_t in, out; /* the same vertex without a backplane */
};

static bool add_backplane(const struct json_at *at, struct platform *platform,
                          struct fabric *fabric, struct star *star, struct error *error)
{
    struct json_at member;
    double bandwidth = 0;
    star->out = star->in;
    if (!json_optional(at, "backplane_bytes_per_s", &member))
        return true;
    return platform_positive(&member, 1e21, &bandwidth, error) &&
           fabric_add_switch(platform, fabric, "switch.out", &star->out, error) &&
           fabric_add_one_way(platform, fabric, star->in, star->out, bandwidth, 0, error);
}

static bool switch_build(const struct json_at *at, struct platform *platform,
                         struct fabric *fabric, struct error *error)
{
    struct link_spec spec;
    struct star *star = checked_calloc(1, sizeof(*star));
    fabric->parameters = star;
    if (star == NULL)
        return error_memory(error, "topology");
    if (!link_spec_read(at, "link", &spec, error) ||
        !fabric_add_switch(platform, fabric, "switch", &star->in, error) ||
        !add_backplane(at, platform, fabric, star, error))
        return false;
    for (size_t i = 0; i < fabric->count; i++)
        if (!fabric_add_one_way(platform, fabric, fabric->endpoints[i], star->in,
                                spec.bandwidth_bytes_per_s, spec.latency_s, error) ||
            !fabric_add_one_way(platform, fabric, star->out, fabric->endpoints[i],
                                spec.reverse_bandwidth_bytes_per_s, spec.reverse_latency_s,
                                error))
            return false;
    return true;
}

static bool switch_route(struct platform *platform, const struct fabric *fabric,
                         size_t from, size_t to, struct path *path, struct error *error)
{
    const struct star *star = fabric->parameters;
    return path_step(platform, fabric, fabric->endpoints[from], star->in, path, error) &&
           (star->in == star->out ||
            path_step(platform, fabric, star->in, star->out, path, error)) &&
           path_step(platform, fabric, star->out, fabric->endpoints[to], path, error);
}

const struct topology_kind topology_switch = {
    .name = "switch",
    .summary = "every processor on one switch, with or without a backplane limit",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = switch_build,
    .route = switch_route,
};
