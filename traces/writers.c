/* The table of trace formats. A new format is one file and one line here. */
#include "traces/formats.h"

static const struct trace_format formats[] = {
    {"chrome", "trace.json", chrome_open},
    {"events", "events.csv", events_csv_open},
    {"memory", "memory.csv", memory_csv_open},
    {"links", "links.csv", links_csv_open},
    {"paje", "trace.paje", paje_open},
    {"timeline", "timeline.svg", svg_timeline_open},
};

size_t trace_format_count(void)
{
    return sizeof(formats) / sizeof(formats[0]);
}

const struct trace_format *trace_format_get(size_t index)
{
    return &formats[index];
}
