/* Totals against plain sums; and every sink against full disks, faulty events and headers.
 */
#include "tests/check.h"
#include "tests/trace_sample.h"

/* The plain sums that totals must agree with. */
static void check_processor_total(const struct sample *sample, uint32_t processor,
                                  const struct trace_processor_total *total)
{
    struct trace_processor_total sum = {0};
    uint64_t now[MEMORY_CATEGORIES] = {0};
    for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
        const struct event *event = &sample->events[i];
        if (event->processor != processor)
            continue;
        double duration_s = event->end_s - event->start_s;
        sum.busy_s += event->kind == EVENT_COMPUTE ? duration_s : 0;
        sum.wait_s += event->kind == EVENT_WAIT ? duration_s : 0;
        sum.transfer_s += event->kind == EVENT_TRANSFER ? duration_s : 0;
        sum.flops += event->kind == EVENT_COMPUTE ? event->flops : 0;
        if (event->kind != EVENT_MEMORY)
            continue;
        now[event->category] = event->bytes;
        sum.final_bytes = event->memory_after_bytes;
        if (event->memory_after_bytes > sum.peak_bytes) {
            sum.peak_bytes = event->memory_after_bytes;
            sum.peak_s = event->end_s;
            memcpy(sum.at_peak_bytes, now, sizeof(now));
        }
        if (event->bytes > sum.category_peak_bytes[event->category])
            sum.category_peak_bytes[event->category] = event->bytes;
    }
    CU_ASSERT(sum.busy_s == total->busy_s && sum.wait_s == total->wait_s);
    CU_ASSERT(sum.transfer_s == total->transfer_s && sum.flops == total->flops);
    CU_ASSERT(sum.peak_bytes == total->peak_bytes && sum.peak_s == total->peak_s);
    CU_ASSERT(sum.final_bytes == total->final_bytes && sum.peak_bytes > 0);
    CU_ASSERT_EQUAL(memcmp(sum.at_peak_bytes, total->at_peak_bytes, sizeof(now)), 0);
    CU_ASSERT_EQUAL(
        memcmp(sum.category_peak_bytes, total->category_peak_bytes, sizeof(now)), 0);
}

static void totals_add_up(void)
{
    struct sample *sample = sample_create(7);
    struct error error = {0};
    struct event_sink *sink = totals_open(&sample_header, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sink);
    CU_ASSERT_TRUE(
        sample_feed(sink, sample->events, SAMPLE_EVENTS, sample->total_s, &error));
    const struct trace_totals *totals = totals_get(sink);
    uint64_t bytes = 0, messages = 0;
    for (uint32_t edge = 0; edge < SAMPLE_EDGES; edge++) {
        struct trace_edge_total sum = {0};
        for (size_t i = 0; i < SAMPLE_EVENTS; i++)
            if (sample->events[i].edge == edge) {
                sum.bytes += sample->events[i].bytes;
                sum.messages++;
            }
        CU_ASSERT_EQUAL(sum.bytes, totals->edges[edge].bytes);
        CU_ASSERT_EQUAL(sum.messages, totals->edges[edge].messages);
        bytes += sum.bytes;
        messages += sum.messages;
    }
    CU_ASSERT(bytes == totals->bytes && messages == totals->messages);
    CU_ASSERT(bytes > UINT32_MAX && messages > 0);
    CU_ASSERT(totals->events == SAMPLE_EVENTS && totals->time_s == sample->total_s);
    for (uint32_t i = 0; i < SAMPLE_PROCESSORS; i++)
        check_processor_total(sample, i, &totals->processors[i]);
    sink->free(sink);
    free(sample);
}

static void totals_refuse_overflow(void)
{
    struct error error = {0};
    struct event event = {.kind = EVENT_TRANSFER, .layer = EVENT_NONE, .bytes = UINT64_MAX};
    struct event_sink *sink = totals_open(&sample_header, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sink);
    CU_ASSERT_TRUE(sink->event(sink, &event, &error));
    CU_ASSERT_FALSE(sink->event(sink, &event, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    sink->free(sink);
}

static void a_full_disk_is_an_error(void)
{
    struct sample *sample = sample_create(8);
    for (size_t i = 0; i < trace_format_count(); i++)
        for (size_t count = 0; count <= SAMPLE_EVENTS; count += SAMPLE_EVENTS) {
            struct error error = {0};
            struct event_sink *sink =
                trace_format_get(i)->open("/dev/full", &sample_header, &error);
            CU_ASSERT_PTR_NOT_NULL_FATAL(sink);
            CU_ASSERT_FALSE(
                sample_feed(sink, sample->events, count, sample->total_s, &error));
            CU_ASSERT_EQUAL(error.status, STATUS_HOST);
            CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "/dev/full"));
            sink->free(sink);
        }
    free(sample);
}

