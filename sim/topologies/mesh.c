#include "sim/topologies/grid.h"
#include "sim/topologies/kinds.h"

static const char *const keys[] = {"dimensions", "link", "links"};

static bool mesh_build(const struct json_at *at, struct platform *platform,
                       struct fabric *fabric, struct error *error)
{
    return grid_build(at, platform, fabric, false, error);
}

const struct topology_kind topology_mesh = {
    .name = "mesh",
    .summary = "a grid of any number of dimensions, dimension-ordered routes",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = mesh_build,
    .route = grid_route,
    .halve = grid_halve,
    .place = grid_place,
};
