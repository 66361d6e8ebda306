/* A made-up run for the tests of the traces: awkward names, several messages under way on
 * one edge, empty slices, byte counts above 2^32 and 2^53. */
#ifndef PODSIM_TESTS_TRACE_SAMPLE_H
#define PODSIM_TESTS_TRACE_SAMPLE_H

#include "base/random.h"
#include "traces/event.h"

#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SAMPLE_PROCESSORS = 5,
    SAMPLE_EDGES = 4,
    SAMPLE_LINKS = 4,
    SAMPLE_LAYERS = 3,
    SAMPLE_EVENTS = 4000
};

static const struct trace_processor sample_processors[SAMPLE_PROCESSORS] = {
    {"ipu0", 1U << 20},
    {"a \"quoted\", name", 0},
    {"two\nlines\r\n\t", 0},
    {"back\\slash \x01 <&>", 0},
    {"", UINT64_MAX}};
static const char *const sample_layers[SAMPLE_LAYERS] = {"new\nline", "fc,\"x\"",
                                                         "caf\xc3\xa9"};
static const struct trace_link sample_links[SAMPLE_LINKS] = {
    {"a->b", 1e9}, {"bus, shared", 2.5e10}, {"free", INFINITY}, {"idle \"one\"", 1e3}};
static const uint32_t sample_routes[] = {0, 1, 2};
static const struct trace_edge sample_edges[SAMPLE_EDGES] = {
    {"ipu0 -> b activations", 0, 1, sample_routes, 2},
    {"b -> ipu0 \"gradients\"", 1, 0, sample_routes, 1},
    {"2 -> 3", 2, 3, sample_routes + 1, 2},
    {"4 to itself", 4, 4, sample_routes, 0}};
static const struct trace_header sample_header = {.method = "a \"method\"",
                                                  .processors = sample_processors,
                                                  .processor_count = SAMPLE_PROCESSORS,
                                                  .edges = sample_edges,
                                                  .edge_count = SAMPLE_EDGES,
                                                  .links = sample_links,
                                                  .link_count = SAMPLE_LINKS,
                                                  .layer_names = sample_layers,
                                                  .layer_count = SAMPLE_LAYERS,
                                                  .trace_steps = 3};

struct sample {
    struct event events[SAMPLE_EVENTS];
    double total_s;
    /* the generator's state */
    uint64_t seed, draws;
    double free_s[SAMPLE_PROCESSORS][3]; /* two streams and the waits */
    uint64_t memory[SAMPLE_PROCESSORS][MEMORY_CATEGORIES];
};

static uint64_t sample_below(struct sample *sample, uint64_t bound)
{
    struct random_key key = {.seed = sample->seed, .purpose = RANDOM_TEST};
    return random_u64(key, sample->draws++) % bound;
}

/* Mostly microseconds with many digits; one in eight is empty. */
static double sample_duration(struct sample *sample)
{
    struct random_key key = {.seed = sample->seed, .purpose = RANDOM_TEST};
    double uniform = random_uniform(key, sample->draws++);
    return sample_below(sample, 8) == 0 ? 0 : uniform * 3e-6;
}

static uint64_t sample_bytes(struct sample *sample)
{
    static const uint64_t large[4] = {0, 5368709121ULL, 9007199254740993ULL, 1};
    uint64_t which = sample_below(sample, 40);
    return which < 4 ? large[which] : sample_below(sample, 1000000);
}

static void sample_slice(struct sample *sample, struct event *event, unsigned line)
{
    double *free_s = &sample->free_s[event->processor][line];
    *free_s += sample_below(sample, 3) == 0 ? sample_duration(sample) : 0;
    event->start_s = *free_s;
    event->end_s = *free_s += sample_duration(sample);
}

static void sample_memory(struct sample *sample, struct event *event)
{
    uint64_t *memory = sample->memory[event->processor];
    event->category = (enum memory_category)sample_below(sample, MEMORY_CATEGORIES);
    memory[event->category] = event->bytes = sample_bytes(sample);
    for (size_t i = 0; i < MEMORY_CATEGORIES; i++)
        event->memory_after_bytes += memory[i];
    event->start_s = event->end_s = sample->free_s[event->processor][0];
}

