/* Routes: found when first asked for, and kept. */
#include "base/checked.h"
#include "sim/platform_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_LINKS = 1 << 14 };

/* Links of the kept routes; a chunk never moves. */
struct chunk {
    struct chunk *next;
    size_t used, capacity;
    uint32_t links[];
};

struct kept {
    uint64_t key; /* from * processors + to + 1; 0: free */
    struct route route;
};

struct search; /* scratch of route_search */

struct route_cache {
    struct chunk *chunks;
    struct kept *table; /* open addressing; the size is a power of two */
    size_t size, count;
    struct search *search;
    struct path path;
};

/* What is known of a vertex during a search; stamp says in which. */
struct reach {
    uint32_t links, arc;
    double width;
    uint32_t stamp;
    bool done;
};

/* A vertex as it was known when it was pushed. */
struct waiting {
    uint32_t links, vertex;
    double width;
};

struct search {
    struct reach *reach; /* of each vertex */
    uint32_t stamp;
    const struct fabric *fabric; /* what was searched last, and from where */
    uint32_t from;
    struct waiting *heap;
    size_t heap_count, heap_capacity;
};

struct route_cache *route_cache_create(void)
{
    return checked_calloc(1, sizeof(struct route_cache));
}

void route_cache_free(struct route_cache *cache)
{
    if (cache == NULL)
        return;
    while (cache->chunks != NULL) {
        struct chunk *next = cache->chunks->next;
        free(cache->chunks);
        cache->chunks = next;
    }
    if (cache->search != NULL) {
        free(cache->search->reach);
        free(cache->search->heap);
        free(cache->search);
    }
    free(cache->path.links);
    free(cache->table);
    free(cache);
}

static struct kept *slot(struct route_cache *cache, uint64_t key)
{
    size_t place = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (cache->size - 1);
    while (cache->table[place].key != 0 && cache->table[place].key != key)
        place = (place + 1) & (cache->size - 1);
    return &cache->table[place];
}

static bool make_room(struct route_cache *cache)
{
    if (4 * (cache->count + 1) <= 3 * cache->size)
        return true;
    struct route_cache grown = *cache;
    grown.size = cache->size == 0 ? 64 : 2 * cache->size;
    grown.table = checked_calloc(grown.size, sizeof(*grown.table));
    if (grown.table == NULL)
        return false;
    for (size_t i = 0; i < cache->size; i++)
        if (cache->table[i].key != 0)
            *slot(&grown, cache->table[i].key) = cache->table[i];
    free(cache->table);
    cache->table = grown.table;
    cache->size = grown.size;
    return true;
}

/* Keeps the links of the path in a chunk. */
static const uint32_t *keep_links(struct route_cache *cache, const struct path *path)
{
    if (cache->chunks == NULL ||
        cache->chunks->capacity - cache->chunks->used < path->count) {
        size_t capacity = path->count > CHUNK_LINKS ? path->count : CHUNK_LINKS;
        struct chunk *chunk = malloc(sizeof(*chunk) + capacity * sizeof(chunk->links[0]));
        if (chunk == NULL)
            return NULL;
        *chunk = (struct chunk){cache->chunks, 0, capacity};
        cache->chunks = chunk;
    }
    uint32_t *links = cache->chunks->links + cache->chunks->used;
    if (path->count > 0)
        memcpy(links, path->links, path->count * sizeof(*links));
    cache->chunks->used += path->count;
    return links;
}

void route_summarize(const struct platform *platform, struct route *route)
{
    route->latency_s = 0;
    route->bandwidth_bytes_per_s = INFINITY;
    for (size_t i = 0; i < route->link_count; i++) {
        const struct link *link = &platform->links[route->links[i]];
        route->latency_s += link->latency_s;
        if (link->bandwidth_bytes_per_s < route->bandwidth_bytes_per_s)
            route->bandwidth_bytes_per_s = link->bandwidth_bytes_per_s;
    }
}

bool route_find(struct platform *platform, size_t from, size_t to, struct path **path,
                struct error *error)
{
    *path = &platform->cache->path;
    (*path)->count = 0;
    return fabric_route(platform, platform->fabrics[0], from, to, *path, error) ||
           error_prefix(error, "platform %s", platform->name);
}

bool platform_route(struct platform *platform, size_t from, size_t to, struct route *route,
                    struct error *error)
{
    struct route_cache *cache = platform->cache;
    struct path *path;
    *route = (struct route){NULL, 0, 0, INFINITY};
    if (from >= platform->processor_count || to >= platform->processor_count)
        return error_set(error, STATUS_BAD_INPUT,
                         "platform %s: no processor %zu; it has %zu, counted from 0",
                         platform->name, from >= platform->processor_count ? from : to,
                         platform->processor_count);
    if (from == to)
        return true;
    if (!make_room(cache))
        return error_memory(error, "routes");
    uint64_t key = (uint64_t)from * platform->processor_count + to + 1;
    struct kept *kept = slot(cache, key);
    if (kept->key == 0) {
        if (!route_find(platform, from, to, &path, error))
            return false;
        struct route found = {keep_links(cache, path), path->count, 0, INFINITY};
        if (found.links == NULL)
            return error_memory(error, "routes");
        route_summarize(platform, &found);
        *kept = (struct kept){key, found};
        cache->count++;
    }
    *route = kept->route;
    return true;
}

