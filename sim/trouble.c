/* "trouble": what is slow, what degrades, what fails, and when. */
#include "base/checked.h"
#include "sim/platform_internal.h"
#include "sim/platform_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void trouble_release(struct trouble *trouble)
{
    free(trouble->stragglers);
    free(trouble->degradations);
    free(trouble->failures);
}

/* The processors that a name means: one, or all of a group. Fails on none. */
static bool find_processors(const struct json_at *object, const struct platform *platform,
                            bool **chosen, struct error *error)
{
    struct json_at member;
    const char *name;
    size_t found = 0;
    if (!json_member(object, "processor", &member, error) ||
        !json_string(&member, &name, error))
        return false;
    *chosen = checked_calloc(platform->processor_count, sizeof(**chosen));
    if (*chosen == NULL)
        return error_memory(error, "trouble");
    for (size_t i = 0; i < platform->processor_count; i++) {
        (*chosen)[i] = strcmp(platform->processors[i].name, name) == 0 ||
                       strcmp(platform->processors[i].group, name) == 0;
        found += (*chosen)[i];
    }
    return found > 0 ||
           json_fail(&member, error, "no processor or group is named \"%.60s\"", name);
}

static bool find_link(const struct json_at *object, const struct platform *platform,
                      size_t *link, struct error *error)
{
    struct json_at member;
    const char *name;
    if (!json_member(object, "link", &member, error) || !json_string(&member, &name, error))
        return false;
    for (*link = 0; *link < platform->link_count; ++*link)
        if (strcmp(platform->links[*link].name, name) == 0)
            return true;
    return json_fail(&member, error, "no link is named \"%.60s\"; the first is \"%s\"",
                     name, platform->link_count > 0 ? platform->links[0].name : "");
}

/* "until_s" is optional; it must be after the start. */
static bool read_until(const struct json_at *object, double start_s, double *until_s,
                       struct error *error)
{
    struct json_at member;
    *until_s = INFINITY;
    if (!json_optional(object, "until_s", &member))
        return true;
    if (!json_number(&member, 0, 1e12, until_s, error))
        return false;
    return *until_s > start_s ||
           json_fail(&member, error, "must be after its start, %g s", start_s);
}

static bool read_start(const struct json_at *object, const char *key, double *start_s,
                       struct error *error)
{
    struct json_at member;
    return json_member(object, key, &member, error) &&
           json_number(&member, 0, 1e12, start_s, error);
}

static bool read_straggler(const struct json_at *at, struct platform *platform,
                           struct error *error)
{
    struct trouble *trouble = &platform->trouble;
    struct straggler read = {.probability = 1, .window_s = 1};
    bool *chosen = NULL;
    struct json_at member;
    bool good = platform_check_keys(at, &platform_straggler_keys, NULL, 0, error) &&
                find_processors(at, platform, &chosen, error) &&
                platform_member_positive(at, "slowdown", 1e6, &read.slowdown, error) &&
                json_read_number(at, "probability", 0, 1, &read.probability, error);
    if (good && read.probability < 1)
        good = platform_member_positive(at, "window_s", 1e12, &read.window_s, error);
    else if (good && json_optional(at, "window_s", &member))
        good = json_fail(&member, error, "has no effect when probability is 1");
    for (size_t i = 0; good && i < platform->processor_count; i++) {
        if (!chosen[i])
            continue;
        read.processor = i;
        good = checked_grow((void **)&trouble->stragglers, &trouble->straggler_capacity,
                            trouble->straggler_count + 1, sizeof(read)) ||
               error_memory(error, "trouble");
        if (good)
            trouble->stragglers[trouble->straggler_count++] = read;
    }
    free(chosen);
    return good;
}

static bool add_degradation(struct trouble *trouble, struct degradation added,
                            struct error *error)
{
    if (!checked_grow((void **)&trouble->degradations, &trouble->degradation_capacity,
                      trouble->degradation_count + 1, sizeof(added)))
        return error_memory(error, "trouble");
    trouble->degradations[trouble->degradation_count++] = added;
    return true;
}

static bool read_degradation(const struct json_at *at, struct platform *platform,
                             struct error *error)
{
    struct degradation read = {0};
    return platform_check_keys(at, &platform_degradation_keys, NULL, 0, error) &&
           find_link(at, platform, &read.link, error) &&
           platform_member_positive(at, "factor", 1, &read.factor, error) &&
           read_start(at, "from_s", &read.from_s, error) &&
           read_until(at, read.from_s, &read.until_s, error) &&
           add_degradation(&platform->trouble, read, error);
}

static bool read_processor_failure(const struct json_at *at, struct platform *platform,
                                   struct failure read, struct error *error)
{
    struct trouble *trouble = &platform->trouble;
    bool *chosen = NULL;
    bool good = find_processors(at, platform, &chosen, error);
    for (size_t i = 0; good && i < platform->processor_count; i++) {
        if (!chosen[i])
            continue;
        read.processor = i;
        good = checked_grow((void **)&trouble->failures, &trouble->failure_capacity,
                            trouble->failure_count + 1, sizeof(read)) ||
               error_memory(error, "trouble");
        if (good)
            trouble->failures[trouble->failure_count++] = read;
    }
    free(chosen);
    return good;
}

static bool read_failure(const struct json_at *at, struct platform *platform,
                         struct error *error)
{
    struct failure read = {0};
    struct json_at member;
    size_t link = 0;
    if (!platform_check_keys(at, &platform_failure_keys, NULL, 0, error) ||
        !read_start(at, "at_s", &read.at_s, error) ||
        !read_until(at, read.at_s, &read.until_s, error))
        return false;
    bool of_link = json_optional(at, "link", &member);
    if (of_link == json_optional(at, "processor", &member))
        return json_fail(at, error, "must name either a \"processor\" or a \"link\"");
    if (!of_link)
        return read_processor_failure(at, platform, read, error);
    return find_link(at, platform, &link, error) &&
           add_degradation(&platform->trouble,
                           (struct degradation){link, 0, read.at_s, read.until_s}, error);
}

static bool read_list(const struct json_at *trouble, const char *key,
                      bool (*read)(const struct json_at *, struct platform *,
                                   struct error *),
                      struct platform *platform, struct error *error)
{
    struct json_at list, item;
    if (!json_optional(trouble, key, &list))
        return true;
    if (!json_is_array(&list))
        return json_fail(&list, error, "must be a list");
    for (bool more = json_element(&list, 0, &item); more; more = json_next(&item))
        if (!read(&item, platform, error))
            return false;
    return true;
}

bool trouble_read(const struct json_at *root, struct platform *platform,
                  struct error *error)
{
    struct json_at at;
    platform->trouble.seed = 1;
    if (!json_optional(root, "trouble", &at))
        return true;
    return platform_check_keys(&at, &platform_trouble_keys, NULL, 0, error) &&
           json_read_u64(&at, "seed", 0, UINT64_MAX, &platform->trouble.seed, error) &&
           read_list(&at, "stragglers", read_straggler, platform, error) &&
           read_list(&at, "links", read_degradation, platform, error) &&
           read_list(&at, "failures", read_failure, platform, error);
}
