/* The inside of a platform, for the files that make it up. */
#ifndef PODSIM_SIM_PLATFORM_INTERNAL_H
#define PODSIM_SIM_PLATFORM_INTERNAL_H

#include "sim/platform.h"
#include "sim/topology.h"

#define ARC_NONE UINT32_MAX

struct arc {
    uint32_t from, to;
    uint32_t link;   /* or LINK_NONE */
    uint32_t fabric; /* index */
    uint32_t next_out, next_in;
};

/* Its arcs, in the order they were added. */
struct vertex {
    const char *name;
    char *owned_name; /* of a switch; a processor has its own */
    uint32_t first_out, last_out, first_in, last_in;
    uint32_t out_count, in_count;
};

struct route_cache; /* in sim/route.c */

struct platform {
    char *name;
    char *description;
    struct processor *groups; /* as read; they own the parameters */
    uint64_t *group_counts;
    size_t group_count;
    struct processor *processors;
    size_t processor_count;
    struct vertex *vertices;
    size_t vertex_count, vertex_capacity;
    struct link *links;
    size_t link_count, link_capacity;
    struct arc *arcs;
    size_t arc_count, arc_capacity;
    struct fabric **fabrics; /* the outermost first */
    size_t fabric_count, fabric_capacity;
    char *host_name;      /* NULL: no host */
    uint32_t *host_links; /* of each processor */
    struct trouble trouble;
    struct route_cache *cache;
    const struct json_at *place; /* while reading: where, for complaints */
};

/* sim/route.c */
struct route_cache *route_cache_create(void);
void route_cache_free(struct route_cache *cache);
/* The links from processor to processor, not kept: valid until the next route. */
bool route_find(struct platform *platform, size_t from, size_t to, struct path **path,
                struct error *error);
void route_summarize(const struct platform *platform, struct route *route);
/* The shortest path inside a fabric, from vertex to vertex. Not before the graph is whole.
 */
bool route_search(struct platform *platform, const struct fabric *fabric, uint32_t from,
                  uint32_t to, struct path *path, struct error *error);

/* sim/platform_read.c's parts. */
bool platform_read_processors(const struct json_at *root, struct platform *platform,
                              struct error *error);
bool trouble_read(const struct json_at *root, struct platform *platform,
                  struct error *error);
void trouble_release(struct trouble *trouble);
/* The index of a processor by name; platform->processor_count when unknown. */
size_t platform_find_processor(const struct platform *platform, const char *name);

#endif
