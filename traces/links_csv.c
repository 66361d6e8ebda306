/* links.csv: what every link carried over the whole run, whatever trace_steps says. */
#include "base/checked.h"
#include "traces/formats.h"
#include "traces/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct links_csv {
    struct file_sink output;
    struct trace_edge_total *links; /* bytes and messages, by link */
};

static bool links_csv_event(struct event_sink *sink, const struct event *event,
                            struct error *error)
{
    struct links_csv *links = (struct links_csv *)sink;
    const struct trace_header *header = links->output.header;
    if (!event_check(event, header, error))
        return false;
    if (event->kind != EVENT_TRANSFER)
        return true;
    const struct trace_edge *edge = &header->edges[event->edge];
    for (size_t i = 0; i < edge->link_count; i++) {
        struct trace_edge_total *link = &links->links[edge->links[i]];
        if (!checked_add(link->bytes, event->bytes, &link->bytes))
            return error_set(error, STATUS_FAILED, "link %s carried over 2^64 bytes",
                             header->links[edge->links[i]].name);
        link->messages += event->messages > 0 ? event->messages : 1;
    }
    return true;
}

/* Carried bytes over what the link could have carried; an unlimited link is never used up.
 */
static double utilisation(const struct trace_link *link, uint64_t bytes, double total_s)
{
    if (!(total_s > 0) || isinf(link->bandwidth_bytes_per_s))
        return 0;
    return (double)bytes / (link->bandwidth_bytes_per_s * total_s);
}

static bool links_csv_repeat(struct event_sink *sink, uint64_t simulated, uint64_t steps,
                             struct error *error)
{
    struct links_csv *links = (struct links_csv *)sink;
    for (size_t i = 0; i < links->output.header->link_count; i++)
        if (!event_repeat(&links->links[i].bytes, simulated, steps) ||
            !event_repeat(&links->links[i].messages, simulated, steps))
            return error_set(error, STATUS_FAILED, "link %s carried over 2^64 bytes",
                             links->output.header->links[i].name);
    return true;
}

static bool links_csv_finish(struct event_sink *sink, double total_s, struct error *error)
{
    struct links_csv *links = (struct links_csv *)sink;
    const struct trace_header *header = links->output.header;
    FILE *file = links->output.file;
    if (!trace_end_check(total_s, error))
        return false;
    for (size_t i = 0; i < header->link_count; i++) {
        const struct trace_edge_total *total = &links->links[i];
        output_csv(file, header->links[i].name);
        putc(',', file);
        output_number(file, header->links[i].bandwidth_bytes_per_s);
        fprintf(file, ",%" PRIu64 ",%" PRIu64 ",", total->bytes, total->messages);
        output_number(file, utilisation(&header->links[i], total->bytes, total_s));
        fprintf(file, ",%d\n", total->messages > 0);
    }
    return output_close(&links->output, error);
}

static void links_csv_free(struct event_sink *sink)
{
    struct links_csv *links = (struct links_csv *)sink;
    if (links == NULL)
        return;
    output_release(&links->output);
    free(links->links);
    free(links);
}

struct event_sink *links_csv_open(const char *path, const struct trace_header *header,
                                  struct error *error)
{
    struct links_csv *links = checked_calloc(1, sizeof(*links));
    if (links == NULL) {
        error_memory(error, path);
        return NULL;
    }
    links->output.sink =
        (struct event_sink){links_csv_event, links_csv_finish, links_csv_free,
                            links_csv_repeat};
    bool opened = output_open(&links->output, path, header, error);
    if (opened) {
        links->links = checked_calloc(header->link_count, sizeof(*links->links));
        opened = links->links != NULL || error_memory(error, path);
    }
    if (!opened) {
        links_csv_free(&links->output.sink);
        return NULL;
    }
    fputs("link,bandwidth_bytes_per_s,bytes,messages,utilisation,used\n",
          links->output.file);
    return &links->output.sink;
}
