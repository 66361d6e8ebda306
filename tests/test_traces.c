/* The timeline formats (Chrome JSON, Paje), read back and held against the events. */
#include "tests/check.h"
#include "tests/trace_sample.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static double number_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

static uint64_t nanoseconds_of(const cJSON *object, const char *key)
{
    return (uint64_t)llround(number_of(object, key) * 1000);
}

static cJSON *write_chrome(const struct trace_header *header, const struct event *events,
                           size_t count, double total_s, char **text)
{
    *text = sample_write("chrome", header, events, count, total_s);
    const char *end = NULL;
    cJSON *tree = cJSON_ParseWithOpts(*text, &end, true);
    CU_ASSERT_PTR_NOT_NULL_FATAL(tree);
    return tree;
}

static const cJSON *elements(const cJSON *tree)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(tree, "traceEvents");
    CU_ASSERT_FATAL(cJSON_IsArray(list));
    return list->child;
}

static const cJSON *next_phase(const cJSON *at, const char *phase)
{
    while (at != NULL && strcmp(text_of(at, "ph"), phase) != 0)
        at = at->next;
    return at;
}

static bool is_slice(const struct event *event)
{
    return event->kind == EVENT_COMPUTE || event->kind == EVENT_TRANSFER ||
           event->kind == EVENT_WAIT;
}

static bool is_kept(const struct event *event)
{
    return event->step < sample_header.trace_steps;
}

static void check_slice(const cJSON *slice, const struct event *event)
{
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(slice, "args");
    const char *name = event->name != NULL ? event->name : sample_edges[event->edge].name;
    CU_ASSERT_EQUAL(number_of(slice, "pid"), event->processor + 1.0);
    CU_ASSERT_EQUAL(nanoseconds_of(slice, "ts"), event_nanoseconds(event->start_s));
    CU_ASSERT_EQUAL(nanoseconds_of(slice, "dur"),
                    event_nanoseconds(event->end_s) - event_nanoseconds(event->start_s));
    CU_ASSERT_STRING_EQUAL(text_of(slice, "cat"), event_kind_name(event->kind));
    CU_ASSERT_EQUAL(strncmp(text_of(slice, "name"), name, strlen(name)), 0);
    CU_ASSERT_EQUAL(number_of(arguments, "step"), (double)event->step);
    CU_ASSERT_EQUAL(number_of(arguments, "micro_batch"), (double)event->micro_batch);
    CU_ASSERT_STRING_EQUAL(text_of(arguments, "layer"),
                           event->layer == EVENT_NONE ? "" : sample_layers[event->layer]);
    if (event->kind == EVENT_COMPUTE)
        CU_ASSERT_EQUAL(number_of(arguments, "flops"), (double)event->flops);
    if (event->kind == EVENT_TRANSFER)
        CU_ASSERT_EQUAL(number_of(arguments, "bytes"), (double)event->bytes);
}

/* Every kept slice once, in order; and nothing else. */
static void chrome_has_every_slice(void)
{
    struct sample *sample = sample_create(1);
    char *text;
    cJSON *tree =
        write_chrome(&sample_header, sample->events, SAMPLE_EVENTS, sample->total_s, &text);
    CU_ASSERT_STRING_EQUAL(text_of(tree, "displayTimeUnit"), "ns");
    const cJSON *at = elements(tree);
    size_t slices = 0;
    for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
        if (!is_slice(&sample->events[i]) || !is_kept(&sample->events[i]))
            continue;
        at = next_phase(at, "X");
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        check_slice(at, &sample->events[i]);
        at = at->next;
        slices++;
    }
    CU_ASSERT_PTR_NULL(next_phase(at, "X"));
    CU_ASSERT(slices > SAMPLE_EVENTS / 3);
    cJSON_Delete(tree);
    free(text);
    free(sample);
}

struct interval {
    uint32_t pid, tid;
    uint64_t start_ns, end_ns;
};

static int compare_intervals(const void *a, const void *b)
{
    const struct interval *l = a, *r = b;
    if (l->tid != r->tid)
        return l->tid < r->tid ? -1 : 1;
    if (l->start_ns != r->start_ns)
        return l->start_ns < r->start_ns ? -1 : 1;
    return l->end_ns < r->end_ns ? -1 : l->end_ns > r->end_ns;
}

