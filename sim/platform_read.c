/* From JSON to a checked machine. */
#include "base/checked.h"
#include "sim/platform_internal.h"
#include "sim/platform_keys.h"

#include <stdlib.h>
#include <string.h>

/* Copies the group's processor `count` times, with names of their own. */
static bool add_processors(const struct json_at *at, struct platform *platform,
                           size_t group, bool numbered, size_t *capacity,
                           struct error *error)
{
    const struct processor *model = &platform->groups[group];
    uint64_t count = platform->group_counts[group];
    size_t total = platform->processor_count + (size_t)count;
    if (total > PLATFORM_MAX_PROCESSORS)
        return json_fail(at, error, "makes %zu processors; at most %d are allowed", total,
                         PLATFORM_MAX_PROCESSORS);
    if (!checked_grow((void **)&platform->processors, capacity, total,
                      sizeof(*platform->processors)))
        return error_memory(error, "processors");
    for (uint64_t i = 0; i < count; i++) {
        struct processor *added = &platform->processors[platform->processor_count++];
        *added = *model;
        if (numbered)
            snprintf(added->name, sizeof(added->name), "%.40s%llu", model->group,
                     (unsigned long long)i);
    }
    return true;
}

static bool read_group(const struct json_at *at, struct platform *platform,
                       size_t *capacity, struct error *error)
{
    size_t group = platform->group_count++;
    bool numbered = false;
    return processor_read(at, &platform->groups[group], PLATFORM_MAX_PROCESSORS,
                          &platform->group_counts[group], &numbered, error) &&
           add_processors(at, platform, group, numbered, capacity, error);
}

bool platform_read_processors(const struct json_at *root, struct platform *platform,
                              struct error *error)
{
    struct json_at list, item;
    if (!json_member(root, "processors", &list, error))
        return false;
    bool single = json_is_object(&list);
    size_t count = single ? 1 : json_length(&list), capacity = 0;
    if (count == 0 || count > PLATFORM_MAX_PROCESSORS)
        return json_fail(&list, error, "must be a group of processors or a list of 1 to %d",
                         PLATFORM_MAX_PROCESSORS);
    platform->groups = checked_calloc(count, sizeof(*platform->groups));
    platform->group_counts = checked_calloc(count, sizeof(*platform->group_counts));
    if (platform->groups == NULL || platform->group_counts == NULL)
        return error_memory(error, "processors");
    if (single)
        return read_group(&list, platform, &capacity, error);
    for (bool more = json_element(&list, 0, &item); more; more = json_next(&item))
        if (!read_group(&item, platform, &capacity, error))
            return false;
    return true;
}

static bool add_vertices(struct platform *platform, uint32_t **endpoints,
                         struct error *error)
{
    size_t count = platform->processor_count;
    *endpoints = checked_calloc(count, sizeof(**endpoints));
    if (*endpoints == NULL ||
        !checked_grow((void **)&platform->vertices, &platform->vertex_capacity, count,
                      sizeof(*platform->vertices)))
        return error_memory(error, "processors");
    for (size_t i = 0; i < count; i++) {
        (*endpoints)[i] = (uint32_t)i;
        platform->vertices[i] = (struct vertex){.name = platform->processors[i].name,
                                                .first_out = ARC_NONE,
                                                .last_out = ARC_NONE,
                                                .first_in = ARC_NONE,
                                                .last_in = ARC_NONE};
    }
    platform->vertex_count = count;
    return true;
}

/* A single processor needs no topology. */
static bool read_topology(const struct json_at *root, struct platform *platform,
                          struct error *error)
{
    struct json_at topology;
    struct fabric *fabric = NULL;
    uint32_t *endpoints = NULL;
    bool good = add_vertices(platform, &endpoints, error);
    if (good && platform->processor_count == 1 &&
        !json_optional(root, "topology", &topology)) {
        free(endpoints);
        return true;
    }
    good = good && json_member(root, "topology", &topology, error) &&
           fabric_build(&topology, platform, endpoints, platform->processor_count, "",
                        &fabric, error);
    free(endpoints);
    return good;
}

