/* Arithmetic and memory traffic at the same time: the slower of the two. Work whose bytes
 * fit a cache runs at the cache's bandwidth. */
#include "base/checked.h"
#include "sim/platform_keys.h"
#include "sim/processors/kinds.h"
#include "sim/rate.h"

#include <stdlib.h>

enum { MAX_LEVELS = 8 };

struct level {
    uint64_t bytes;
    double bandwidth_bytes_per_s;
};

struct roofline {
    struct rate rate;
    struct level levels[MAX_LEVELS]; /* smallest first; the last is the memory */
    size_t level_count;
};

static const char *const keys[] = {"peak_flops_per_s", "efficiency", "overhead_s",
                                   "memory_bandwidth_bytes_per_s", "caches"};

static bool read_cache(const struct json_at *at, struct roofline *roofline,
                       struct error *error)
{
    struct level *level = &roofline->levels[roofline->level_count];
    struct json_at bytes;
    if (!platform_check_keys(at, &platform_memory_keys, NULL, 0, error) ||
        !json_member(at, "bytes", &bytes, error) ||
        !json_u64(&bytes, 1, UINT64_MAX, &level->bytes, error) ||
        !platform_member_positive(at, "bandwidth_bytes_per_s", 1e21,
                                  &level->bandwidth_bytes_per_s, error))
        return false;
    if (roofline->level_count > 0 && level->bytes <= level[-1].bytes)
        return json_fail(&bytes, error, "must be above the cache before, %llu",
                         (unsigned long long)level[-1].bytes);
    roofline->level_count++;
    return true;
}

static bool read_levels(const struct json_at *at, struct roofline *roofline,
                        uint64_t memory_bytes, struct error *error)
{
    struct json_at caches, cache;
    if (json_optional(at, "caches", &caches)) {
        size_t count = json_length(&caches);
        if (!json_is_array(&caches) || count > MAX_LEVELS - 1)
            return json_fail(&caches, error, "must be a list of at most %d caches",
                             MAX_LEVELS - 1);
        for (size_t i = 0; i < count; i++)
            if (!json_element(&caches, i, &cache) || !read_cache(&cache, roofline, error))
                return false;
    }
    struct level *memory = &roofline->levels[roofline->level_count++];
    memory->bytes = memory_bytes;
    return platform_member_positive(at, "memory_bandwidth_bytes_per_s", 1e21,
                                    &memory->bandwidth_bytes_per_s, error);
}

static bool roofline_read(const struct json_at *at, struct processor *processor,
                          struct error *error)
{
    struct roofline *roofline = checked_calloc(1, sizeof(*roofline));
    if (roofline == NULL)
        return error_memory(error, "processor");
    processor->parameters = roofline;
    return rate_read(at, &roofline->rate, error) &&
           read_levels(at, roofline, processor->memory_bytes, error);
}

static void roofline_release(void *parameters)
{
    struct roofline *roofline = parameters;
    rate_release(&roofline->rate);
    free(roofline);
}

static bool roofline_seconds(const struct processor *processor, const struct work *work,
                             double *seconds, struct error *error)
{
    const struct roofline *roofline = processor->parameters;
    double compute_s = 0;
    if (!rate_seconds(&roofline->rate, work, 1, &compute_s, error))
        return false;
    size_t level = 0;
    while (level + 1 < roofline->level_count && work->bytes > roofline->levels[level].bytes)
        level++;
    double memory_s = (double)work->bytes / roofline->levels[level].bandwidth_bytes_per_s;
    *seconds = roofline->rate.overhead_s + (compute_s > memory_s ? compute_s : memory_s);
    return true;
}

static double roofline_peak(const struct processor *processor, enum number_format format)
{
    const struct roofline *roofline = processor->parameters;
    return roofline->rate.peak_flops_per_s[format];
}

const struct processor_kind processor_roofline = {
    .name = "roofline",
    .summary = "the slower of arithmetic and memory, with caches; transfers overlap",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .overlap = true,
    .read = roofline_read,
    .release = roofline_release,
    .seconds = roofline_seconds,
    .peak_flops_per_s = roofline_peak,
};