/* Slices of one tid neither overlap nor belong to two processors. */
static void check_no_overlap(const cJSON *at)
{
    struct interval *intervals = calloc(SAMPLE_EVENTS, sizeof(*intervals));
    CU_ASSERT_PTR_NOT_NULL_FATAL(intervals);
    size_t count = 0;
    for (at = next_phase(at, "X"); at != NULL; at = next_phase(at->next, "X")) {
        uint64_t start = nanoseconds_of(at, "ts");
        intervals[count++] = (struct interval){(uint32_t)number_of(at, "pid"),
                                               (uint32_t)number_of(at, "tid"), start,
                                               start + nanoseconds_of(at, "dur")};
    }
    qsort(intervals, count, sizeof(*intervals), compare_intervals);
    for (size_t i = 1; i < count; i++)
        if (intervals[i].tid == intervals[i - 1].tid) {
            CU_ASSERT_EQUAL(intervals[i].pid, intervals[i - 1].pid);
            CU_ASSERT(intervals[i].start_ns >= intervals[i - 1].end_ns);
        }
    free(intervals);
}

static void chrome_never_overlaps(void)
{
    for (uint64_t seed = 2; seed < 8; seed++) {
        struct sample *sample = sample_create(seed);
        char *text;
        cJSON *tree = write_chrome(&sample_header, sample->events, SAMPLE_EVENTS,
                                   sample->total_s, &text);
        check_no_overlap(elements(tree));
        cJSON_Delete(tree);
        free(text);
        free(sample);
    }
}

/* The name that a thread is given, "" when none. */
static const char *thread_name(const cJSON *at, double tid)
{
    for (at = next_phase(at, "M"); at != NULL; at = next_phase(at->next, "M"))
        if (number_of(at, "tid") == tid && strcmp(text_of(at, "name"), "thread_name") == 0)
            return text_of(cJSON_GetObjectItemCaseSensitive(at, "args"), "name");
    return "";
}

static void check_process_names(const cJSON *first)
{
    size_t processes = 0;
    for (const cJSON *at = next_phase(first, "M"); at != NULL;
         at = next_phase(at->next, "M")) {
        if (strcmp(text_of(at, "name"), "process_name") != 0)
            continue;
        const char *name = text_of(cJSON_GetObjectItemCaseSensitive(at, "args"), "name");
        CU_ASSERT_STRING_EQUAL(name, sample_processors[processes].name);
        CU_ASSERT_EQUAL(number_of(at, "pid"), (double)++processes);
    }
    CU_ASSERT_EQUAL(processes, SAMPLE_PROCESSORS);
}

/* One track a resource, named by it; further lanes only for what really overlaps. */
static void chrome_names_tracks(void)
{
    struct sample *sample = sample_create(3);
    char *text;
    cJSON *tree =
        write_chrome(&sample_header, sample->events, SAMPLE_EVENTS, sample->total_s, &text);
    const cJSON *first = elements(tree), *at = first;
    check_process_names(first);
    size_t lanes = 0;
    for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
        const struct event *event = &sample->events[i];
        if (!is_slice(event) || !is_kept(event))
            continue;
        at = next_phase(at, "X");
        const char *name = thread_name(first, number_of(at, "tid"));
        if (event->kind == EVENT_WAIT)
            CU_ASSERT_STRING_EQUAL(name, "waits");
        if (event->kind == EVENT_COMPUTE)
            CU_ASSERT_STRING_EQUAL(name, event->stream == 0 ? "compute" : "stream 1");
        if (event->kind == EVENT_TRANSFER) {
            const char *edge = sample_edges[event->edge].name;
            CU_ASSERT_EQUAL(strncmp(name, edge, strlen(edge)), 0);
            lanes += name[strlen(edge)] != '\0';
        }
        at = at->next;
    }
    CU_ASSERT(lanes > 0); /* the sample does have messages side by side */
    cJSON_Delete(tree);
    free(text);
    free(sample);
}

/* Each transfer has one arrow, from its own slice to its receiver. */
static void chrome_links_transfers(void)
{
    struct sample *sample = sample_create(4);
    char *text;
    cJSON *tree =
        write_chrome(&sample_header, sample->events, SAMPLE_EVENTS, sample->total_s, &text);
    const cJSON *tail = elements(tree), *head = tail;
    size_t arrows = 0;
    for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
        const struct event *event = &sample->events[i];
        if (event->kind != EVENT_TRANSFER || !is_kept(event))
            continue;
        tail = next_phase(tail, "s");
        head = next_phase(head, "f");
        CU_ASSERT_FATAL(tail != NULL && head != NULL);
        CU_ASSERT_EQUAL(number_of(tail, "id"), (double)arrows);
        CU_ASSERT_EQUAL(number_of(head, "id"), (double)arrows);
        CU_ASSERT_EQUAL(number_of(tail, "pid"), event->processor + 1.0);
        CU_ASSERT_EQUAL(number_of(head, "pid"), sample_edges[event->edge].to + 1.0);
        CU_ASSERT_EQUAL(nanoseconds_of(tail, "ts"), event_nanoseconds(event->start_s));
        CU_ASSERT_EQUAL(nanoseconds_of(head, "ts"), event_nanoseconds(event->end_s));
        tail = tail->next;
        head = head->next;
        arrows++;
    }
    CU_ASSERT(arrows > 0);
    CU_ASSERT_PTR_NULL(next_phase(tail, "s"));
    cJSON_Delete(tree);
    free(text);
    free(sample);
}

