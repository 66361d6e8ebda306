/* trace.json: the JSON of Chrome's tracing, as ui.perfetto.dev reads it.
 *
 * A processor is a process, a track a thread. Perfetto looks threads up by tid alone, so
 * a tid is unique in the file: the track's index + 1; the main stream's tid equals the
 * pid, which makes it the main thread, and no id is 0, the idle process. */
#include "base/checked.h"
#include "traces/formats.h"
#include "traces/output.h"
#include "traces/tracks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct chrome {
    struct file_sink output;
    struct tracks *tracks;
    uint64_t (*memory_bytes)[MEMORY_CATEGORIES]; /* by processor */
    struct text name;
    uint64_t flows;
    bool begun; /* something stands before the next element */
};

/* Begins an element of the array: everything that viewers look for comes before names,
 * since some of their readers are simple. */
static FILE *begin(struct chrome *chrome, char phase, uint32_t processor, uint32_t tid)
{
    FILE *file = chrome->output.file;
    fprintf(file, "%s{\"ph\":\"%c\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32,
            chrome->begun ? ",\n" : "\n", phase, processor + 1, tid);
    chrome->begun = true;
    return file;
}

/* Microseconds with all their nanoseconds. */
static void put_time(FILE *file, const char *key, uint64_t time_ns)
{
    fprintf(file, ",\"%s\":%" PRIu64 ".%03u", key, time_ns / 1000,
            (unsigned)(time_ns % 1000));
}

static void put_process(struct chrome *chrome, uint32_t processor)
{
    FILE *file = begin(chrome, 'M', processor, processor + 1);
    fputs(",\"name\":\"process_name\",\"args\":{\"name\":", file);
    output_json(file, chrome->output.header->processors[processor].name);
    fputs("}}", file);
    file = begin(chrome, 'M', processor, processor + 1);
    fprintf(file, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%" PRIu32 "}}",
            processor);
}

/* Compute first, then waits, then the edges, lanes beside their first. */
static uint64_t sort_index(const struct track *track)
{
    enum { LANES = 1024 };
    uint64_t lane = track->lane < LANES ? track->lane : LANES - 1;
    switch (track->kind) {
    case TRACK_COMPUTE:
        return (uint64_t)track->resource * LANES * 2 + lane;
    case TRACK_WAIT:
        return LANES + lane;
    default:
        return ((uint64_t)track->resource + 1) * LANES * 2 + LANES + lane;
    }
}

static bool put_thread(struct chrome *chrome, uint32_t index, struct error *error)
{
    const struct track *track = tracks_get(chrome->tracks, index);
    if (!track_name(track, chrome->output.header, &chrome->name, error))
        return false;
    FILE *file = begin(chrome, 'M', track->processor, index + 1);
    fputs(",\"name\":\"thread_name\",\"args\":{\"name\":", file);
    output_json(file, text_string(&chrome->name));
    fputs("}}", file);
    file = begin(chrome, 'M', track->processor, index + 1);
    fprintf(file, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRIu64 "}}",
            sort_index(track));
    return true;
}

static bool put_slice_name(struct chrome *chrome, const struct event *event,
                           struct error *error)
{
    const struct trace_header *header = chrome->output.header;
    const char *name = event->name;
    if (name == NULL)
        name = header->edges[event->edge].name;
    text_clear(&chrome->name);
    text_append(&chrome->name, "%s", name);
    if (event->kind == EVENT_COMPUTE && event->layer != EVENT_NONE)
        text_append(&chrome->name, " %s", header->layer_names[event->layer]);
    if (chrome->name.failed)
        return error_memory(error, "the name of a slice");
    output_json(chrome->output.file, text_string(&chrome->name));
    return true;
}

static void put_arguments(FILE *file, const struct event *event,
                          const struct trace_header *header)
{
    fprintf(file, ",\"args\":{\"step\":%" PRIu64 ",\"micro_batch\":%" PRIu64, event->step,
            event->micro_batch);
    if (event->layer != EVENT_NONE) {
        fputs(",\"layer\":", file);
        output_json(file, header->layer_names[event->layer]);
    }
    if (event->edge != EVENT_NONE) {
        fputs(",\"edge\":", file);
        output_json(file, header->edges[event->edge].name);
    }
    if (event->kind == EVENT_COMPUTE)
        fprintf(file, ",\"flops\":%" PRIu64, event->flops);
    if (event->kind == EVENT_TRANSFER)
        fprintf(file, ",\"bytes\":%" PRIu64, event->bytes);
    fputs("}}", file);
}

/* An arrow from the transfer to what the receiver's main stream begins next. */
static void put_flow(struct chrome *chrome, const struct event *event,
                     const struct placement *placement)
{
    uint32_t receiver = chrome->output.header->edges[event->edge].to;
    uint64_t id = chrome->flows++;
    FILE *file = begin(chrome, 's', event->processor, placement->track + 1);
    put_time(file, "ts", placement->start_ns);
    fprintf(file, ",\"id\":%" PRIu64 ",\"cat\":\"flow\",\"name\":\"transfer\"}", id);
    file = begin(chrome, 'f', receiver, receiver + 1);
    put_time(file, "ts", placement->end_ns);
    fprintf(file, ",\"id\":%" PRIu64 ",\"cat\":\"flow\",\"name\":\"transfer\"}", id);
}

