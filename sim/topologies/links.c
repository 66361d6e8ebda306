/* Any machine, link by link: duplex and one-way links, buses, switches in between. */
#include "base/checked.h"
#include "sim/platform_keys.h"
#include "sim/topologies/kinds.h"

#include <stdlib.h>
#include <string.h>

static const char *const keys[] = {"links", "switches"};

enum joint_sharing { DUPLEX, ONE_WAY, FATPIPE, BUS };
static const char *const sharings[] = {"duplex", "one_way", "fatpipe", "bus"};
enum { SHARINGS = sizeof(sharings) / sizeof(sharings[0]) };

struct named {
    const char *name;
    uint32_t vertex;
};

/* What a name in the list may mean. Sorted by name. */
struct directory {
    struct named *names;
    size_t count;
    size_t switches;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static bool read_switches(const struct json_at *at, struct platform *platform,
                          struct fabric *fabric, struct error *error)
{
    struct json_at list, item;
    const char *name;
    uint32_t vertex;
    if (!json_optional(at, "switches", &list))
        return true;
    if (!json_is_array(&list))
        return json_fail(&list, error, "must be a list of names");
    for (bool more = json_element(&list, 0, &item); more; more = json_next(&item))
        if (!platform_name_read(&item, &name, error) ||
            !fabric_add_switch(platform, fabric, name, &vertex, error))
            return false;
    return true;
}

static bool list_names(const struct platform *platform, const struct fabric *fabric,
                       struct directory *directory, struct error *error)
{
    size_t prefix = strlen(fabric->prefix);
    directory->switches = fabric->end_switch - fabric->first_switch;
    directory->names =
        checked_calloc(fabric->count + directory->switches, sizeof(*directory->names));
    if (directory->names == NULL)
        return error_memory(error, "topology");
    for (size_t i = 0; i < fabric->count; i++) {
        uint32_t vertex = fabric->endpoints[i];
        directory->names[directory->count++] =
            (struct named){platform_vertex_name(platform, vertex), vertex};
    }
    for (size_t i = fabric->first_switch; i < fabric->end_switch; i++) {
        uint32_t vertex = (uint32_t)i;
        directory->names[directory->count++] =
            (struct named){platform_vertex_name(platform, vertex) + prefix, vertex};
    }
    qsort(directory->names, directory->count, sizeof(*directory->names), by_name);
    return true;
}

static bool fail_unknown(const struct json_at *at, const struct directory *directory,
                         const char *name, struct error *error)
{
    const char **names = checked_calloc(directory->count, sizeof(*names));
    size_t nearest = directory->count;
    for (size_t i = 0; names != NULL && i < directory->count; i++)
        names[i] = directory->names[i].name;
    if (names != NULL)
        nearest = json_nearest(name, names, directory->count);
    if (nearest < directory->count)
        json_fail(at, error, "there is no processor or switch \"%.60s\"; nearest is \"%s\"",
                  name, names[nearest]);
    else
        json_fail(at, error, "there is no processor or switch \"%.60s\" here", name);
    free(names);
    return false;
}

/* A name, or the number of an endpoint of this topology. */
static bool read_vertex(const struct json_at *at, const struct fabric *fabric,
                        const struct directory *directory, uint32_t *vertex,
                        struct error *error)
{
    if (json_is_number(at)) {
        uint64_t number = 0;
        if (!json_u64(at, 0, fabric->count - 1, &number, error))
            return false;
        *vertex = fabric->endpoints[number];
        return true;
    }
    struct named wanted = {NULL, 0};
    if (!json_string(at, &wanted.name, error))
        return false;
    const struct named *found = bsearch(&wanted, directory->names, directory->count,
                                        sizeof(*directory->names), by_name);
    if (found == NULL)
        return fail_unknown(at, directory, wanted.name, error);
    *vertex = found->vertex;
    return true;
}

static bool add_direction(struct platform *platform, const struct fabric *fabric,
                          uint32_t from, uint32_t to, const char *name, double bandwidth,
                          double latency, enum joint_sharing sharing, struct error *error)
{
    uint32_t link = 0;
    char text[4 * PLATFORM_NAME_BYTES];
    snprintf(text, sizeof(text), "%s%s%s->%s", name != NULL ? name : "",
             name != NULL ? ":" : "", platform_vertex_name(platform, from),
             platform_vertex_name(platform, to));
    return platform_add_link(platform, text, bandwidth, latency,
                             sharing == FATPIPE ? LINK_FATPIPE : LINK_SHARED, &link,
                             error) &&
           fabric_add_arc(platform, fabric, from, to, link, error);
}

static bool read_pair(const struct json_at *at, struct platform *platform,
                      const struct fabric *fabric, const struct directory *directory,
                      const char *name, enum joint_sharing sharing, struct error *error)
{
    struct json_at member;
    struct link_spec spec;
    uint32_t from = 0, to = 0;
    if (!json_member(at, "from", &member, error) ||
        !read_vertex(&member, fabric, directory, &from, error) ||
        !json_member(at, "to", &member, error) ||
        !read_vertex(&member, fabric, directory, &to, error) ||
        !link_spec_read_keys(at, &spec, error))
        return false;
    if (from == to)
        return json_fail(at, error, "links %s to itself",
                         platform_vertex_name(platform, from));
    if (json_optional(at, "between", &member))
        return json_fail(&member, error, "belongs to a bus (\"sharing\": \"bus\")");
    if (sharing == ONE_WAY &&
        (json_optional(at, "reverse_bandwidth_bytes_per_s", &member) ||
         json_optional(at, "reverse_latency_s", &member)))
        return json_fail(&member, error, "has no effect on a one-way link");
    return add_direction(platform, fabric, from, to, name, spec.bandwidth_bytes_per_s,
                         spec.latency_s, sharing, error) &&
           (sharing == ONE_WAY || add_direction(platform, fabric, to, from, name,
                                                spec.reverse_bandwidth_bytes_per_s,
                                                spec.reverse_latency_s, sharing, error));
}

/* One link for all that its members say to each other, through a vertex of its own. */
static bool connect_bus(const struct json_at *members, struct platform *platform,
                        struct fabric *fabric, const struct directory *directory,
                        const char *name, const struct link_spec *spec, struct error *error)
{
    struct json_at item;
    uint32_t bus = 0, vertex = 0, link = 0;
    if (!fabric_add_switch(platform, fabric, name, &bus, error) ||
        !platform_add_link(platform, platform_vertex_name(platform, bus),
                           spec->bandwidth_bytes_per_s, spec->latency_s, LINK_SHARED, &link,
                           error))
        return false;
    for (bool more = json_element(members, 0, &item); more; more = json_next(&item)) {
        if (!read_vertex(&item, fabric, directory, &vertex, error))
            return false;
        if (fabric_has_arc(platform, fabric, vertex, bus))
            return json_fail(&item, error, "is on the bus twice");
        if (!fabric_add_arc(platform, fabric, vertex, bus, link, error) ||
            !fabric_add_arc(platform, fabric, bus, vertex, LINK_NONE, error))
            return false;
    }
    return true;
}

static bool read_bus(const struct json_at *at, struct platform *platform,
                     struct fabric *fabric, const struct directory *directory,
                     const char *name, struct error *error)
{
    static const char *const foreign[] = {"from", "to", "reverse_bandwidth_bytes_per_s",
                                          "reverse_latency_s"};
    struct json_at members, member;
    struct link_spec spec;
    char fallback[PLATFORM_NAME_BYTES];
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (json_optional(at, foreign[i], &member))
            return json_fail(&member, error, "has no meaning for a bus");
    if (!json_member(at, "between", &members, error) ||
        !link_spec_read_keys(at, &spec, error))
        return false;
    if (json_length(&members) < 2)
        return json_fail(&members, error, "must list at least two processors");
    snprintf(fallback, sizeof(fallback), "bus%zu", at->index);
    return connect_bus(&members, platform, fabric, directory,
                       name != NULL ? name : fallback, &spec, error);
}

static bool read_joint(const struct json_at *at, struct platform *platform,
                       struct fabric *fabric, const struct directory *directory,
                       struct error *error)
{
    struct json_at member;
    const char *name = NULL;
    size_t sharing = DUPLEX;
    if (!platform_check_keys(at, &platform_joint_keys, NULL, 0, error) ||
        !json_read_choice(at, "sharing", sharings, SHARINGS, &sharing, error))
        return false;
    if (json_optional(at, "name", &member) && !platform_name_read(&member, &name, error))
        return false;
    if (sharing == BUS)
        return read_bus(at, platform, fabric, directory, name, error);
    return read_pair(at, platform, fabric, directory, name, (enum joint_sharing)sharing,
                     error);
}

static bool links_build(const struct json_at *at, struct platform *platform,
                        struct fabric *fabric, struct error *error)
{
    struct directory directory = {0};
    struct json_at list, item;
    bool good =
        read_switches(at, platform, fabric, error) &&
        list_names(platform, fabric, &directory, error) &&
        json_member(at, "links", &list, error) &&
        (json_is_array(&list) || json_fail(&list, error, "must be a list of links"));
    for (bool more = good && json_element(&list, 0, &item); more && good;
         more = json_next(&item))
        good = read_joint(&item, platform, fabric, &directory, error);
    free(directory.names);
    return good && fabric_check_connected(at, platform, fabric, error);
}

const struct topology_kind topology_links = {
    .name = "links",
    .summary = "a list of links between named processors, switches and buses",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .build = links_build,
};