static bool read_host(const struct json_at *root, struct platform *platform,
                      struct error *error)
{
    struct json_at host, member;
    double bandwidth = 0, latency_s = 0;
    const char *name = "host";
    uint64_t share = 1;
    if (!json_optional(root, "host", &host))
        return true;
    if (!platform_check_keys(&host, &platform_host_keys, NULL, 0, error) ||
        !platform_member_positive(&host, "bandwidth_bytes_per_s", 1e21, &bandwidth,
                                  error) ||
        !json_member(&host, "latency_s", &member, error) ||
        !json_number(&member, 0, 1e6, &latency_s, error) ||
        !json_read_u64(&host, "processors_per_link", 1, PLATFORM_MAX_PROCESSORS, &share,
                       error) ||
        (json_optional(&host, "name", &member) &&
         !platform_name_read(&member, &name, error)))
        return false;
    platform->host_name = strdup(name);
    platform->host_links =
        checked_calloc(platform->processor_count, sizeof(*platform->host_links));
    if (platform->host_name == NULL || platform->host_links == NULL)
        return error_memory(error, "host");
    uint32_t link = 0;
    for (size_t i = 0; i < platform->processor_count; i++) {
        char text[3 * PLATFORM_NAME_BYTES];
        snprintf(text, sizeof(text), "%s->%s", name, platform->processors[i].name);
        if (i % share == 0 && !platform_add_link(platform, text, bandwidth, latency_s,
                                                 LINK_SHARED, &link, error))
            return false;
        platform->host_links[i] = link;
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool check_distinct(const struct json_at *root, const char **names, size_t count,
                           const char *what, struct error *error)
{
    qsort(names, count, sizeof(*names), by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i], names[i - 1]) == 0)
            return json_fail(root, error, "two %s are named \"%s\"", what, names[i]);
    return true;
}

/* SimGrid looks hosts and links up by name. */
static bool check_names(const struct json_at *root, struct platform *platform,
                        struct error *error)
{
    size_t vertices = platform->vertex_count, links = platform->link_count;
    const char **names =
        checked_calloc((vertices > links ? vertices : links) + 1, sizeof(*names));
    if (names == NULL)
        return error_memory(error, "names");
    for (size_t i = 0; i < vertices; i++)
        names[i] = platform->vertices[i].name;
    if (platform->host_name != NULL)
        names[vertices++] = platform->host_name;
    bool good = check_distinct(root, names, vertices, "processors or switches", error);
    for (size_t i = 0; i < links; i++)
        names[i] = platform->links[i].name;
    good = good && check_distinct(root, names, links, "links", error);
    free(names);
    return good;
}

static bool read_texts(const struct json_at *root, struct platform *platform,
                       struct error *error)
{
    struct json_at member;
    const char *name = "", *description = "", *schema;
    if (!platform_check_keys(root, &platform_root_keys, NULL, 0, error) ||
        !json_member(root, "name", &member, error) ||
        !platform_name_read(&member, &name, error))
        return false;
    if (json_optional(root, "description", &member) &&
        !json_string(&member, &description, error))
        return false;
    if (json_optional(root, "$schema", &member) && !json_string(&member, &schema, error))
        return false;
    platform->name = strdup(name);
    platform->description = strdup(description);
    return (platform->name != NULL && platform->description != NULL) ||
           error_memory(error, "platform");
}

struct platform *platform_parse(const struct json_at *root, struct error *error)
{
    struct platform *platform = checked_calloc(1, sizeof(*platform));
    if (platform == NULL) {
        error_memory(error, "platform");
        return NULL;
    }
    platform->place = root;
    platform->cache = route_cache_create();
    bool good = (platform->cache != NULL || error_memory(error, "platform")) &&
                read_texts(root, platform, error) &&
                platform_read_processors(root, platform, error) &&
                read_topology(root, platform, error) && read_host(root, platform, error) &&
                check_names(root, platform, error) && trouble_read(root, platform, error);
    platform->place = NULL;
    if (good)
        return platform;
    platform_free(platform);
    return NULL;
}
