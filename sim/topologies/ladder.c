/* The IPU-POD: processors 2k and 2k + 1 are a rung, even ones and odd ones the two rails.
 * A last processor without a pair stands on its rung alone. With "wrap" the rails are
 * closed to rings. */
#include "base/checked.h"
#include "sim/topologies/kinds.h"

#include <math.h>

static const char *const keys[] = {"rung", "rail", "wrap"};

struct ladder {
    bool wrap;
};

static bool connect_rails(struct platform *platform, const struct fabric *fabric,
                          const struct link_spec *rail, bool wrap, struct error *error)
{
    const uint32_t *ends = fabric->endpoints;
    for (size_t i = 0; i + 2 < fabric->count; i++)
        if (!fabric_add_duplex(platform, fabric, ends[i], ends[i + 2], rail, error))
            return false;
    for (size_t side = 0; wrap && side < 2 && fabric->count > 4; side++)
        if (!fabric_add_duplex(platform, fabric, ends[fabric->count - 2 + side], ends[side],
                               rail, error))
            return false;
    return true;
}

static bool ladder_build(const struct json_at *at, struct platform *platform,
                         struct fabric *fabric, struct error *error)
{
    struct link_spec rung, rail;
    struct ladder *ladder = checked_calloc(1, sizeof(*ladder));
    fabric->parameters = ladder;
    if (ladder == NULL)
        return error_memory(error, "topology");
    if (!link_spec_read(at, "rung", &rung, error) ||
        !link_spec_read(at, "rail", &rail, error) ||
        !json_read_boolean(at, "wrap", &ladder->wrap, error))
        return false;
    if (ladder->wrap && fabric->count % 2 != 0)
        return json_fail(at, error, "\"wrap\" needs an even number of processors, not %zu",
                         fabric->count);
    for (size_t i = 0; i + 1 < fabric->count; i += 2)
        if (!fabric_add_duplex(platform, fabric, fabric->endpoints[i],
                               fabric->endpoints[i + 1], &rung, error))
            return false;
    return connect_rails(platform, fabric, &rail, ladder->wrap, error);
}

static bool step(struct platform *platform, const struct fabric *fabric, size_t *from,
                 size_t to, struct path *path, struct error *error)
{
    bool stepped = path_step(platform, fabric, fabric->endpoints[*from],
                             fabric->endpoints[to], path, error);
    *from = to;
    return stepped;
}

/* Over the rung first, then along the rail; from a lone last processor, which has no rung,
 * the other way round. */
static bool ladder_route(struct platform *platform, const struct fabric *fabric,
                         size_t from, size_t to, struct path *path, struct error *error)
{
    const struct ladder *ladder = fabric->parameters;
    size_t rungs = (fabric->count + 1) / 2;
    if (from % 2 != to % 2 && (from ^ 1) < fabric->count &&
        !step(platform, fabric, &from, from ^ 1, path, error))
        return false;
    size_t ahead = (to / 2 + rungs - from / 2) % rungs;
    bool up = ladder->wrap ? ahead <= rungs - ahead : to / 2 > from / 2;
    while (from / 2 != to / 2) {
        size_t next = (from / 2 + (up ? 1 : rungs - 1)) % rungs * 2 + from % 2;
        if (!step(platform, fabric, &from, next, path, error))
            return false;
    }
    return from == to || step(platform, fabric, &from, to, path, error);
}

/* 0: across the rails, 1: across the rungs. */
static bool ladder_halve(const struct fabric *fabric, size_t halving, size_t endpoint,
                         bool *upper)
{
    *upper = halving == 0 ? endpoint >= fabric->count / 2 : endpoint % 2 == 1;
    return halving < 2;
}

/* Two rows or, closed to rings or long, two circles. */
static void ladder_place(const struct platform *platform, const struct fabric *fabric,
                         struct box box, struct point *points)
{
    enum { LONG = 16 };
    const double turn = 6.283185307179586;
    const struct ladder *ladder = fabric->parameters;
    size_t rungs = (fabric->count + 1) / 2;
    bool round = rungs > 2 && (ladder->wrap || rungs > LONG);
    (void)platform;
    for (size_t i = 0; i < fabric->count; i++) {
        double along = ((double)(i / 2) + 0.5) / (double)rungs;
        double x = along, y = i % 2 == 0 ? 0.25 : 0.75;
        if (round) {
            double radius = i % 2 == 0 ? 0.48 : 0.36;
            x = 0.5 + radius * sin(turn * along);
            y = 0.5 - radius * cos(turn * along);
        }
        points[fabric->endpoints[i]] =
            (struct point){box.x + box.width * x, box.y + box.height * y};
    }
}

const struct topology_kind topology_ladder = {
    .name = "ladder",
    .summary = "pairs of processors as rungs, two rails along them (IPU-POD)",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = ladder_build,
    .route = ladder_route,
    .halve = ladder_halve,
    .place = ladder_place,
};
