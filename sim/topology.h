/* For topology files (sim/topologies/). A machine is a graph: vertices 0..processors-1 are
 * the processors, switches and ports follow; an arc goes from vertex to vertex, over a link
 * or free. A fabric is one topology built over a list of vertices, its endpoints; a
 * hierarchical topology is fabrics inside a fabric.
 *
 * A topology kind is one file and one line in the table of sim/topology.c. */
#ifndef PODSIM_SIM_TOPOLOGY_H
#define PODSIM_SIM_TOPOLOGY_H

#include "sim/platform.h"

#define LINK_NONE UINT32_MAX

struct link_spec {
    double bandwidth_bytes_per_s, latency_s; /* of the bundle: bandwidths add */
    double reverse_bandwidth_bytes_per_s, reverse_latency_s;
};

struct path {
    uint32_t *links;
    size_t count, capacity;
};

struct box {
    double x, y, width, height;
};
struct point {
    double x, y;
};

struct fabric;
struct topology_kind {
    const char *name;
    const char *summary;
    const char *const *keys; /* besides "kind" */
    size_t key_count;
    /* Adds switches and links; may leave parameters in the fabric. */
    bool (*build)(const struct json_at *at, struct platform *platform,
                  struct fabric *fabric, struct error *error);
    void (*release)(void *parameters); /* NULL: free() */
    /* Appends the links from endpoint to endpoint, from != to. NULL: fewest links, then
     * the widest, then the first. */
    bool (*route)(struct platform *platform, const struct fabric *fabric, size_t from,
                  size_t to, struct path *path, struct error *error);
    /* Optional: a way of halving the endpoints. False when there is no halving of this
     * number; else whether the endpoint is in the upper half. */
    bool (*halve)(const struct fabric *fabric, size_t halving, size_t endpoint,
                  bool *upper);
    /* Optional: where the drawing has the vertices. Default: endpoints on a circle. */
    void (*place)(const struct platform *platform, const struct fabric *fabric,
                  struct box box, struct point *points);
};

struct fabric {
    const struct topology_kind *kind;
    uint32_t index;      /* in the platform */
    uint32_t *endpoints; /* vertices */
    size_t count;
    size_t first_switch, end_switch;  /* vertices that this fabric added itself */
    char prefix[PLATFORM_NAME_BYTES]; /* of its switches' names: "node3." */
    void *parameters;
};

size_t topology_kind_count(void);
const struct topology_kind *topology_kind_get(size_t index);

/* Builds the topology at a place over the vertices (copied). The platform owns it. */
bool fabric_build(const struct json_at *at, struct platform *platform,
                  const uint32_t *vertices, size_t count, const char *prefix,
                  struct fabric **fabric, struct error *error);
bool fabric_route(struct platform *platform, const struct fabric *fabric, size_t from,
                  size_t to, struct path *path, struct error *error);
/* True when every endpoint reaches every other inside the fabric; else names two. */
bool fabric_check_connected(const struct json_at *at, struct platform *platform,
                            const struct fabric *fabric, struct error *error);
void fabric_place(const struct platform *platform, const struct fabric *fabric,
                  struct box box, struct point *points);
/* Endpoints on a circle, switches in its middle. */
void fabric_place_circle(const struct fabric *fabric, struct box box, struct point *points);

/* Reads an object of link keys (and "source"); the member of this name must be there. */
bool link_spec_read(const struct json_at *object, const char *key, struct link_spec *spec,
                    struct error *error);
bool link_spec_read_at(const struct json_at *at, struct link_spec *spec,
                       struct error *error);
/* "link" for all, or "links": a list of `count`, one for each of what `each` names. */
bool link_specs_read(const struct json_at *object, size_t count, const char *each,
                     struct link_spec *specs, struct error *error);
/* Reads the link keys of an object that has others too. */
bool link_spec_read_keys(const struct json_at *at, struct link_spec *spec,
                         struct error *error);

bool fabric_add_switch(struct platform *platform, struct fabric *fabric, const char *name,
                       uint32_t *vertex, struct error *error);
/* A duplex link: two directed ones named "a->b" and "b->a". */
bool fabric_add_duplex(struct platform *platform, const struct fabric *fabric, uint32_t a,
                       uint32_t b, const struct link_spec *spec, struct error *error);
/* One direction of it. */
bool fabric_add_one_way(struct platform *platform, const struct fabric *fabric,
                        uint32_t from, uint32_t to, double bandwidth, double latency,
                        struct error *error);
/* A link that no arc uses yet. */
bool platform_add_link(struct platform *platform, const char *name, double bandwidth,
                       double latency, enum link_sharing sharing, uint32_t *link,
                       struct error *error);
/* A way to pass; link may be LINK_NONE, and one link may serve many arcs (a bus). */
bool fabric_add_arc(struct platform *platform, const struct fabric *fabric, uint32_t from,
                    uint32_t to, uint32_t link, struct error *error);
const char *platform_vertex_name(const struct platform *platform, uint32_t vertex);
bool fabric_has_arc(const struct platform *platform, const struct fabric *fabric,
                    uint32_t from, uint32_t to);

/* Appends a link; LINK_NONE appends nothing. */
bool path_add(struct path *path, uint32_t link, struct error *error);
/* Appends the link of the arc between two vertices of the fabric. */
bool path_step(struct platform *platform, const struct fabric *fabric, uint32_t from,
               uint32_t to, struct path *path, struct error *error);

/* A list of extents as JSON, each 1..PLATFORM_MAX_PROCESSORS, at most `maximum` of them. */
bool topology_read_extents(const struct json_at *object, const char *key, size_t maximum,
                           uint64_t *extents, size_t *count, struct error *error);

#endif
