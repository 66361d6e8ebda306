/* memory.csv: one row whenever a processor's memory changes. */
#include "base/checked.h"
#include "traces/formats.h"
#include "traces/output.h"

#include <inttypes.h>
#include <stdlib.h>

struct memory_csv {
    struct file_sink output;
    uint64_t (*bytes)[MEMORY_CATEGORIES]; /* by processor */
};

static bool memory_csv_event(struct event_sink *sink, const struct event *event,
                             struct error *error)
{
    struct memory_csv *memory = (struct memory_csv *)sink;
    const struct trace_header *header = memory->output.header;
    if (!event_check(event, header, error))
        return false;
    if (event->kind != EVENT_MEMORY)
        return true;
    uint64_t *bytes = memory->bytes[event->processor];
    bool changed = bytes[event->category] != event->bytes;
    bytes[event->category] = event->bytes;
    if (!changed || !event_is_kept(event, header))
        return true;
    FILE *file = memory->output.file;
    output_number(file, event->end_s);
    putc(',', file);
    output_csv(file, header->processors[event->processor].name);
    for (size_t i = 0; i < MEMORY_CATEGORIES; i++)
        fprintf(file, ",%" PRIu64, bytes[i]);
    fprintf(file, ",%" PRIu64 "\n", event->memory_after_bytes);
    return output_check(&memory->output, error);
}

static bool memory_csv_finish(struct event_sink *sink, double total_s, struct error *error)
{
    return trace_end_check(total_s, error) && output_close((struct file_sink *)sink, error);
}

static void memory_csv_free(struct event_sink *sink)
{
    struct memory_csv *memory = (struct memory_csv *)sink;
    if (memory == NULL)
        return;
    output_release(&memory->output);
    free(memory->bytes);
    free(memory);
}

static bool memory_csv_start(struct memory_csv *memory, const char *path,
                             const struct trace_header *header, struct error *error)
{
    if (!output_open(&memory->output, path, header, error))
        return false;
    memory->bytes = checked_calloc(header->processor_count, sizeof(*memory->bytes));
    if (memory->bytes == NULL)
        return error_memory(error, path);
    fputs("time_s,processor", memory->output.file);
    for (unsigned i = 0; i < MEMORY_CATEGORIES; i++)
        fprintf(memory->output.file, ",%s_bytes",
                memory_category_name((enum memory_category)i));
    fputs(",total_bytes\n", memory->output.file);
    return true;
}

struct event_sink *memory_csv_open(const char *path, const struct trace_header *header,
                                   struct error *error)
{
    struct memory_csv *memory = checked_calloc(1, sizeof(*memory));
    if (memory == NULL) {
        error_memory(error, path);
        return NULL;
    }
    memory->output.sink =
        (struct event_sink){memory_csv_event, memory_csv_finish, memory_csv_free, NULL};
    if (memory_csv_start(memory, path, header, error))
        return &memory->output.sink;
    memory_csv_free(&memory->output.sink);
    return NULL;
}
