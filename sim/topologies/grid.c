#include "sim/topologies/grid.h"

#include "base/checked.h"

static size_t coordinate(const struct grid *grid, size_t endpoint, size_t dimension)
{
    return endpoint / grid->stride[dimension] % grid->extent[dimension];
}

static struct grid *create(struct fabric *fabric, const uint64_t *extents, size_t rank,
                           bool wrap, struct error *error)
{
    struct grid *grid = checked_calloc(1, sizeof(*grid));
    fabric->parameters = grid;
    if (grid == NULL) {
        error_memory(error, "topology");
        return NULL;
    }
    grid->rank = rank;
    grid->wrap = wrap;
    size_t stride = 1;
    for (size_t d = rank; d-- > 0; stride *= extents[d]) {
        grid->extent[d] = extents[d];
        grid->stride[d] = stride;
    }
    return grid;
}

/* Links along one dimension; the closing one only where it is not the same pair again. */
static bool connect(struct platform *platform, const struct fabric *fabric,
                    const struct grid *grid, size_t d, const struct link_spec *spec,
                    struct error *error)
{
    for (size_t i = 0; i < fabric->count; i++) {
        size_t place = coordinate(grid, i, d), next = i + grid->stride[d];
        if (place + 1 == grid->extent[d]) {
            if (!grid->wrap || grid->extent[d] <= 2)
                continue;
            next = i - place * grid->stride[d];
        }
        if (!fabric_add_duplex(platform, fabric, fabric->endpoints[i],
                               fabric->endpoints[next], spec, error))
            return false;
    }
    return true;
}

bool grid_build(const struct json_at *at, struct platform *platform, struct fabric *fabric,
                bool wrap, struct error *error)
{
    uint64_t extents[GRID_MAX_RANK], product = 1;
    struct link_spec specs[GRID_MAX_RANK];
    size_t rank = 0;
    struct json_at dimensions;
    if (!topology_read_extents(at, "dimensions", GRID_MAX_RANK, extents, &rank, error) ||
        !json_member(at, "dimensions", &dimensions, error))
        return false;
    for (size_t d = 0; d < rank; d++)
        if (!checked_multiply(product, extents[d], &product))
            product = UINT64_MAX;
    if (product != fabric->count)
        return json_fail(&dimensions, error,
                         "make %llu places, but there are %zu to connect",
                         (unsigned long long)product, fabric->count);
    const struct grid *grid = create(fabric, extents, rank, wrap, error);
    if (grid == NULL || !link_specs_read(at, rank, "dimension", specs, error))
        return false;
    for (size_t d = 0; d < rank; d++)
        if (!connect(platform, fabric, grid, d, &specs[d], error))
            return false;
    return true;
}

bool grid_build_chain(const struct json_at *at, struct platform *platform,
                      struct fabric *fabric, bool wrap, struct error *error)
{
    uint64_t extent = fabric->count;
    struct link_spec spec;
    const struct grid *grid = create(fabric, &extent, 1, wrap, error);
    return grid != NULL && link_spec_read(at, "link", &spec, error) &&
           connect(platform, fabric, grid, 0, &spec, error);
}

bool grid_route(struct platform *platform, const struct fabric *fabric, size_t from,
                size_t to, struct path *path, struct error *error)
{
    const struct grid *grid = fabric->parameters;
    for (size_t d = 0; d < grid->rank; d++) {
        size_t extent = grid->extent[d], stride = grid->stride[d];
        size_t here = coordinate(grid, from, d), there = coordinate(grid, to, d);
        size_t ahead = (there + extent - here) % extent;
        bool up = grid->wrap ? ahead <= extent - ahead : there > here;
        while (here != there) {
            size_t next = up ? (here + 1) % extent : (here + extent - 1) % extent;
            size_t target = from - here * stride + next * stride;
            if (!path_step(platform, fabric, fabric->endpoints[from],
                           fabric->endpoints[target], path, error))
                return false;
            from = target;
            here = next;
        }
    }
    return true;
}

bool grid_halve(const struct fabric *fabric, size_t halving, size_t endpoint, bool *upper)
{
    const struct grid *grid = fabric->parameters;
    for (size_t d = 0; d < grid->rank; d++) {
        if (grid->extent[d] % 2 != 0 || halving-- > 0)
            continue;
        *upper = coordinate(grid, endpoint, d) >= grid->extent[d] / 2;
        return true;
    }
    return false;
}

/* The last two dimensions as rows and columns; places that differ only in the dimensions
 * before lie behind each other, on a diagonal. */
void grid_place(const struct platform *platform, const struct fabric *fabric,
                struct box box, struct point *points)
{
    const struct grid *grid = fabric->parameters;
    (void)platform;
    if (grid->rank == 1 && grid->wrap) {
        fabric_place_circle(fabric, box, points);
        return;
    }
    size_t columns = grid->extent[grid->rank - 1];
    size_t rows = grid->rank > 1 ? grid->extent[grid->rank - 2] : 1;
    size_t layers = fabric->count / (rows * columns);
    double width = box.width / (double)columns, height = box.height / (double)rows;
    for (size_t i = 0; i < fabric->count; i++) {
        double behind = ((double)(i / (rows * columns)) + 0.5) / (double)layers - 0.5;
        double x = (double)(i % columns) + 0.5, y = (double)(i / columns % rows) + 0.5;
        points[fabric->endpoints[i]] = (struct point){box.x + width * (x + 0.9 * behind),
                                                      box.y + height * (y + 0.7 * behind)};
    }
}
