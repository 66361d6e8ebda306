#include "sim/topology.h"

#include "base/checked.h"
#include "sim/platform_internal.h"
#include "sim/platform_keys.h"
#include "sim/topologies/kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct topology_kind *const kinds[] = {
    &topology_line,   &topology_ring,      &topology_mesh,         &topology_torus,
    &topology_ladder, &topology_full,      &topology_switch,       &topology_fat_tree,
    &topology_links,  &topology_dragonfly, &topology_hierarchical,
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

size_t topology_kind_count(void)
{
    return KINDS;
}

const struct topology_kind *topology_kind_get(size_t index)
{
    return index < KINDS ? kinds[index] : NULL;
}

static bool read_bandwidth(const struct json_at *at, double *bandwidth, struct error *error)
{
    static const char *const words[] = {"infinite"};
    size_t chosen = 0;
    if (!json_is_string(at))
        return platform_positive(at, 1e21, bandwidth, error);
    *bandwidth = INFINITY;
    return json_choice(at, words, 1, &chosen, error);
}

bool link_spec_read_keys(const struct json_at *at, struct link_spec *spec,
                         struct error *error)
{
    struct json_at member;
    uint64_t count = 1;
    double efficiency = 1;
    if (!json_member(at, "bandwidth_bytes_per_s", &member, error) ||
        !read_bandwidth(&member, &spec->bandwidth_bytes_per_s, error) ||
        !json_member(at, "latency_s", &member, error) ||
        !json_number(&member, 0, 1e6, &spec->latency_s, error) ||
        !json_read_u64(at, "count", 1, 1000000, &count, error))
        return false;
    spec->reverse_bandwidth_bytes_per_s = spec->bandwidth_bytes_per_s;
    spec->reverse_latency_s = spec->latency_s;
    if (json_optional(at, "reverse_bandwidth_bytes_per_s", &member) &&
        !read_bandwidth(&member, &spec->reverse_bandwidth_bytes_per_s, error))
        return false;
    if (json_optional(at, "reverse_latency_s", &member) &&
        !json_number(&member, 0, 1e6, &spec->reverse_latency_s, error))
        return false;
    if (json_optional(at, "efficiency", &member) &&
        !platform_positive(&member, 1, &efficiency, error))
        return false;
    spec->bandwidth_bytes_per_s *= efficiency * (double)count;
    spec->reverse_bandwidth_bytes_per_s *= efficiency * (double)count;
    return true;
}

bool link_spec_read_at(const struct json_at *at, struct link_spec *spec,
                       struct error *error)
{
    return platform_check_keys(at, &platform_link_keys, NULL, 0, error) &&
           link_spec_read_keys(at, spec, error);
}

bool link_spec_read(const struct json_at *object, const char *key, struct link_spec *spec,
                    struct error *error)
{
    struct json_at at;
    return json_member(object, key, &at, error) && link_spec_read_at(&at, spec, error);
}

bool link_specs_read(const struct json_at *object, size_t count, const char *each,
                     struct link_spec *specs, struct error *error)
{
    struct json_at list, item;
    if (!json_optional(object, "links", &list)) {
        if (!link_spec_read(object, "link", &specs[0], error))
            return false;
        for (size_t i = 1; i < count; i++)
            specs[i] = specs[0];
        return true;
    }
    if (json_optional(object, "link", &item))
        return json_fail(object, error, "gives both \"link\" and \"links\"");
    if (json_length(&list) != count)
        return json_fail(&list, error, "must be a list of %zu links, one for each %s",
                         count, each);
    for (size_t i = 0; i < count; i++)
        if (!json_element(&list, i, &item) || !link_spec_read_at(&item, &specs[i], error))
            return false;
    return true;
}

const char *platform_vertex_name(const struct platform *platform, uint32_t vertex)
{
    return platform->vertices[vertex].name;
}

bool fabric_add_switch(struct platform *platform, struct fabric *fabric, const char *name,
                       uint32_t *vertex, struct error *error)
{
    char text[2 * PLATFORM_NAME_BYTES];
    if (platform->vertex_count >= PLATFORM_MAX_LINKS)
        return json_fail(platform->place, error, "needs more than %d switches",
                         PLATFORM_MAX_LINKS);
    if (!checked_grow((void **)&platform->vertices, &platform->vertex_capacity,
                      platform->vertex_count + 1, sizeof(*platform->vertices)))
        return error_memory(error, "switches");
    struct vertex *added = &platform->vertices[platform->vertex_count];
    snprintf(text, sizeof(text), "%s%s", fabric->prefix, name);
    *added = (struct vertex){.owned_name = strdup(text),
                             .first_out = ARC_NONE,
                             .last_out = ARC_NONE,
                             .first_in = ARC_NONE,
                             .last_in = ARC_NONE};
    if (added->owned_name == NULL)
        return error_memory(error, "switches");
    added->name = added->owned_name;
    *vertex = (uint32_t)platform->vertex_count++;
    fabric->end_switch = platform->vertex_count;
    return true;
}

