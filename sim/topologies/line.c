#include "sim/topologies/grid.h"
#include "sim/topologies/kinds.h"

static const char *const keys[] = {"link"};

static bool line_build(const struct json_at *at, struct platform *platform,
                       struct fabric *fabric, struct error *error)
{
    return grid_build_chain(at, platform, fabric, false, error);
}

const struct topology_kind topology_line = {
    .name = "line",
    .summary = "processors in a row, each linked to the next",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = line_build,
    .route = grid_route,
    .halve = grid_halve,
    .place = grid_place,
};
