/* A machine as its JSON file describes it: processors, links, and routes between them.
 * SimGrid is not known here. Bandwidths are bytes/s per direction, latencies seconds. */
#ifndef PODSIM_SIM_PLATFORM_H
#define PODSIM_SIM_PLATFORM_H

#include "base/json.h"
#include "sim/processor.h"

#include <stdio.h>

enum {
    PLATFORM_MAX_PROCESSORS = 100000,
    PLATFORM_MAX_LINKS = 4000000 /* directed */
};

/* Stands for the host as an end of a struct platform_pair. */
#define PLATFORM_HOST UINT32_MAX

enum link_sharing {
    LINK_SHARED, /* flows share its bandwidth max-min (one direction, or a bus) */
    LINK_FATPIPE /* every flow has the full bandwidth */
};

struct link {
    const char *name;             /* "ipu0->ipu1"; owned by the platform */
    double bandwidth_bytes_per_s; /* INFINITY: free */
    double latency_s;
    enum link_sharing sharing;
};

struct route {
    const uint32_t *links; /* owned by the platform */
    size_t link_count;
    double latency_s;             /* sum */
    double bandwidth_bytes_per_s; /* smallest */
};

struct platform;

/* By path, or by the name of a shipped platform ("ipu-m2000"), which is looked up in
 * $PODSIM_DATA/platforms or, without that variable, where podsim was built or installed.
 * Everything is checked here, since SimGrid aborts on what it dislikes. */
struct platform *platform_read(const char *path_or_name, struct error *error);
/* Only the path of the file that it would read. The caller frees the text. */
struct text;
bool platform_find(const char *path_or_name, struct text *path, struct error *error);
/* The same from an object in another file. Keeps nothing of it. */
struct platform *platform_parse(const struct json_at *root, struct error *error);
void platform_free(struct platform *platform);

const char *platform_name(const struct platform *platform);
size_t platform_processor_count(const struct platform *platform);
const struct processor *platform_processor(const struct platform *platform, size_t index);
size_t platform_link_count(const struct platform *platform);
const struct link *platform_link(const struct platform *platform, size_t index);

/* The links a message passes, computed when first asked and kept. from == to: an empty
 * route of infinite bandwidth. */
bool platform_route(struct platform *platform, size_t from, size_t to, struct route *route,
                    struct error *error);

/* What the training data of a processor comes over: empty and of infinite bandwidth when
 * the platform has no host. */
bool platform_has_host(const struct platform *platform);
const char *platform_host_name(const struct platform *platform);
bool platform_host_route(struct platform *platform, size_t processor, struct route *route,
                         struct error *error);

/* What goes wrong, and when; empty lists on a machine without trouble. */
struct straggler {
    size_t processor;
    double slowdown;
    double probability; /* that it is slow in a window */
    double window_s;
};
struct degradation { /* of a link, from from_s until until_s; factor 0: it is down */
    size_t link;
    double factor;
    double from_s, until_s;
};
struct failure { /* of a processor */
    size_t processor;
    double at_s, until_s; /* INFINITY: for good */
};
struct trouble {
    uint64_t seed;
    struct straggler *stragglers;
    size_t straggler_count, straggler_capacity;
    struct degradation *degradations;
    size_t degradation_count, degradation_capacity;
    struct failure *failures;
    size_t failure_count, failure_capacity;
};
const struct trouble *platform_trouble(const struct platform *platform);
/* The further factor on a processor's compute time at a moment, >= 1 or as the file says.
 * Depends on the seed, the processor and the window only. */
double platform_straggling(const struct platform *platform, size_t processor,
                           double time_s);

/* The smallest bandwidth between two halves of the processors, in one direction, over the
 * ways of halving that the topology suggests (always: the lower numbers and the upper). */
bool platform_bisection(const struct platform *platform, double *bytes_per_s,
                        struct error *error);
/* The longest route in links, over all pairs or, above 512 processors, over those from the
 * first to all and from 64 to 512 (sampled). */
bool platform_diameter(struct platform *platform, size_t *links, double *latency_s,
                       bool *sampled, struct error *error);

/* What `podsim platform` prints. */
bool platform_describe(struct platform *platform, FILE *out, struct error *error);

/* A SimGrid platform file with the routes of the given pairs, which may repeat;
 * PLATFORM_HOST may be one end. Links have their bandwidth but no latency (the executor
 * charges the latencies, so that SimGrid's sharing is plain max-min); SimGrid's hosts are
 * named after the processors and have speed 1. A route on which every link is free passes
 * one unshared link of 1e18 bytes/s. */
struct platform_pair {
    uint32_t from, to;
};
bool platform_write_xml(struct platform *platform, const struct platform_pair *pairs,
                        size_t pair_count, FILE *out, struct error *error);

/* A drawing; above 64 processors a summary of one. */
bool platform_write_svg(struct platform *platform, FILE *out, struct error *error);

#endif
