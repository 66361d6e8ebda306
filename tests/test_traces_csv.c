/* The CSV files, read back by a reader of RFC 4180 and held against the events. */
#include "tests/check.h"
#include "tests/trace_sample.h"

enum { MOST_FIELDS = 20 };

/* Takes one record off *at and unquotes it in place; the number of fields, 0 at the end. */
static size_t read_record(char **at, char *fields[MOST_FIELDS])
{
    char *in = *at, *out = in;
    size_t count = 0;
    if (*in == '\0')
        return 0;
    for (bool more = true; more;) {
        CU_ASSERT_FATAL(count < MOST_FIELDS);
        fields[count++] = out;
        bool quoted = *in == '"';
        in += quoted;
        while (quoted ? *in != '"' || in[1] == '"' : *in != ',' && *in != '\n') {
            CU_ASSERT_FATAL(*in != '\0' && (quoted || *in != '"'));
            in += *in == '"';
            *out++ = *in++;
        }
        in += quoted;
        CU_ASSERT_FATAL(*in == ',' || *in == '\n');
        more = *in++ == ',';
        *out++ = '\0';
    }
    *at = in;
    return count;
}

static bool is_number(const char *text, uint64_t expected)
{
    char written[24];
    snprintf(written, sizeof(written), "%llu", (unsigned long long)expected);
    return strcmp(written, text) == 0;
}

static bool is_double(const char *text, double expected)
{
    char *end;
    double value = strtod(text, &end);
    return *end == '\0' && (value == expected || (isnan(value) && isnan(expected)));
}

static void check_names(char *fields[MOST_FIELDS], const struct event *event)
{
    CU_ASSERT_STRING_EQUAL(fields[0], event_kind_name(event->kind));
    CU_ASSERT_STRING_EQUAL(fields[1], event->name == NULL ? "" : event->name);
    CU_ASSERT_STRING_EQUAL(fields[2], sample_processors[event->processor].name);
    CU_ASSERT_TRUE(is_number(fields[3], event->stream));
    CU_ASSERT_STRING_EQUAL(fields[4],
                           event->layer == EVENT_NONE ? "" : sample_layers[event->layer]);
    CU_ASSERT_STRING_EQUAL(fields[5],
                           event->edge == EVENT_NONE ? "" : sample_edges[event->edge].name);
}

static void check_quantities(char *fields[MOST_FIELDS], const struct event *event)
{
    CU_ASSERT_TRUE(is_number(fields[6], event->step));
    CU_ASSERT_TRUE(is_number(fields[7], event->micro_batch));
    CU_ASSERT_TRUE(is_number(fields[8], event_nanoseconds(event->start_s)));
    CU_ASSERT_TRUE(is_number(fields[9], event_nanoseconds(event->end_s)));
    CU_ASSERT_TRUE(is_double(fields[10], event->start_s));
    CU_ASSERT_TRUE(is_double(fields[11], event->end_s));
    bool memory = event->kind == EVENT_MEMORY;
    if (event->kind == EVENT_COMPUTE)
        CU_ASSERT_TRUE(is_number(fields[12], event->flops));
    if (event->kind == EVENT_TRANSFER || memory)
        CU_ASSERT_TRUE(is_number(fields[13], event->bytes));
    CU_ASSERT_STRING_EQUAL(fields[14], memory ? memory_category_name(event->category) : "");
    if (memory)
        CU_ASSERT_TRUE(is_number(fields[15], event->memory_after_bytes));
    if (event->kind == EVENT_METRIC) {
        CU_ASSERT_TRUE(is_double(fields[16], event->value));
    } else {
        CU_ASSERT_STRING_EQUAL(fields[16], "");
    }
}

static void events_have_a_row_each(void)
{
    struct sample *sample = sample_create(11);
    char *text = sample_write("events", &sample_header, sample->events, SAMPLE_EVENTS,
                              sample->total_s);
    char *at = text, *fields[MOST_FIELDS];
    size_t large = 0, columns = read_record(&at, fields);
    CU_ASSERT_STRING_EQUAL(fields[8], "start_ns");
    for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
        const struct event *event = &sample->events[i];
        if (event->step >= sample_header.trace_steps)
            continue;
        CU_ASSERT_EQUAL_FATAL(read_record(&at, fields), columns);
        check_names(fields, event);
        check_quantities(fields, event);
        large += event->bytes == 9007199254740993ULL || event->bytes == 5368709121ULL;
    }
    CU_ASSERT_EQUAL(read_record(&at, fields), 0);
    CU_ASSERT(large > 0);
    free(text);
    free(sample);
}

static void no_steps_limit_keeps_all(void)
{
    struct sample *sample = sample_create(12);
    struct trace_header header = sample_header;
    header.trace_steps = 0;
    char *text =
        sample_write("events", &header, sample->events, SAMPLE_EVENTS, sample->total_s);
    char *at = text, *fields[MOST_FIELDS];
    size_t rows = 0;
    while (read_record(&at, fields) > 0)
        rows++;
    CU_ASSERT_EQUAL(rows, SAMPLE_EVENTS + 1);
    free(text);
    free(sample);
}