static bool put_slice(struct chrome *chrome, const struct event *event, struct error *error)
{
    struct placement placement;
    if (!tracks_place(chrome->tracks, event, &placement, error) ||
        (placement.is_new && !put_thread(chrome, placement.track, error)))
        return false;
    FILE *file = begin(chrome, 'X', event->processor, placement.track + 1);
    put_time(file, "ts", placement.start_ns);
    put_time(file, "dur", placement.end_ns - placement.start_ns);
    fprintf(file, ",\"cat\":\"%s\",\"name\":", event_kind_name(event->kind));
    if (!put_slice_name(chrome, event, error))
        return false;
    put_arguments(file, event, chrome->output.header);
    if (event->kind == EVENT_TRANSFER)
        put_flow(chrome, event, &placement);
    return true;
}

static void put_memory(struct chrome *chrome, const struct event *event)
{
    uint64_t time_ns = event_nanoseconds(event->end_s);
    FILE *file = begin(chrome, 'C', event->processor, event->processor + 1);
    put_time(file, "ts", time_ns);
    fputs(",\"name\":\"memory_bytes\",\"args\":{", file);
    for (unsigned i = 0; i < MEMORY_CATEGORIES; i++)
        fprintf(file, "%s\"%s\":%" PRIu64, i == 0 ? "" : ",",
                memory_category_name((enum memory_category)i),
                chrome->memory_bytes[event->processor][i]);
    fputs("}}", file);
    file = begin(chrome, 'C', event->processor, event->processor + 1);
    put_time(file, "ts", time_ns);
    fprintf(file, ",\"name\":\"memory_total_bytes\",\"args\":{\"all\":%" PRIu64 "}}",
            event->memory_after_bytes);
}

/* A counter, or a mark where the value is no number that JSON can hold. */
static void put_metric(struct chrome *chrome, const struct event *event)
{
    bool finite = isfinite(event->value);
    FILE *file = begin(chrome, finite ? 'C' : 'i', event->processor, event->processor + 1);
    put_time(file, "ts", event_nanoseconds(event->end_s));
    fputs(finite ? ",\"name\":" : ",\"s\":\"p\",\"cat\":\"metric\",\"name\":", file);
    output_json(file, event->name);
    fputs(",\"args\":{\"value\":", file);
    if (finite)
        output_number(file, event->value);
    else
        output_json(file, isnan(event->value) ? "nan" : event->value > 0 ? "inf" : "-inf");
    fputs("}}", file);
}

static bool chrome_event(struct event_sink *sink, const struct event *event,
                         struct error *error)
{
    struct chrome *chrome = (struct chrome *)sink;
    const struct trace_header *header = chrome->output.header;
    if (!event_check(event, header, error))
        return false;
    /* Kept up to date through skipped steps as well. */
    if (event->kind == EVENT_MEMORY)
        chrome->memory_bytes[event->processor][event->category] = event->bytes;
    if (!event_is_kept(event, header))
        return true;
    if (event->kind == EVENT_MEMORY)
        put_memory(chrome, event);
    else if (event->kind == EVENT_METRIC)
        put_metric(chrome, event);
    else if (!put_slice(chrome, event, error))
        return false;
    return output_check(&chrome->output, error);
}

static bool chrome_finish(struct event_sink *sink, double total_s, struct error *error)
{
    struct chrome *chrome = (struct chrome *)sink;
    FILE *file = chrome->output.file;
    if (!trace_end_check(total_s, error))
        return false;
    fputs("\n],\n\"otherData\":{\"method\":", file);
    output_json(file, chrome->output.header->method);
    fputs(",\"time_s\":", file);
    output_number(file, total_s);
    fprintf(file, ",\"trace_steps\":%" PRIu64 "}}\n", chrome->output.header->trace_steps);
    return output_close(&chrome->output, error);
}

static void chrome_free(struct event_sink *sink)
{
    struct chrome *chrome = (struct chrome *)sink;
    if (chrome == NULL)
        return;
    tracks_free(chrome->tracks);
    free(chrome->memory_bytes);
    text_free(&chrome->name);
    output_release(&chrome->output);
    free(chrome);
}

static bool chrome_start(struct chrome *chrome, const char *path,
                         const struct trace_header *header, struct error *error)
{
    if (!output_open(&chrome->output, path, header, error))
        return false;
    chrome->memory_bytes =
        checked_calloc(header->processor_count, sizeof(*chrome->memory_bytes));
    if (chrome->memory_bytes == NULL)
        return error_memory(error, path);
    chrome->tracks = tracks_create(header, error);
    if (chrome->tracks == NULL)
        return false;
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", chrome->output.file);
    for (uint32_t i = 0; i < header->processor_count; i++) {
        put_process(chrome, i);
        if (!put_thread(chrome, i, error))
            return false;
    }
    return true;
}

struct event_sink *chrome_open(const char *path, const struct trace_header *header,
                               struct error *error)
{
    struct chrome *chrome = checked_calloc(1, sizeof(*chrome));
    if (chrome == NULL) {
        error_memory(error, path);
        return NULL;
    }
    chrome->output.sink = (struct event_sink){
        .event = chrome_event, .finish = chrome_finish, .free = chrome_free};
    if (chrome_start(chrome, path, header, error))
        return &chrome->output.sink;
    chrome_free(&chrome->output.sink);
    return NULL;
}