/* The counters show every category as the last event of it left it. */
static void chrome_counts_memory(void)
{
    struct sample *sample = sample_create(5);
    char *text;
    cJSON *tree =
        write_chrome(&sample_header, sample->events, SAMPLE_EVENTS, sample->total_s, &text);
    const cJSON *at = elements(tree);
    uint64_t bytes[SAMPLE_PROCESSORS][MEMORY_CATEGORIES] = {{0}};
    for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
        const struct event *event = &sample->events[i];
        if ((event->kind != EVENT_MEMORY && event->kind != EVENT_METRIC) || !is_kept(event))
            continue;
        at = next_phase(at, "C");
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(at, "args");
        at = at->next;
        if (event->kind == EVENT_METRIC) {
            CU_ASSERT_EQUAL(number_of(arguments, "value"), event->value);
            continue;
        }
        bytes[event->processor][event->category] = event->bytes;
        for (unsigned j = 0; j < MEMORY_CATEGORIES; j++)
            CU_ASSERT_EQUAL(
                number_of(arguments, memory_category_name((enum memory_category)j)),
                (double)bytes[event->processor][j]);
        at = next_phase(at, "C");
        CU_ASSERT_EQUAL(number_of(cJSON_GetObjectItemCaseSensitive(at, "args"), "all"),
                        (double)event->memory_after_bytes);
        at = at->next;
    }
    CU_ASSERT_PTR_NULL(next_phase(at, "C"));
    cJSON_Delete(tree);
    free(text);
    free(sample);
}

/* Digits that doubles cannot hold stand in the file all the same. */
static void chrome_keeps_large_counts(void)
{
    const struct event events[] = {
        {.kind = EVENT_TRANSFER, .layer = EVENT_NONE, .bytes = 9007199254740993ULL},
        {.kind = EVENT_COMPUTE,
         .name = "forward",
         .layer = 0,
         .edge = EVENT_NONE,
         .flops = UINT64_MAX},
        {.kind = EVENT_MEMORY,
         .layer = EVENT_NONE,
         .edge = EVENT_NONE,
         .bytes = 5368709121,
         .memory_after_bytes = 18446744073709551557ULL}};
    char *text = sample_write("chrome", &sample_header, events, 3, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"bytes\":9007199254740993}"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"flops\":18446744073709551615}"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"weights\":5368709121,"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"all\":18446744073709551557}"));
    free(text);
}

/* Ends and starts that differ by the last bits of a double touch; by more, they overlap. */
static void chrome_tells_rounding_from_overlap(void)
{
    /* The same instant added up in two ways, with a nanosecond's boundary in between. */
    double later = 0.0000000015, earlier = nextafter(later, 0);
    struct event events[] = {{.kind = EVENT_COMPUTE,
                              .name = "a",
                              .layer = EVENT_NONE,
                              .edge = EVENT_NONE,
                              .start_s = 0,
                              .end_s = later},
                             {.kind = EVENT_COMPUTE,
                              .name = "b",
                              .layer = EVENT_NONE,
                              .edge = EVENT_NONE,
                              .start_s = earlier,
                              .end_s = 5e-9},
                             {.kind = EVENT_COMPUTE,
                              .name = "c",
                              .layer = EVENT_NONE,
                              .edge = EVENT_NONE,
                              .start_s = 4.99e-9,
                              .end_s = 6e-9}};
    char *text;
    CU_ASSERT(event_nanoseconds(later) > event_nanoseconds(earlier));
    cJSON *tree = write_chrome(&sample_header, events, 3, 1, &text);
    const cJSON *a = next_phase(elements(tree), "X"), *b = next_phase(a->next, "X");
    const cJSON *c = next_phase(b->next, "X");
    CU_ASSERT_EQUAL(number_of(a, "tid"), number_of(b, "tid"));
    CU_ASSERT_EQUAL(nanoseconds_of(b, "ts"),
                    nanoseconds_of(a, "ts") + nanoseconds_of(a, "dur"));
    CU_ASSERT_EQUAL(nanoseconds_of(b, "ts") + nanoseconds_of(b, "dur"), 5);
    CU_ASSERT_NOT_EQUAL(number_of(b, "tid"), number_of(c, "tid"));
    CU_ASSERT_STRING_EQUAL(thread_name(elements(tree), number_of(c, "tid")), "compute (2)");
    cJSON_Delete(tree);
    free(text);
}