bool platform_add_link(struct platform *platform, const char *name, double bandwidth,
                       double latency, enum link_sharing sharing, uint32_t *link,
                       struct error *error)
{
    if (platform->link_count >= PLATFORM_MAX_LINKS)
        return json_fail(platform->place, error,
                         "needs more than %d links (counting each direction)",
                         PLATFORM_MAX_LINKS);
    if (!checked_grow((void **)&platform->links, &platform->link_capacity,
                      platform->link_count + 1, sizeof(*platform->links)))
        return error_memory(error, "links");
    struct link *added = &platform->links[platform->link_count];
    *added = (struct link){strdup(name), bandwidth, latency, sharing};
    if (added->name == NULL)
        return error_memory(error, "links");
    *link = (uint32_t)platform->link_count++;
    return true;
}

bool fabric_add_arc(struct platform *platform, const struct fabric *fabric, uint32_t from,
                    uint32_t to, uint32_t link, struct error *error)
{
    if (!checked_grow((void **)&platform->arcs, &platform->arc_capacity,
                      platform->arc_count + 1, sizeof(*platform->arcs)))
        return error_memory(error, "links");
    uint32_t index = (uint32_t)platform->arc_count++;
    platform->arcs[index] = (struct arc){from, to, link, fabric->index, ARC_NONE, ARC_NONE};
    struct vertex *source = &platform->vertices[from], *sink = &platform->vertices[to];
    if (source->last_out == ARC_NONE)
        source->first_out = index;
    else
        platform->arcs[source->last_out].next_out = index;
    source->last_out = index;
    source->out_count++;
    if (sink->last_in == ARC_NONE)
        sink->first_in = index;
    else
        platform->arcs[sink->last_in].next_in = index;
    sink->last_in = index;
    sink->in_count++;
    return true;
}

bool fabric_add_one_way(struct platform *platform, const struct fabric *fabric,
                        uint32_t from, uint32_t to, double bandwidth, double latency,
                        struct error *error)
{
    char name[4 * PLATFORM_NAME_BYTES];
    uint32_t link = 0;
    snprintf(name, sizeof(name), "%s->%s", platform->vertices[from].name,
             platform->vertices[to].name);
    return platform_add_link(platform, name, bandwidth, latency, LINK_SHARED, &link,
                             error) &&
           fabric_add_arc(platform, fabric, from, to, link, error);
}

bool fabric_add_duplex(struct platform *platform, const struct fabric *fabric, uint32_t a,
                       uint32_t b, const struct link_spec *spec, struct error *error)
{
    return fabric_add_one_way(platform, fabric, a, b, spec->bandwidth_bytes_per_s,
                              spec->latency_s, error) &&
           fabric_add_one_way(platform, fabric, b, a, spec->reverse_bandwidth_bytes_per_s,
                              spec->reverse_latency_s, error);
}

bool topology_read_extents(const struct json_at *object, const char *key, size_t maximum,
                           uint64_t *extents, size_t *count, struct error *error)
{
    struct json_at list, item;
    if (!json_member(object, key, &list, error))
        return false;
    *count = json_length(&list);
    if (*count == 0 || *count > maximum)
        return json_fail(&list, error, "must be a list of 1 to %zu numbers", maximum);
    for (size_t i = 0; i < *count; i++)
        if (!json_element(&list, i, &item) ||
            !json_u64(&item, 1, PLATFORM_MAX_PROCESSORS, &extents[i], error))
            return false;
    return true;
}

static bool fabric_create(struct platform *platform, const struct topology_kind *kind,
                          const uint32_t *vertices, size_t count, const char *prefix,
                          struct fabric **fabric, struct error *error)
{
    if (!checked_grow((void **)&platform->fabrics, &platform->fabric_capacity,
                      platform->fabric_count + 1, sizeof(*platform->fabrics)))
        return error_memory(error, "topology");
    struct fabric *made = checked_calloc(1, sizeof(*made));
    if (made == NULL)
        return error_memory(error, "topology");
    made->index = (uint32_t)platform->fabric_count;
    platform->fabrics[platform->fabric_count++] = made;
    made->kind = kind;
    made->count = count;
    made->endpoints = checked_calloc(count, sizeof(*made->endpoints));
    if (made->endpoints == NULL)
        return error_memory(error, "topology");
    memcpy(made->endpoints, vertices, count * sizeof(*vertices));
    if (strlen(prefix) >= sizeof(made->prefix))
        return json_fail(platform->place, error, "is nested too deeply");
    snprintf(made->prefix, sizeof(made->prefix), "%s", prefix);
    *fabric = made;
    return true;
}

