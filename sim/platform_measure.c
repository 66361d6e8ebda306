/* What a network is worth as a whole: its bisection and its diameter. */
#include "base/checked.h"
#include "sim/platform_flow.h"
#include "sim/platform_internal.h"

#include <math.h>
#include <stdlib.h>

/* Fills `upper` for a way of halving; after those of the topology comes the last, by
 * number. */
static void halve(const struct platform *platform, size_t halving, bool *upper, bool *last)
{
    const struct fabric *fabric = platform->fabrics[0];
    size_t count = platform->processor_count;
    bool side = false;
    *last = fabric->kind->halve == NULL || !fabric->kind->halve(fabric, halving, 0, &side);
    for (size_t i = 0; i < count; i++) {
        if (*last)
            upper[i] = i >= count / 2;
        else
            fabric->kind->halve(fabric, halving, i, &upper[i]);
    }
}

bool platform_bisection(const struct platform *platform, double *bytes_per_s,
                        struct error *error)
{
    *bytes_per_s = INFINITY;
    if (platform->processor_count < 2)
        return true;
    bool *upper = checked_calloc(platform->processor_count, sizeof(*upper));
    bool good = upper != NULL || error_memory(error, "bisection"), last = false;
    for (size_t halving = 0; good && !last; halving++) {
        double up = 0, down = 0;
        halve(platform, halving, upper, &last);
        good = platform_flow(platform, upper, false, &up, error) &&
               platform_flow(platform, upper, true, &down, error);
        *bytes_per_s = fmin(*bytes_per_s, fmin(up, down));
    }
    free(upper);
    return good;
}

bool platform_diameter(struct platform *platform, size_t *links, double *latency_s,
                       bool *sampled, struct error *error)
{
    enum { ALL = 512, SOURCES = 64, TARGETS = 512 };
    size_t count = platform->processor_count;
    size_t sources = count <= ALL ? count : SOURCES;
    struct path *path;
    *links = 0;
    *latency_s = 0;
    *sampled = sources < count;
    if (count < 2)
        return true;
    for (size_t s = 0; s < sources; s++) {
        size_t from = s * count / sources;
        size_t targets = s == 0 || count <= ALL ? count : TARGETS;
        for (size_t t = 0; t < targets; t++) {
            size_t to = t * (count - 1) / (targets - 1);
            if (from == to)
                continue;
            if (!route_find(platform, from, to, &path, error))
                return false;
            struct route route = {path->links, path->count, 0, INFINITY};
            route_summarize(platform, &route);
            *links = route.link_count > *links ? route.link_count : *links;
            *latency_s = fmax(*latency_s, route.latency_s);
        }
    }
    return true;
}
