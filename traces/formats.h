/* The functions behind the table of traces/writers.c. */
#ifndef PODSIM_TRACES_FORMATS_H
#define PODSIM_TRACES_FORMATS_H

#include "traces/event.h"

struct event_sink *chrome_open(const char *path, const struct trace_header *header,
                               struct error *error);
struct event_sink *events_csv_open(const char *path, const struct trace_header *header,
                                   struct error *error);
struct event_sink *memory_csv_open(const char *path, const struct trace_header *header,
                                   struct error *error);
struct event_sink *links_csv_open(const char *path, const struct trace_header *header,
                                  struct error *error);
struct event_sink *paje_open(const char *path, const struct trace_header *header,
                             struct error *error);
struct event_sink *svg_timeline_open(const char *path, const struct trace_header *header,
                                     struct error *error);

#endif
