#include "sim/header.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct owned_header {
    struct trace_header header; /* first, so that one pointer serves for both */
    struct trace_processor *processors;
    struct trace_edge *edges;
    struct trace_link *links;
    const char **layers;
    char (*edge_names)[2 * PLATFORM_NAME_BYTES + 32];
};

/* Parts that load samples from the host: an edge each, after the plan's. */
static bool fed(const struct plan *plan, const struct platform *platform, size_t part)
{
    return platform_has_host(platform) && plan->parts[part].activation_in == PLAN_NONE &&
           !plan->parts[part].teacher;
}

static size_t edge_count(const struct plan *plan, const struct platform *platform)
{
    size_t count = plan->edge_count;
    for (size_t p = 0; p < plan->part_count; p++)
        count += fed(plan, platform, p);
    return count;
}

static bool allocate(struct owned_header *h, const struct plan *plan,
                     const struct platform *platform)
{
    size_t edges = edge_count(plan, platform);
    h->processors =
        checked_calloc(platform_processor_count(platform), sizeof *h->processors);
    h->links = checked_calloc(platform_link_count(platform), sizeof *h->links);
    h->edges = checked_calloc(edges, sizeof *h->edges);
    h->edge_names = checked_calloc(edges, sizeof *h->edge_names);
    h->layers = checked_calloc(plan->model->layer_count, sizeof *h->layers);
    return h->processors != NULL && h->links != NULL && h->edges != NULL &&
           h->edge_names != NULL && h->layers != NULL;
}

static bool name_edges(struct owned_header *h, const struct plan *plan,
                       struct platform *platform, struct error *error)
{
    for (size_t i = 0; i < plan->edge_count; i++) {
        const struct edge *edge = &plan->edges[i];
        struct route route;
        if (!platform_route(platform, edge->from_processor, edge->to_processor, &route, error))
            return false;
        snprintf(h->edge_names[i], sizeof h->edge_names[i], "%s -> %s %s",
                 platform_processor(platform, edge->from_processor)->name,
                 platform_processor(platform, edge->to_processor)->name,
                 payload_name(edge->payload));
        h->edges[i] = (struct trace_edge){.name = h->edge_names[i],
                                          .from = edge->from_processor,
                                          .to = edge->to_processor,
                                          .links = route.links,
                                          .link_count = route.link_count};
    }
    return true;
}

static bool name_feeds(struct owned_header *h, const struct plan *plan,
                       struct platform *platform, struct error *error)
{
    size_t at = plan->edge_count;
    for (size_t p = 0; p < plan->part_count; p++) {
        uint32_t processor = plan->parts[p].processor;
        struct route route;
        if (!fed(plan, platform, p))
            continue;
        if (!platform_host_route(platform, processor, &route, error))
            return false;
        snprintf(h->edge_names[at], sizeof h->edge_names[at], "%s -> %s samples",
                 platform_host_name(platform), platform_processor(platform, processor)->name);
        h->edges[at] = (struct trace_edge){.name = h->edge_names[at],
                                           .from = processor,
                                           .to = processor,
                                           .links = route.links,
                                           .link_count = route.link_count};
        at++;
    }
    return true;
}

static void name_rest(struct owned_header *h, const struct plan *plan,
                      const struct platform *platform)
{
    for (size_t i = 0; i < platform_processor_count(platform); i++)
        h->processors[i] =
            (struct trace_processor){platform_processor(platform, i)->name,
                                     platform_processor(platform, i)->memory_bytes};
    for (size_t i = 0; i < platform_link_count(platform); i++)
        h->links[i] = (struct trace_link){platform_link(platform, i)->name,
                                          platform_link(platform, i)->bandwidth_bytes_per_s};
    for (size_t i = 0; i < plan->model->layer_count; i++)
        h->layers[i] = plan->model->layers[i].name;
}

struct trace_header *header_create(const struct plan *plan, struct platform *platform,
                                   uint64_t trace_steps, struct error *error)
{
    uint64_t back, ahead;
    struct owned_header *h = checked_calloc(1, sizeof *h);
    plan_reach(plan, &back, &ahead);
    if (h == NULL || !allocate(h, plan, platform)) {
        header_free(h == NULL ? NULL : &h->header);
        error_memory(error, "trace header");
        return NULL;
    }
    if (!name_edges(h, plan, platform, error) || !name_feeds(h, plan, platform, error)) {
        header_free(&h->header);
        return NULL;
    }
    name_rest(h, plan, platform);
    h->header = (struct trace_header){
        .method = plan->name,
        .processors = h->processors,
        .processor_count = platform_processor_count(platform),
        .edges = h->edges,
        .edge_count = edge_count(plan, platform),
        .links = h->links,
        .link_count = platform_link_count(platform),
        .layer_names = h->layers,
        .layer_count = plan->model->layer_count,
        .trace_steps = trace_steps,
        .look_ahead_steps = ahead,
    };
    return &h->header;
}

void header_free(struct trace_header *header)
{
    struct owned_header *h = (struct owned_header *)header;
    if (h == NULL)
        return;
    free(h->processors);
    free(h->links);
    free(h->edges);
    free(h->edge_names);
    free(h->layers);
    free(h);
}