bool fabric_build(const struct json_at *at, struct platform *platform,
                  const uint32_t *vertices, size_t count, const char *prefix,
                  struct fabric **fabric, struct error *error)
{
    const struct key_set kind_key = {"topology", (const char *const[]){"kind"}, 1};
    const char *names[KINDS];
    struct json_at member;
    size_t chosen = 0;
    for (size_t i = 0; i < KINDS; i++)
        names[i] = kinds[i]->name;
    if (!json_member(at, "kind", &member, error) ||
        !json_choice(&member, names, KINDS, &chosen, error) ||
        !platform_check_keys(at, &kind_key, kinds[chosen]->keys, kinds[chosen]->key_count,
                             error) ||
        !fabric_create(platform, kinds[chosen], vertices, count, prefix, fabric, error))
        return false;
    struct fabric *made = *fabric;
    made->first_switch = platform->vertex_count;
    made->end_switch = platform->vertex_count;
    const struct json_at *outer = platform->place;
    platform->place = at;
    bool built = made->kind->build(at, platform, made, error);
    platform->place = outer;
    return built;
}

bool fabric_route(struct platform *platform, const struct fabric *fabric, size_t from,
                  size_t to, struct path *path, struct error *error)
{
    if (from == to)
        return true;
    if (fabric->kind->route != NULL)
        return fabric->kind->route(platform, fabric, from, to, path, error);
    return route_search(platform, fabric, fabric->endpoints[from], fabric->endpoints[to],
                        path, error);
}

/* Walks the shorter of the two lists that the arc would be in. */
static uint32_t find_arc(const struct platform *platform, const struct fabric *fabric,
                         uint32_t from, uint32_t to)
{
    const struct vertex *source = &platform->vertices[from],
                        *sink = &platform->vertices[to];
    bool forward = source->out_count <= sink->in_count;
    uint32_t index = forward ? source->first_out : sink->first_in;
    while (index != ARC_NONE) {
        const struct arc *arc = &platform->arcs[index];
        if (arc->from == from && arc->to == to && arc->fabric == fabric->index)
            break;
        index = forward ? arc->next_out : arc->next_in;
    }
    return index;
}

bool fabric_has_arc(const struct platform *platform, const struct fabric *fabric,
                    uint32_t from, uint32_t to)
{
    return find_arc(platform, fabric, from, to) != ARC_NONE;
}

bool path_step(struct platform *platform, const struct fabric *fabric, uint32_t from,
               uint32_t to, struct path *path, struct error *error)
{
    uint32_t index = find_arc(platform, fabric, from, to);
    if (index == ARC_NONE)
        return error_set(error, STATUS_BAD_INPUT, "there is no link from %s to %s",
                         platform->vertices[from].name, platform->vertices[to].name);
    return path_add(path, platform->arcs[index].link, error);
}

bool path_add(struct path *path, uint32_t link, struct error *error)
{
    if (link == LINK_NONE)
        return true;
    if (!checked_grow((void **)&path->links, &path->capacity, path->count + 1,
                      sizeof(*path->links)))
        return error_memory(error, "route");
    path->links[path->count++] = link;
    return true;
}

/* Marks what `start` reaches, along the arcs or (backward) against them. */
static void mark(const struct platform *platform, const struct fabric *fabric,
                 uint32_t start, bool backward, bool *reached, uint32_t *queue)
{
    size_t head = 0, tail = 0;
    memset(reached, 0, platform->vertex_count * sizeof(*reached));
    reached[start] = true;
    queue[tail++] = start;
    while (head < tail) {
        const struct vertex *vertex = &platform->vertices[queue[head++]];
        uint32_t index = backward ? vertex->first_in : vertex->first_out;
        while (index != ARC_NONE) {
            const struct arc *arc = &platform->arcs[index];
            uint32_t next = backward ? arc->from : arc->to;
            if (arc->fabric == fabric->index && !reached[next]) {
                reached[next] = true;
                queue[tail++] = next;
            }
            index = backward ? arc->next_in : arc->next_out;
        }
    }
}

bool fabric_check_connected(const struct json_at *at, struct platform *platform,
                            const struct fabric *fabric, struct error *error)
{
    bool *reached = checked_calloc(platform->vertex_count, sizeof(*reached));
    uint32_t *queue = checked_calloc(platform->vertex_count, sizeof(*queue));
    bool connected = reached != NULL && queue != NULL;
    if (!connected)
        error_memory(error, "topology");
    for (int backward = 0; connected && backward < 2; backward++) {
        mark(platform, fabric, fabric->endpoints[0], backward == 1, reached, queue);
        for (size_t i = 1; connected && i < fabric->count; i++) {
            if (reached[fabric->endpoints[i]])
                continue;
            const char *a = platform->vertices[fabric->endpoints[0]].name;
            const char *b = platform->vertices[fabric->endpoints[i]].name;
            connected = json_fail(at, error, "not connected: there is no way from %s to %s",
                                  backward == 1 ? b : a, backward == 1 ? a : b);
        }
    }
    free(reached);
    free(queue);
    return connected;
}
