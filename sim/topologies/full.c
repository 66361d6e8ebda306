#include "sim/topologies/kinds.h"

static const char *const keys[] = {"link"};

static bool full_build(const struct json_at *at, struct platform *platform,
                       struct fabric *fabric, struct error *error)
{
    struct link_spec spec;
    if (!link_spec_read(at, "link", &spec, error))
        return false;
    if (fabric->count > 1 && fabric->count - 1 > PLATFORM_MAX_LINKS / fabric->count)
        return json_fail(at, error, "%zu processors need %zu links; at most %d are allowed",
                         fabric->count, fabric->count * (fabric->count - 1),
                         PLATFORM_MAX_LINKS);
    for (size_t i = 0; i < fabric->count; i++)
        for (size_t j = i + 1; j < fabric->count; j++)
            if (!fabric_add_duplex(platform, fabric, fabric->endpoints[i],
                                   fabric->endpoints[j], &spec, error))
                return false;
    return true;
}

static bool full_route(struct platform *platform, const struct fabric *fabric, size_t from,
                       size_t to, struct path *path, struct error *error)
{
    return path_step(platform, fabric, fabric->endpoints[from], fabric->endpoints[to], path,
                     error);
}

const struct topology_kind topology_full = {
    .name = "full",
    .summary = "a link between every two processors",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = full_build,
    .route = full_route,
};
