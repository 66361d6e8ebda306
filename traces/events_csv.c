/* events.csv: one row an event, one column a field; empty where it does not apply. */
#include "base/checked.h"
#include "traces/formats.h"
#include "traces/output.h"

#include <inttypes.h>
#include <stdlib.h>

static void put_names(FILE *file, const struct event *event,
                      const struct trace_header *header)
{
    fprintf(file, "%s,", event_kind_name(event->kind));
    output_csv(file, event->name == NULL ? "" : event->name);
    putc(',', file);
    output_csv(file, header->processors[event->processor].name);
    fprintf(file, ",%" PRIu32 ",", event->stream);
    if (event->layer != EVENT_NONE)
        output_csv(file, header->layer_names[event->layer]);
    putc(',', file);
    if (event->edge != EVENT_NONE)
        output_csv(file, header->edges[event->edge].name);
}

static void put_quantities(FILE *file, const struct event *event)
{
    fprintf(file, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", event->step,
            event->micro_batch, event_nanoseconds(event->start_s),
            event_nanoseconds(event->end_s));
    output_number(file, event->start_s);
    putc(',', file);
    output_number(file, event->end_s);
    putc(',', file);
    if (event->kind == EVENT_COMPUTE)
        fprintf(file, "%" PRIu64, event->flops);
    putc(',', file);
    if (event->kind == EVENT_TRANSFER || event->kind == EVENT_MEMORY)
        fprintf(file, "%" PRIu64, event->bytes);
    if (event->kind == EVENT_MEMORY)
        fprintf(file, ",%s,%" PRIu64 ",", memory_category_name(event->category),
                event->memory_after_bytes);
    else
        fputs(",,,", file);
    if (event->kind == EVENT_METRIC)
        output_number(file, event->value);
    putc('\n', file);
}

static bool events_csv_event(struct event_sink *sink, const struct event *event,
                             struct error *error)
{
    struct file_sink *output = (struct file_sink *)sink;
    if (!event_check(event, output->header, error))
        return false;
    if (!event_is_kept(event, output->header))
        return true;
    put_names(output->file, event, output->header);
    put_quantities(output->file, event);
    return output_check(output, error);
}

static bool events_csv_finish(struct event_sink *sink, double total_s, struct error *error)
{
    return trace_end_check(total_s, error) && output_close((struct file_sink *)sink, error);
}

static void events_csv_free(struct event_sink *sink)
{
    if (sink == NULL)
        return;
    output_release((struct file_sink *)sink);
    free(sink);
}

struct event_sink *events_csv_open(const char *path, const struct trace_header *header,
                                   struct error *error)
{
    struct file_sink *output = checked_calloc(1, sizeof(*output));
    if (output == NULL) {
        error_memory(error, path);
        return NULL;
    }
    output->sink =
        (struct event_sink){events_csv_event, events_csv_finish, events_csv_free, NULL};
    if (!output_open(output, path, header, error)) {
        events_csv_free(&output->sink);
        return NULL;
    }
    fputs("event,name,processor,stream,layer,edge,step,micro_batch,start_ns,end_ns,start_s,"
          "end_s,flops,bytes,category,processor_memory_bytes,value\n",
          output->file);
    return &output->sink;
}