bool platform_host_route(struct platform *platform, size_t processor, struct route *route,
                         struct error *error)
{
    *route = (struct route){NULL, 0, 0, INFINITY};
    if (processor >= platform->processor_count)
        return error_set(error, STATUS_BAD_INPUT,
                         "platform %s: no processor %zu; it has %zu, counted from 0",
                         platform->name, processor, platform->processor_count);
    if (platform->host_links == NULL)
        return true;
    route->links = &platform->host_links[processor];
    route->link_count = 1;
    route_summarize(platform, route);
    return true;
}

/* Fewer links before more, then wide before narrow, then low numbers. */
static bool before(const struct waiting *a, const struct waiting *b)
{
    if (a->links != b->links)
        return a->links < b->links;
    if (a->width > b->width || a->width < b->width)
        return a->width > b->width;
    return a->vertex < b->vertex;
}

static bool heap_push(struct search *search, uint32_t vertex)
{
    if (!checked_grow((void **)&search->heap, &search->heap_capacity,
                      search->heap_count + 1, sizeof(*search->heap)))
        return false;
    const struct reach *reach = &search->reach[vertex];
    struct waiting added = {reach->links, vertex, reach->width};
    size_t i = search->heap_count++;
    while (i > 0 && before(&added, &search->heap[(i - 1) / 2])) {
        search->heap[i] = search->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    search->heap[i] = added;
    return true;
}

static uint32_t heap_pop(struct search *search)
{
    struct waiting *heap = search->heap;
    uint32_t top = heap[0].vertex;
    struct waiting last = heap[--search->heap_count];
    size_t i = 0;
    for (size_t child = 1; child < search->heap_count; child = 2 * i + 1) {
        if (child + 1 < search->heap_count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* The scratch, ready to go on from `from`: a search is resumed when the one before had the
 * same beginning, so that all routes from a processor cost one search. */
static struct search *search_begin(struct platform *platform, const struct fabric *fabric,
                                   uint32_t from)
{
    struct search *search = platform->cache->search;
    if (search == NULL) {
        search = checked_calloc(1, sizeof(*search));
        platform->cache->search = search;
        if (search == NULL)
            return NULL;
    }
    if (search->fabric == fabric && search->from == from)
        return search;
    if (search->reach == NULL)
        search->reach = checked_calloc(platform->vertex_count, sizeof(*search->reach));
    if (search->reach == NULL)
        return NULL;
    search->stamp++;
    search->fabric = fabric;
    search->from = from;
    search->heap_count = 0;
    search->reach[from] = (struct reach){0, ARC_NONE, INFINITY, search->stamp, false};
    if (heap_push(search, from))
        return search;
    search->fabric = NULL;
    return NULL;
}

/* Improves what is known of the arc's far end; a better vertex is pushed again, and its
 * older entry is skipped when it comes up. */
static bool relax(const struct platform *platform, struct search *search, uint32_t index)
{
    const struct arc *arc = &platform->arcs[index];
    const struct reach *near = &search->reach[arc->from];
    struct reach *far = &search->reach[arc->to];
    uint32_t links = near->links;
    double width = near->width;
    if (arc->link != LINK_NONE) {
        links++;
        if (platform->links[arc->link].bandwidth_bytes_per_s < width)
            width = platform->links[arc->link].bandwidth_bytes_per_s;
    }
    if (far->stamp == search->stamp &&
        (far->done || far->links < links || (far->links == links && far->width >= width)))
        return true;
    *far = (struct reach){links, index, width, search->stamp, false};
    return heap_push(search, arc->to);
}

static bool collect(const struct platform *platform, const struct search *search,
                    uint32_t from, uint32_t to, struct path *path, struct error *error)
{
    size_t first = path->count;
    for (uint32_t v = to; v != from; v = platform->arcs[search->reach[v].arc].from)
        if (!path_add(path, platform->arcs[search->reach[v].arc].link, error))
            return false;
    for (size_t i = first, j = path->count; i + 1 < j; i++, j--) {
        uint32_t swap = path->links[i];
        path->links[i] = path->links[j - 1];
        path->links[j - 1] = swap;
    }
    return true;
}

static bool is_settled(const struct search *search, uint32_t vertex)
{
    const struct reach *reach = &search->reach[vertex];
    return reach->stamp == search->stamp && reach->done;
}

static bool settle_next(const struct platform *platform, struct search *search)
{
    uint32_t vertex = heap_pop(search);
    if (search->reach[vertex].done)
        return true;
    search->reach[vertex].done = true;
    for (uint32_t i = platform->vertices[vertex].first_out; i != ARC_NONE;
         i = platform->arcs[i].next_out)
        if (platform->arcs[i].fabric == search->fabric->index &&
            !relax(platform, search, i))
            return false;
    return true;
}

bool route_search(struct platform *platform, const struct fabric *fabric, uint32_t from,
                  uint32_t to, struct path *path, struct error *error)
{
    struct search *search = search_begin(platform, fabric, from);
    if (search == NULL)
        return error_memory(error, "routes");
    while (!is_settled(search, to) && search->heap_count > 0)
        if (!settle_next(platform, search)) {
            search->fabric = NULL; /* half done: not to be resumed */
            return error_memory(error, "routes");
        }
    if (is_settled(search, to))
        return collect(platform, search, from, to, path, error);
    return error_set(error, STATUS_BAD_INPUT, "there is no way from %s to %s",
                     platform->vertices[from].name, platform->vertices[to].name);
}
