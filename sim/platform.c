#include "sim/platform.h"

#include "base/random.h"
#include "sim/platform_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fabric_free(struct fabric *fabric)
{
    if (fabric == NULL)
        return;
    if (fabric->kind->release != NULL && fabric->parameters != NULL)
        fabric->kind->release(fabric->parameters);
    else
        free(fabric->parameters);
    free(fabric->endpoints);
    free(fabric);
}

void platform_free(struct platform *platform)
{
    if (platform == NULL)
        return;
    for (size_t i = 0; i < platform->group_count; i++)
        processor_release(&platform->groups[i]);
    for (size_t i = 0; i < platform->fabric_count; i++)
        fabric_free(platform->fabrics[i]);
    for (size_t i = 0; i < platform->vertex_count; i++)
        free(platform->vertices[i].owned_name);
    for (size_t i = 0; i < platform->link_count; i++)
        free((char *)(uintptr_t)platform->links[i].name);
    trouble_release(&platform->trouble);
    route_cache_free(platform->cache);
    free(platform->groups);
    free(platform->group_counts);
    free(platform->processors);
    free(platform->vertices);
    free(platform->links);
    free(platform->arcs);
    free(platform->fabrics);
    free(platform->host_name);
    free(platform->host_links);
    free(platform->name);
    free(platform->description);
    free(platform);
}

const char *platform_name(const struct platform *platform)
{
    return platform->name;
}

size_t platform_processor_count(const struct platform *platform)
{
    return platform->processor_count;
}

const struct processor *platform_processor(const struct platform *platform, size_t index)
{
    return index < platform->processor_count ? &platform->processors[index] : NULL;
}

size_t platform_link_count(const struct platform *platform)
{
    return platform->link_count;
}

const struct link *platform_link(const struct platform *platform, size_t index)
{
    return index < platform->link_count ? &platform->links[index] : NULL;
}

bool platform_has_host(const struct platform *platform)
{
    return platform->host_name != NULL;
}

const char *platform_host_name(const struct platform *platform)
{
    return platform->host_name;
}

size_t platform_find_processor(const struct platform *platform, const char *name)
{
    size_t i = 0;
    while (i < platform->processor_count && strcmp(platform->processors[i].name, name) != 0)
        i++;
    return i;
}

const struct trouble *platform_trouble(const struct platform *platform)
{
    return &platform->trouble;
}

double platform_straggling(const struct platform *platform, size_t processor, double time_s)
{
    const struct trouble *trouble = &platform->trouble;
    double factor = 1;
    for (size_t i = 0; i < trouble->straggler_count; i++) {
        const struct straggler *straggler = &trouble->stragglers[i];
        if (straggler->processor != processor)
            continue;
        double window = floor(time_s / straggler->window_s);
        struct random_key key = {trouble->seed, RANDOM_STRAGGLER, (uint32_t)processor,
                                 window > 0 && window < 1e18 ? (uint64_t)window : 0};
        if (random_uniform(key, i) < straggler->probability)
            factor *= straggler->slowdown;
    }
    return factor;
}