static void sample_event(struct sample *sample, struct event *event)
{
    static const char *const names[4] = {"forward", "backward", "all-reduce",
                                         "odd \"op\",\n"};
    static const enum event_kind kinds[8] = {EVENT_COMPUTE,  EVENT_COMPUTE,  EVENT_COMPUTE,
                                             EVENT_TRANSFER, EVENT_TRANSFER, EVENT_WAIT,
                                             EVENT_MEMORY,   EVENT_METRIC};
    *event = (struct event){.kind = kinds[sample_below(sample, 8)],
                            .name = names[sample_below(sample, 4)],
                            .processor = (uint32_t)sample_below(sample, SAMPLE_PROCESSORS),
                            .layer = (uint32_t)sample_below(sample, SAMPLE_LAYERS + 1),
                            .edge = EVENT_NONE,
                            .micro_batch = sample_below(sample, 9)};
    if (event->layer == SAMPLE_LAYERS)
        event->layer = EVENT_NONE;
    if (event->kind == EVENT_COMPUTE) {
        event->stream = (uint32_t)sample_below(sample, 4) == 0;
        event->flops = sample_bytes(sample);
        sample_slice(sample, event, event->stream);
    } else if (event->kind == EVENT_WAIT) {
        sample_slice(sample, event, 2);
    } else if (event->kind == EVENT_TRANSFER) {
        event->edge = (uint32_t)sample_below(sample, SAMPLE_EDGES);
        event->processor = sample_edges[event->edge].from;
        event->name = sample_below(sample, 2) == 0 ? NULL : "activations";
        event->bytes = sample_bytes(sample);
        event->start_s = sample->free_s[event->processor][0];
        event->end_s = event->start_s + sample_duration(sample);
    } else {
        event->value = (double)sample_below(sample, 1000) / 7;
        event->start_s = event->end_s = sample->free_s[event->processor][0];
        if (event->kind == EVENT_MEMORY)
            sample_memory(sample, event);
    }
}

/* In the order of arrival among equal ends: `step` holds it until it is set. */
static int sample_compare(const void *a, const void *b)
{
    const struct event *left = a, *right = b;
    if (left->end_s != right->end_s)
        return left->end_s < right->end_s ? -1 : 1;
    return left->step < right->step ? -1 : left->step > right->step;
}

/* The caller frees. Steps 0 to 4, by place in the stream. */
static struct sample *sample_create(uint64_t seed)
{
    struct sample *sample = calloc(1, sizeof(*sample));
    CU_ASSERT_PTR_NOT_NULL_FATAL(sample);
    sample->seed = seed;
    for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
        sample_event(sample, &sample->events[i]);
        sample->events[i].step = i;
    }
    qsort(sample->events, SAMPLE_EVENTS, sizeof(struct event), sample_compare);
    for (size_t i = 0; i < SAMPLE_EVENTS; i++)
        sample->events[i].step = i * 5 / SAMPLE_EVENTS;
    sample->total_s = sample->events[SAMPLE_EVENTS - 1].end_s + 1e-6;
    return sample;
}

static const struct trace_format *sample_format(const char *name)
{
    for (size_t i = 0; i < trace_format_count(); i++)
        if (strcmp(trace_format_get(i)->name, name) == 0)
            return trace_format_get(i);
    CU_FAIL_FATAL("no such trace format");
    return NULL;
}

/* Feeds the events; false at the first failure. */
static bool sample_feed(struct event_sink *sink, const struct event *events, size_t count,
                        double total_s, struct error *error)
{
    for (size_t i = 0; i < count; i++)
        if (!sink->event(sink, &events[i], error))
            return false;
    return sink->finish(sink, total_s, error);
}

/* Writes a file of the format and reads it back; the caller frees. */
static char *sample_write(const char *format, const struct trace_header *header,
                          const struct event *events, size_t count, double total_s)
{
    struct error error = {0};
    char path[] = "/tmp/podsim-traces-XXXXXX";
    int descriptor = mkstemp(path);
    CU_ASSERT_FATAL(descriptor >= 0);
    struct event_sink *sink = sample_format(format)->open(path, header, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sink);
    CU_ASSERT_TRUE(sample_feed(sink, events, count, total_s, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_OK);
    sink->free(sink);
    off_t bytes = lseek(descriptor, 0, SEEK_END);
    char *text = bytes < 0 ? NULL : calloc((size_t)bytes + 1, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_EQUAL(pread(descriptor, text, (size_t)bytes, 0), bytes);
    close(descriptor);
    unlink(path);
    return text;
}

#endif