static void a_missing_folder_is_an_error(void)
{
    for (size_t i = 0; i < trace_format_count(); i++) {
        struct error error = {0};
        CU_ASSERT_PTR_NULL(
            trace_format_get(i)->open("/tmp/no/such/folder/file", &sample_header, &error));
        CU_ASSERT_EQUAL(error.status, STATUS_HOST);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "/tmp/no/such/folder/file"));
    }
}

/* No event that points outside the header, or outside time, gets into any sink. */
static void faulty_events_are_refused(void)
{
    const struct event good = {.kind = EVENT_COMPUTE,
                               .name = "forward",
                               .layer = 0,
                               .edge = EVENT_NONE,
                               .end_s = 1};
    struct event bad[11];
    for (size_t i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].processor = SAMPLE_PROCESSORS;
    bad[1].layer = SAMPLE_LAYERS;
    bad[2].edge = SAMPLE_EDGES;
    bad[3].start_s = 2;
    bad[4].start_s = -1;
    bad[5].end_s = NAN;
    bad[6].end_s = INFINITY;
    bad[7].name = NULL;
    bad[8].kind = EVENT_TRANSFER; /* on no edge */
    bad[9].kind = EVENT_KINDS;
    bad[10].kind = EVENT_MEMORY; /* that lasts */
    for (size_t format = 0; format <= trace_format_count(); format++) {
        struct error error = {0};
        struct event_sink *sink =
            format == trace_format_count()
                ? totals_open(&sample_header, &error)
                : trace_format_get(format)->open("/dev/null", &sample_header, &error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(sink);
        CU_ASSERT_TRUE(sink->event(sink, &good, &error));
        for (size_t i = 0; i < 11; i++) {
            error.status = STATUS_OK;
            CU_ASSERT_FALSE(sink->event(sink, &bad[i], &error));
            /* a machine may be that slow; all else is a fault of ours */
            CU_ASSERT_EQUAL(error.status, i == 6 ? STATUS_IMPOSSIBLE : STATUS_FAILED);
        }
        CU_ASSERT_FALSE(sink->finish(sink, NAN, &error));
        CU_ASSERT_EQUAL(error.status, STATUS_FAILED);
        CU_ASSERT_FALSE(sink->finish(sink, 1e10, &error));
        CU_ASSERT_EQUAL(error.status, STATUS_IMPOSSIBLE);
        sink->free(sink);
    }
}

static void faulty_headers_are_refused(void)
{
    static const uint32_t beyond[] = {SAMPLE_LINKS};
    static const struct trace_edge edges[] = {{"x", 0, SAMPLE_PROCESSORS, NULL, 0},
                                              {"x", 0, 1, beyond, 1}};
    for (size_t format = 0; format < trace_format_count(); format++)
        for (size_t i = 0; i < 2; i++) {
            struct error error = {0};
            struct trace_header header = sample_header;
            header.edges = &edges[i];
            header.edge_count = 1;
            CU_ASSERT_PTR_NULL(
                trace_format_get(format)->open("/dev/null", &header, &error));
            CU_ASSERT_EQUAL(error.status, STATUS_FAILED);
        }
}

static void files_repeat_byte_for_byte(void)
{
    struct sample *sample = sample_create(9);
    for (size_t i = 0; i < trace_format_count(); i++) {
        const char *name = trace_format_get(i)->name;
        char *first = sample_write(name, &sample_header, sample->events, SAMPLE_EVENTS, 1);
        char *second = sample_write(name, &sample_header, sample->events, SAMPLE_EVENTS, 1);
        CU_ASSERT_STRING_EQUAL(first, second);
        free(first);
        free(second);
    }
    free(sample);
}

static const struct check checks[] = {
    {"totals equal plain sums", totals_add_up},
    {"totals refuse to overflow", totals_refuse_overflow},
    {"a full disk is an error", a_full_disk_is_an_error},
    {"a missing folder is an error", a_missing_folder_is_an_error},
    {"faulty events are refused", faulty_events_are_refused},
    {"faulty headers are refused", faulty_headers_are_refused},
    {"files repeat byte for byte", files_repeat_byte_for_byte},
};

CHECK_MAIN("trace sinks", checks)