static void chrome_writes_odd_values(void)
{
    struct event events[] = {{.kind = EVENT_METRIC,
                              .name = "loss",
                              .layer = EVENT_NONE,
                              .edge = EVENT_NONE,
                              .value = NAN},
                             {.kind = EVENT_METRIC,
                              .name = "bad \xff\xc0\x80 utf",
                              .layer = EVENT_NONE,
                              .edge = EVENT_NONE,
                              .value = -INFINITY}};
    char *text;
    cJSON *tree = write_chrome(&sample_header, events, 2, 0, &text);
    const cJSON *nan = next_phase(elements(tree), "i"), *inf = next_phase(nan->next, "i");
    CU_ASSERT_STRING_EQUAL(text_of(cJSON_GetObjectItemCaseSensitive(nan, "args"), "value"),
                           "nan");
    CU_ASSERT_STRING_EQUAL(text_of(cJSON_GetObjectItemCaseSensitive(inf, "args"), "value"),
                           "-inf");
    CU_ASSERT_STRING_EQUAL(text_of(inf, "name"),
                           "bad \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd utf");
    cJSON_Delete(tree);
    free(text);
}

static void chrome_without_events(void)
{
    static const struct trace_header nothing = {.method = "none"};
    char *text;
    cJSON *tree = write_chrome(&nothing, NULL, 0, 0, &text);
    CU_ASSERT_PTR_NULL(elements(tree));
    cJSON_Delete(tree);
    free(text);
    tree = write_chrome(&sample_header, NULL, 0, 0, &text);
    CU_ASSERT_PTR_NULL(next_phase(elements(tree), "X"));
    cJSON_Delete(tree);
    free(text);
}

/* Lines in order of time, states of a track closed before the next begins, each link with
 * both ends, memory as it was. */
static void paje_is_ordered(void)
{
    struct sample *sample = sample_create(6);
    char *text = sample_write("paje", &sample_header, sample->events, SAMPLE_EVENTS,
                              sample->total_s);
    uint64_t last_ns = 0;
    size_t pushes = 0, pops = 0, starts = 0, ends = 0, variables = 0;
    bool open[64] = {false};
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        unsigned kind, fraction, track;
        uint64_t seconds;
        if (sscanf(line, "%u %" SCNu64 ".%9u", &kind, &seconds, &fraction) != 3 || kind < 5)
            continue;
        uint64_t now_ns = seconds * 1000000000 + fraction;
        CU_ASSERT(now_ns >= last_ns);
        last_ns = now_ns;
        variables += kind == 7;
        starts += kind == 10;
        ends += kind == 11;
        if (kind != 8 && kind != 9)
            continue;
        CU_ASSERT_EQUAL_FATAL(sscanf(line, "%*u %*s S t%u", &track), 1);
        CU_ASSERT_FATAL(track < 64);
        CU_ASSERT_EQUAL(open[track], kind == 9);
        open[track] = kind == 8;
        pushes += kind == 8;
        pops += kind == 9;
    }
    size_t slices = 0, transfers = 0, memory = 0;
    for (size_t i = 0; i < SAMPLE_EVENTS; i++)
        if (is_kept(&sample->events[i])) {
            slices += is_slice(&sample->events[i]);
            transfers += sample->events[i].kind == EVENT_TRANSFER;
            memory += sample->events[i].kind == EVENT_MEMORY;
        }
    CU_ASSERT(pushes == slices && pops == slices);
    CU_ASSERT(starts == transfers && ends == transfers && variables == memory);
    free(text);
    free(sample);
}

static const struct check checks[] = {
    {"trace.json has every slice, to the nanosecond", chrome_has_every_slice},
    {"trace.json never overlaps slices on a track", chrome_never_overlaps},
    {"trace.json names processors and tracks", chrome_names_tracks},
    {"trace.json links transfers to receivers", chrome_links_transfers},
    {"trace.json counts memory by category", chrome_counts_memory},
    {"trace.json keeps counts above 2^53", chrome_keeps_large_counts},
    {"trace.json tells rounding from overlap", chrome_tells_rounding_from_overlap},
    {"trace.json with NaN, infinity and broken UTF-8", chrome_writes_odd_values},
    {"trace.json without events", chrome_without_events},
    {"trace.paje is ordered and balanced", paje_is_ordered},
};

CHECK_MAIN("traces", checks)
