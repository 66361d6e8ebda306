/* What the trace formats share: a file that is written from start to end, its failures,
 * and text in the quoting of each format. Used inside this room only. */
#ifndef PODSIM_TRACES_OUTPUT_H
#define PODSIM_TRACES_OUTPUT_H

#include "traces/event.h"

#include <stdio.h>

/* The first member of every writer's own struct. */
struct file_sink {
    struct event_sink sink;
    const struct trace_header *header;
    FILE *file;
    char *path; /* for messages */
};

/* Checks the header and opens the file; STATUS_HOST when the disk refuses. */
bool output_open(struct file_sink *output, const char *path,
                 const struct trace_header *header, struct error *error);
/* False when something written so far has failed. */
bool output_check(struct file_sink *output, struct error *error);
/* Writes what is buffered and closes; a full disk often shows here only. */
bool output_close(struct file_sink *output, struct error *error);
/* Closes if still open and frees what output_open took, not the struct. */
void output_release(struct file_sink *output);

/* The shortest decimal that reads back as the same double; a point in any locale. */
void output_number(FILE *file, double value);
/* Quoted text, or plain where CSV needs no quotes (RFC 4180). */
void output_csv(FILE *file, const char *text);
/* With its quotes. Bytes that are not UTF-8 become U+FFFD. */
void output_json(FILE *file, const char *text);
/* For XML text and attribute values; characters that XML forbids become U+FFFD. */
void output_xml(FILE *file, const char *text);

#endif
