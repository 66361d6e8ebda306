/* For tests of the simulation: machines and models as JSON text. */
#ifndef PODSIM_TESTS_MACHINE_TEXT_H
#define PODSIM_TESTS_MACHINE_TEXT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A few texts at once, for one printf; the next but seven takes the place of the first. */
static inline char *machine_buffer(void)
{
    static char buffers[8][16384];
    static size_t next;
    next = (next + 1) % 8;
    return buffers[next];
}

struct text_link {
    double bandwidth_bytes_per_s, latency_s;
};

static inline const char *link_text(char text[256], struct text_link link)
{
    char bandwidth[64] = "\"infinite\"";
    if (!isinf(link.bandwidth_bytes_per_s))
        snprintf(bandwidth, sizeof bandwidth, "%.17g", link.bandwidth_bytes_per_s);
    snprintf(text, 256, "{\"bandwidth_bytes_per_s\": %s, \"latency_s\": %.17g}", bandwidth,
             link.latency_s);
    return text;
}

/* Processors p0, p1 ... that take measured seconds: `forward_s` and `backward_s` for each
 * linear layer, next to nothing for all else. */
static inline const char *table_machine(size_t processors, const char *topology,
                                        bool overlap, double forward_s, double backward_s,
                                        struct text_link link)
{
    char *text = machine_buffer(), local[256];
    snprintf(text, 4096,
             "{\"name\": \"measured\", \"processors\": {\"name\": \"p\", \"count\": %zu, "
             "\"kind\": \"table\", \"memory_bytes\": 9007199254740992, \"overlap\": %s, "
             "\"kinds\": {\"linear\": {\"forward\": %.17g, \"backward\": %.17g, "
             "\"backward_input\": %.17g, \"backward_weight\": %.17g}, "
             "\"loss\": {\"loss\": 1e-30}, \"update\": {\"update\": 1e-30}}}, "
             "\"topology\": {\"kind\": \"%s\", \"link\": %s}}",
             processors, overlap ? "true" : "false", forward_s, backward_s, backward_s / 2,
             backward_s / 2, topology, link_text(local, link));
    return text;
}

/* Processors that take time by FLOPs and bytes. */
static inline const char *roofline_machine(size_t processors, const char *topology,
                                           bool overlap, uint64_t memory_bytes,
                                           struct text_link link)
{
    char *text = machine_buffer(), local[256];
    snprintf(
        text, 4096,
        "{\"name\": \"round\", \"processors\": {\"name\": \"p\", \"count\": %zu, "
        "\"kind\": \"roofline\", \"peak_flops_per_s\": 1e9, \"memory_bytes\": %llu, "
        "\"memory_bandwidth_bytes_per_s\": 3e8, \"overhead_s\": 1e-6, \"overlap\": %s%s}, "
        "\"topology\": {\"kind\": \"%s\", \"link\": %s}}",
        processors, (unsigned long long)memory_bytes, overlap ? "true" : "false",
        overlap ? "" : ", \"sync_s\": 2e-7", topology, link_text(local, link));
    return text;
}

/* A block of one linear layer for each of the widths, on an input of width `input`. */
static inline const char *linear_model(uint64_t input, const uint64_t *widths, size_t count)
{
    char *text = machine_buffer();
    size_t used = (size_t)snprintf(text, 128, "{\"input\": [%llu], \"blocks\": [",
                                   (unsigned long long)input);
    for (size_t i = 0; i < count; i++)
        used +=
            (size_t)snprintf(text + used, 256,
                             "%s{\"name\": \"b%zu\", \"layers\": [{\"kind\": \"linear\", "
                             "\"out\": %llu}]}",
                             i > 0 ? ", " : "", i, (unsigned long long)widths[i]);
    snprintf(text + used, 8, "]}");
    return text;
}

/* As many blocks of one linear layer of the same width. */
static inline const char *even_model(uint64_t width, size_t blocks)
{
    uint64_t widths[64];
    for (size_t i = 0; i < blocks && i < 64; i++)
        widths[i] = width;
    return linear_model(width, widths, blocks);
}

#endif
