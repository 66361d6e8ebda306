/* Groups of routers, all linked to each other inside a group; a few links between every two
 * groups, spread over the routers. Routes are minimal: at most one local, one global and
 * one local link between the routers. */
#include "base/checked.h"
#include "sim/topologies/kinds.h"

static const char *const keys[] = {
    "groups", "routers", "processors_per_router", "links_between_groups", "terminal",
    "local",  "global"};

struct dragonfly {
    uint64_t groups, routers, terminals; /* routers of a group, processors of a router */
    uint64_t between;
    uint32_t first;
};

static uint32_t router_vertex(const struct dragonfly *fly, uint64_t group, uint64_t router)
{
    return fly->first + (uint32_t)(group * fly->routers + router);
}

/* The router of `group` that has link k to `other`. */
static uint64_t gateway(const struct dragonfly *fly, uint64_t group, uint64_t other,
                        uint64_t k)
{
    uint64_t distance = (other + fly->groups - group - 1) % fly->groups;
    return (distance * fly->between + k) % fly->routers;
}

static bool read_size(const struct json_at *at, const char *key, uint64_t *value,
                      struct error *error)
{
    struct json_at member;
    return json_member(at, key, &member, error) &&
           json_u64(&member, 1, PLATFORM_MAX_PROCESSORS, value, error);
}

static bool read_shape(const struct json_at *at, const struct fabric *fabric,
                       struct dragonfly *fly, struct error *error)
{
    fly->between = 1;
    if (!read_size(at, "groups", &fly->groups, error) ||
        !read_size(at, "routers", &fly->routers, error) ||
        !read_size(at, "processors_per_router", &fly->terminals, error) ||
        !json_read_u64(at, "links_between_groups", 1, fly->routers, &fly->between, error))
        return false;
    uint64_t product = fly->groups * fly->routers; /* each at most 100,000 */
    if (!checked_multiply(product, fly->terminals, &product) || product != fabric->count)
        return json_fail(
            at, error,
            "groups x routers x processors_per_router is %llu, but there are %zu "
            "to connect",
            (unsigned long long)product, fabric->count);
    return true;
}

static bool add_routers(struct platform *platform, struct fabric *fabric,
                        struct dragonfly *fly, struct error *error)
{
    for (uint64_t i = 0; i < fly->groups * fly->routers; i++) {
        char name[PLATFORM_NAME_BYTES];
        uint32_t vertex = 0;
        snprintf(name, sizeof(name), "group%llu.router%llu",
                 (unsigned long long)(i / fly->routers),
                 (unsigned long long)(i % fly->routers));
        if (!fabric_add_switch(platform, fabric, name, &vertex, error))
            return false;
        if (i == 0)
            fly->first = vertex;
    }
    return true;
}

static bool connect_group(struct platform *platform, const struct fabric *fabric,
                          const struct dragonfly *fly, uint64_t group,
                          const struct link_spec *terminal, const struct link_spec *local,
                          struct error *error)
{
    for (uint64_t r = 0; r < fly->routers; r++) {
        uint32_t router = router_vertex(fly, group, r);
        for (uint64_t t = 0; t < fly->terminals; t++)
            if (!fabric_add_duplex(
                    platform, fabric,
                    fabric->endpoints[(group * fly->routers + r) * fly->terminals + t],
                    router, terminal, error))
                return false;
        for (uint64_t s = r + 1; s < fly->routers; s++)
            if (!fabric_add_duplex(platform, fabric, router, router_vertex(fly, group, s),
                                   local, error))
                return false;
    }
    return true;
}

static bool connect_groups(struct platform *platform, const struct fabric *fabric,
                           const struct dragonfly *fly, const struct link_spec *global,
                           struct error *error)
{
    for (uint64_t i = 0; i < fly->groups; i++)
        for (uint64_t j = i + 1; j < fly->groups; j++)
            for (uint64_t k = 0; k < fly->between; k++)
                if (!fabric_add_duplex(
                        platform, fabric, router_vertex(fly, i, gateway(fly, i, j, k)),
                        router_vertex(fly, j, gateway(fly, j, i, k)), global, error))
                    return false;
    return true;
}

static bool dragonfly_build(const struct json_at *at, struct platform *platform,
                            struct fabric *fabric, struct error *error)
{
    struct link_spec terminal, local, global;
    struct dragonfly *fly = checked_calloc(1, sizeof(*fly));
    fabric->parameters = fly;
    if (fly == NULL)
        return error_memory(error, "topology");
    if (!read_shape(at, fabric, fly, error) ||
        !link_spec_read(at, "terminal", &terminal, error) ||
        !link_spec_read(at, "local", &local, error) ||
        !link_spec_read(at, "global", &global, error) ||
        !add_routers(platform, fabric, fly, error))
        return false;
    for (uint64_t group = 0; group < fly->groups; group++)
        if (!connect_group(platform, fabric, fly, group, &terminal, &local, error))
            return false;
    return connect_groups(platform, fabric, fly, &global, error);
}

static bool move(struct platform *platform, const struct fabric *fabric, uint32_t *here,
                 uint32_t there, struct path *path, struct error *error)
{
    bool moved = *here == there || path_step(platform, fabric, *here, there, path, error);
    *here = there;
    return moved;
}

static bool dragonfly_route(struct platform *platform, const struct fabric *fabric,
                            size_t from, size_t to, struct path *path, struct error *error)
{
    const struct dragonfly *fly = fabric->parameters;
    uint64_t router_from = from / fly->terminals, router_to = to / fly->terminals;
    uint64_t i = router_from / fly->routers, j = router_to / fly->routers;
    uint32_t here = fabric->endpoints[from];
    if (!move(platform, fabric, &here, fly->first + (uint32_t)router_from, path, error))
        return false;
    if (i != j) {
        uint64_t k = to % fly->between;
        if (!move(platform, fabric, &here, router_vertex(fly, i, gateway(fly, i, j, k)),
                  path, error) ||
            !move(platform, fabric, &here, router_vertex(fly, j, gateway(fly, j, i, k)),
                  path, error))
            return false;
    }
    return move(platform, fabric, &here, fly->first + (uint32_t)router_to, path, error) &&
           move(platform, fabric, &here, fabric->endpoints[to], path, error);
}

const struct topology_kind topology_dragonfly = {
    .name = "dragonfly",
    .summary = "groups of routers, links between every two groups; minimal routes",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = dragonfly_build,
    .route = dragonfly_route,
};
