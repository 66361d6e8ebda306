/* An extended generalised fat tree: going up from level l - 1 to l, down[l-1] children
 * share up[l-1] parents each. Routes are destination-modulo-k: the way up is chosen by the
 * destination, which spreads destinations over the parents and is always the same.
 *
 * A vertex of level l is (a, b): a numbers the subtree, b the copy of its root; the
 * processors are level 0, with a their number and b = 0. */
#include "base/checked.h"
#include "sim/topologies/kinds.h"

static const char *const keys[] = {"down", "up", "link", "links"};

enum { MAX_LEVELS = 8 };

struct fat_tree {
    size_t levels;
    uint64_t down[MAX_LEVELS], up[MAX_LEVELS];
    uint64_t leaves[MAX_LEVELS + 1]; /* processors below a vertex of a level */
    uint64_t copies[MAX_LEVELS + 1]; /* of a subtree's root */
    uint32_t first[MAX_LEVELS + 1];  /* vertex of a level's (0, 0); not for level 0 */
};

static uint32_t vertex_of(const struct fabric *fabric, const struct fat_tree *tree,
                          size_t level, uint64_t a, uint64_t b)
{
    if (level == 0)
        return fabric->endpoints[a];
    return tree->first[level] + (uint32_t)(a * tree->copies[level] + b);
}

static bool read_shape(const struct json_at *at, const struct fabric *fabric,
                       struct fat_tree *tree, struct error *error)
{
    size_t ups = 0;
    struct json_at member;
    if (!topology_read_extents(at, "down", MAX_LEVELS, tree->down, &tree->levels, error) ||
        !topology_read_extents(at, "up", MAX_LEVELS, tree->up, &ups, error) ||
        !json_member(at, "up", &member, error))
        return false;
    if (ups != tree->levels)
        return json_fail(&member, error, "must have as many levels as \"down\", %zu",
                         tree->levels);
    tree->leaves[0] = tree->copies[0] = 1;
    for (size_t l = 1; l <= tree->levels; l++)
        if (!checked_multiply(tree->leaves[l - 1], tree->down[l - 1], &tree->leaves[l]) ||
            !checked_multiply(tree->copies[l - 1], tree->up[l - 1], &tree->copies[l]) ||
            tree->leaves[l] > fabric->count || tree->copies[l] > PLATFORM_MAX_LINKS)
            return json_fail(at, error, "level %zu is too large for %zu processors", l,
                             fabric->count);
    return tree->leaves[tree->levels] == fabric->count ||
           json_fail(at, error, "\"down\" makes %llu places, but there are %zu to connect",
                     (unsigned long long)tree->leaves[tree->levels], fabric->count);
}

static bool add_level(struct platform *platform, struct fabric *fabric,
                      struct fat_tree *tree, size_t level, struct error *error)
{
    uint64_t count = fabric->count / tree->leaves[level] * tree->copies[level];
    for (uint64_t i = 0; i < count; i++) {
        char name[PLATFORM_NAME_BYTES];
        uint32_t vertex = 0;
        snprintf(name, sizeof(name), "level%zu.%llu", level, (unsigned long long)i);
        if (!fabric_add_switch(platform, fabric, name, &vertex, error))
            return false;
        if (i == 0)
            tree->first[level] = vertex;
    }
    return true;
}

/* From every vertex of level - 1 to its parents. */
static bool connect_level(struct platform *platform, const struct fabric *fabric,
                          const struct fat_tree *tree, size_t level,
                          const struct link_spec *spec, struct error *error)
{
    uint64_t subtrees = fabric->count / tree->leaves[level - 1];
    uint64_t copies = tree->copies[level - 1];
    for (uint64_t a = 0; a < subtrees; a++)
        for (uint64_t b = 0; b < copies; b++)
            for (uint64_t up = 0; up < tree->up[level - 1]; up++)
                if (!fabric_add_duplex(
                        platform, fabric, vertex_of(fabric, tree, level - 1, a, b),
                        vertex_of(fabric, tree, level, a / tree->down[level - 1],
                                  b + copies * up),
                        spec, error))
                    return false;
    return true;
}

static bool fat_tree_build(const struct json_at *at, struct platform *platform,
                           struct fabric *fabric, struct error *error)
{
    struct link_spec specs[MAX_LEVELS];
    struct fat_tree *tree = checked_calloc(1, sizeof(*tree));
    fabric->parameters = tree;
    if (tree == NULL)
        return error_memory(error, "topology");
    if (!read_shape(at, fabric, tree, error) ||
        !link_specs_read(at, tree->levels, "level", specs, error))
        return false;
    for (size_t l = 1; l <= tree->levels; l++)
        if (!add_level(platform, fabric, tree, l, error) ||
            !connect_level(platform, fabric, tree, l, &specs[l - 1], error))
            return false;
    return true;
}

static bool fat_tree_route(struct platform *platform, const struct fabric *fabric,
                           size_t from, size_t to, struct path *path, struct error *error)
{
    const struct fat_tree *tree = fabric->parameters;
    uint64_t a = from, b = 0;
    size_t level = 0;
    uint32_t here = fabric->endpoints[from];
    while (a != to / tree->leaves[level]) {
        uint64_t copies = tree->copies[level];
        a /= tree->down[level];
        b += copies * (to / copies % tree->up[level]);
        level++;
        uint32_t next = vertex_of(fabric, tree, level, a, b);
        if (!path_step(platform, fabric, here, next, path, error))
            return false;
        here = next;
    }
    while (level > 0) {
        level--;
        b %= tree->copies[level];
        uint32_t next = vertex_of(fabric, tree, level, to / tree->leaves[level], b);
        if (!path_step(platform, fabric, here, next, path, error))
            return false;
        here = next;
    }
    return true;
}

/* A row for each level, the processors at the bottom. */
static void fat_tree_place(const struct platform *platform, const struct fabric *fabric,
                           struct box box, struct point *points)
{
    const struct fat_tree *tree = fabric->parameters;
    (void)platform;
    for (size_t l = 0; l <= tree->levels; l++) {
        uint64_t count = fabric->count / tree->leaves[l] * tree->copies[l];
        double y =
            box.y + box.height * (1 - ((double)l + 0.5) / (double)(tree->levels + 1));
        for (uint64_t i = 0; i < count; i++)
            points[vertex_of(fabric, tree, l, i / tree->copies[l], i % tree->copies[l])] =
                (struct point){box.x + box.width * ((double)i + 0.5) / (double)count, y};
    }
}

const struct topology_kind topology_fat_tree = {
    .name = "fat_tree",
    .summary = "switches in levels, several parents each; routes by the destination",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = fat_tree_build,
    .route = fat_tree_route,
    .place = fat_tree_place,
};