static void memory_has_a_row_a_change(void)
{
    struct sample *sample = sample_create(13);
    char *text = sample_write("memory", &sample_header, sample->events, SAMPLE_EVENTS,
                              sample->total_s);
    char *at = text, *fields[MOST_FIELDS];
    uint64_t now[SAMPLE_PROCESSORS][MEMORY_CATEGORIES] = {{0}};
    size_t rows = 0;
    CU_ASSERT_EQUAL_FATAL(read_record(&at, fields), MEMORY_CATEGORIES + 3);
    CU_ASSERT_STRING_EQUAL(fields[2], "weights_bytes");
    for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
        const struct event *event = &sample->events[i];
        uint64_t *bytes = now[event->processor];
        if (event->kind != EVENT_MEMORY || event->step >= sample_header.trace_steps ||
            bytes[event->category] == event->bytes)
            continue;
        bytes[event->category] = event->bytes;
        CU_ASSERT_EQUAL_FATAL(read_record(&at, fields), MEMORY_CATEGORIES + 3);
        CU_ASSERT_TRUE(is_double(fields[0], event->end_s));
        CU_ASSERT_STRING_EQUAL(fields[1], sample_processors[event->processor].name);
        uint64_t sum = 0;
        for (size_t j = 0; j < MEMORY_CATEGORIES; j++) {
            CU_ASSERT_TRUE(is_number(fields[2 + j], bytes[j]));
            sum += bytes[j];
        }
        CU_ASSERT_TRUE(is_number(fields[2 + MEMORY_CATEGORIES], sum));
        rows++;
    }
    CU_ASSERT(rows > 100);
    CU_ASSERT_EQUAL(read_record(&at, fields), 0);
    free(text);
    free(sample);
}

/* Bytes, messages and use of each link, over all steps. */
static void links_add_up(void)
{
    struct sample *sample = sample_create(14);
    char *text = sample_write("links", &sample_header, sample->events, SAMPLE_EVENTS,
                              sample->total_s);
    char *at = text, *fields[MOST_FIELDS];
    CU_ASSERT_EQUAL_FATAL(read_record(&at, fields), 6);
    for (uint32_t link = 0; link < SAMPLE_LINKS; link++) {
        uint64_t bytes = 0, messages = 0;
        for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
            const struct event *event = &sample->events[i];
            if (event->kind != EVENT_TRANSFER)
                continue;
            const struct trace_edge *edge = &sample_edges[event->edge];
            for (size_t j = 0; j < edge->link_count; j++)
                if (edge->links[j] == link) {
                    bytes += event->bytes;
                    messages++;
                }
        }
        double bandwidth = sample_links[link].bandwidth_bytes_per_s;
        CU_ASSERT_EQUAL_FATAL(read_record(&at, fields), 6);
        CU_ASSERT_STRING_EQUAL(fields[0], sample_links[link].name);
        CU_ASSERT_TRUE(is_double(fields[1], bandwidth));
        CU_ASSERT_TRUE(is_number(fields[2], bytes) && is_number(fields[3], messages));
        double use = isinf(bandwidth) ? 0 : (double)bytes / (bandwidth * sample->total_s);
        CU_ASSERT_TRUE(is_double(fields[4], use));
        CU_ASSERT_TRUE(is_number(fields[5], link != 3)); /* 3 is on no edge */
        CU_ASSERT_EQUAL(messages > 0, link != 3);
    }
    CU_ASSERT_EQUAL(read_record(&at, fields), 0);
    free(text);
    free(sample);
}

static void links_of_an_unlimited_machine(void)
{
    struct event event = {.kind = EVENT_TRANSFER,
                          .processor = 2,
                          .edge = 2,
                          .layer = EVENT_NONE,
                          .bytes = UINT64_MAX};
    char *text = sample_write("links", &sample_header, &event, 1, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nfree,inf,18446744073709551615,1,0,1\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n\"idle \"\"one\"\"\",1000,0,0,0,0\n"));
    free(text);
}

static void links_refuse_overflow(void)
{
    struct error error = {0};
    struct event event = {.kind = EVENT_TRANSFER,
                          .processor = 0,
                          .edge = 0,
                          .layer = EVENT_NONE,
                          .bytes = UINT64_MAX};
    struct event_sink *sink =
        sample_format("links")->open("/dev/null", &sample_header, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sink);
    CU_ASSERT_TRUE(sink->event(sink, &event, &error));
    CU_ASSERT_FALSE(sink->event(sink, &event, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_FAILED);
    sink->free(sink);
}

static void without_events_only_headings(void)
{
    static const char *const names[2] = {"events", "memory"};
    for (size_t i = 0; i < 2; i++) {
        char *text = sample_write(names[i], &sample_header, NULL, 0, 0);
        char *at = text, *fields[MOST_FIELDS];
        CU_ASSERT(read_record(&at, fields) > 0);
        CU_ASSERT_EQUAL(read_record(&at, fields), 0);
        free(text);
    }
}

static const struct check checks[] = {
    {"events.csv has a row each, exact", events_have_a_row_each},
    {"trace_steps 0 keeps every event", no_steps_limit_keeps_all},
    {"memory.csv has a row a change", memory_has_a_row_a_change},
    {"links.csv adds up over all steps", links_add_up},
    {"links.csv of a machine without limits", links_of_an_unlimited_machine},
    {"links.csv refuses to overflow", links_refuse_overflow},
    {"without events there are only headings", without_events_only_headings},
};

CHECK_MAIN("traces as CSV", checks)
