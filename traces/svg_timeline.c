/* timeline.svg: a picture of the traced steps for a page or a README. One row a
 * processor: its main stream, thinner below it the side streams, then what it sends.
 * Neighbouring slices of one operation on one micro-batch are drawn as one. */
#include "base/checked.h"
#include "base/text.h"
#include "traces/formats.h"
#include "traces/output.h"
#include "traces/palette.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    MOST_SLICES = 5000,
    MOST_ROWS = 64,
    MOST_LEGEND = 24,
    LABEL_CHARACTERS = 16,
    /* pixels */
    LEFT = 130,
    PLOT = 1000,
    RIGHT = 30,
    TOP = 44,
    ROW = 26,
    LEGEND_COLUMN = 165,
    LEGEND_ROW = 18
};

enum line { LINE_MAIN, LINE_SIDE, LINE_TRANSFER, LINES };
static const struct {
    int top, height;
} lines[LINES] = {{2, 13}, {15, 4}, {19, 4}};

struct slice {
    uint64_t start_ns, end_ns;
    uint64_t step, micro_batch;
    uint32_t processor, stream, name;
    enum line line;
};

struct timeline {
    struct file_sink output;
    struct palette names;
    struct slice *slices;
    size_t count;
    size_t (*latest)[LINES]; /* 1 + the last slice of a processor's line; 0: none */
    uint64_t left_out;       /* events after the picture was full */
    uint64_t end_ns;
};

static bool continues(const struct slice *last, const struct slice *next)
{
    return last->name == next->name && last->micro_batch == next->micro_batch &&
           last->step == next->step && last->stream == next->stream &&
           last->line != LINE_TRANSFER && next->start_ns <= last->end_ns;
}

static bool add_slice(struct timeline *timeline, const struct event *event,
                      struct error *error)
{
    struct slice slice = {.start_ns = event_nanoseconds(event->start_s),
                          .end_ns = event_nanoseconds(event->end_s),
                          .step = event->step,
                          .micro_batch = event->micro_batch,
                          .processor = event->processor,
                          .stream = event->stream};
    slice.line = event->kind == EVENT_TRANSFER ? LINE_TRANSFER
                 : event->stream == 0          ? LINE_MAIN
                                               : LINE_SIDE;
    if (slice.start_ns == slice.end_ns || slice.processor >= MOST_ROWS)
        return true;
    if (timeline->count == MOST_SLICES) {
        timeline->left_out++;
        return true;
    }
    if (!palette_index(&timeline->names, event->name == NULL ? "transfer" : event->name,
                       &slice.name, error))
        return false;
    size_t *latest = &timeline->latest[slice.processor][slice.line];
    if (*latest > 0 && continues(&timeline->slices[*latest - 1], &slice)) {
        timeline->slices[*latest - 1].end_ns = slice.end_ns;
    } else {
        timeline->slices[timeline->count++] = slice;
        *latest = timeline->count;
    }
    if (slice.end_ns > timeline->end_ns)
        timeline->end_ns = slice.end_ns;
    return true;
}

static bool timeline_event(struct event_sink *sink, const struct event *event,
                           struct error *error)
{
    struct timeline *timeline = (struct timeline *)sink;
    if (!event_check(event, timeline->output.header, error))
        return false;
    if (!event_is_kept(event, timeline->output.header) ||
        (event->kind != EVENT_COMPUTE && event->kind != EVENT_TRANSFER))
        return true;
    return add_slice(timeline, event, error);
}

/* Hundredths of a pixel, without the locale's decimal point. */
static void put_pixels(FILE *file, const char *attribute, double pixels)
{
    uint64_t hundredths = (uint64_t)(pixels * 100 + 0.5);
    fprintf(file, " %s=\"%" PRIu64 ".%02u\"", attribute, hundredths / 100,
            (unsigned)(hundredths % 100));
}

static double pixels_of(const struct timeline *timeline, uint64_t time_ns)
{
    return (double)time_ns / (double)timeline->end_ns * PLOT;
}

/* At most so many characters, whatever bytes they take, in text of at most 512 bytes. */
static void put_label(FILE *file, const char *name, size_t most)
{
    char label[512];
    size_t bytes = 0, characters = 0;
    for (; name[bytes] != '\0' && bytes < sizeof(label) - 5; bytes++) {
        characters += ((unsigned char)name[bytes] & 0xc0) != 0x80;
        if (characters > most)
            break;
        label[bytes] = name[bytes];
    }
    snprintf(label + bytes, sizeof(label) - bytes, "%s",
             name[bytes] == '\0' ? "" : "\xe2\x80\xa6");
    output_xml(file, label);
}

static size_t row_count(const struct timeline *timeline)
{
    size_t count = timeline->output.header->processor_count;
    return count < MOST_ROWS ? count : MOST_ROWS;
}

static size_t legend_count(const struct timeline *timeline)
{
    return timeline->names.count < MOST_LEGEND ? timeline->names.count : MOST_LEGEND;
}

static void put_head(const struct timeline *timeline, double total_s)
{
    FILE *file = timeline->output.file;
    char total[TEXT_QUANTITY_BYTES];
    size_t per_row = (LEFT + PLOT) / LEGEND_COLUMN;
    size_t legend_rows = (legend_count(timeline) + per_row - 1) / per_row;
    size_t width = LEFT + PLOT + RIGHT;
    size_t height = TOP + row_count(timeline) * ROW + 8 + legend_rows * LEGEND_ROW + 22;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
            "viewBox=\"0 0 %zu %zu\" font-family=\"sans-serif\" font-size=\"11\">\n<style>",
            width, height, width, height);
    for (uint32_t i = 0; i < timeline->names.count; i++)
        fprintf(file, ".c%" PRIu32 "{fill:#%06" PRIx32 "}", i,
                palette_rgb(&timeline->names, i));
    fprintf(file,
            ".m{fill:#fff;font-size:9px;text-anchor:middle;pointer-events:none}"
            "</style>\n<rect width=\"%zu\" height=\"%zu\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"14\" font-size=\"13\">",
            width, height, LEFT);
    put_label(file, timeline->output.header->method, 60);
    fprintf(file, " <tspan fill=\"#666\" font-size=\"11\">whole run: %s</tspan></text>\n",
            text_seconds(total, total_s));
}

/* The largest of 1, 2, 5 times a power of ten that makes at least 5 ticks. */
static uint64_t tick_ns(uint64_t end_ns)
{
    uint64_t tick = 1;
    for (unsigned i = 0; end_ns / 10 >= tick; i++)
        tick = i % 3 == 1 ? tick / 2 * 5 : tick * 2;
    return tick;
}

static void put_axis(const struct timeline *timeline)
{
    FILE *file = timeline->output.file;
    size_t bottom = TOP + row_count(timeline) * ROW;
    uint64_t tick = tick_ns(timeline->end_ns);
    for (uint64_t at = 0; at <= timeline->end_ns; at += tick) {
        char label[TEXT_QUANTITY_BYTES];
        double x = LEFT + pixels_of(timeline, at);
        fputs("<line", file);
        put_pixels(file, "x1", x);
        put_pixels(file, "x2", x);
        fprintf(file, " y1=\"%d\" y2=\"%zu\" stroke=\"#ddd\"/><text", TOP - 6, bottom);
        put_pixels(file, "x", x);
        fprintf(file, " y=\"%d\" text-anchor=\"middle\" fill=\"#444\">%s</text>\n",
                TOP - 10, at == 0 ? "0" : text_seconds(label, (double)at * 1e-9));
    }
}

static void put_rows(const struct timeline *timeline)
{
    FILE *file = timeline->output.file;
    for (size_t i = 0; i < row_count(timeline); i++) {
        size_t top = TOP + i * ROW;
        fprintf(file,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%zu\" y2=\"%zu\" stroke=\"#eee\"/>"
                "<text x=\"%d\" y=\"%zu\" text-anchor=\"end\">",
                LEFT, LEFT + PLOT, top + ROW - 1, top + ROW - 1, LEFT - 8, top + 13);
        put_label(file, timeline->output.header->processors[i].name, LABEL_CHARACTERS);
        fputs("</text>\n", file);
    }
}

static void put_slice(const struct timeline *timeline, const struct slice *slice)
{
    enum { GAP_FROM = 3, DIGIT = 5 }; /* pixels */
    FILE *file = timeline->output.file;
    char start[TEXT_QUANTITY_BYTES], end[TEXT_QUANTITY_BYTES];
    double x = LEFT + pixels_of(timeline, slice->start_ns);
    double width = pixels_of(timeline, slice->end_ns - slice->start_ns);
    double drawn = width > GAP_FROM ? width - 0.6 : width < 0.3 ? 0.3 : width;
    int top = TOP + (int)slice->processor * ROW + lines[slice->line].top;
    fprintf(file, "<rect class=\"c%" PRIu32 "\"", slice->name);
    put_pixels(file, "x", x);
    put_pixels(file, "width", drawn);
    fprintf(file, " y=\"%d\" height=\"%d\"><title>", top, lines[slice->line].height);
    put_label(file, timeline->names.names[slice->name], 60);
    fprintf(file, ", step %" PRIu64 ", micro-batch %" PRIu64 ", %s to %s</title></rect>",
            slice->step, slice->micro_batch,
            text_seconds(start, (double)slice->start_ns * 1e-9),
            text_seconds(end, (double)slice->end_ns * 1e-9));
    int digits = snprintf(NULL, 0, "%" PRIu64, slice->micro_batch);
    if (slice->line == LINE_MAIN && width > DIGIT * (digits + 0.7)) {
        fputs("<text class=\"m\"", file);
        put_pixels(file, "x", x + width / 2);
        fprintf(file, " y=\"%d\">%" PRIu64 "</text>", top + 10, slice->micro_batch);
    }
    putc('\n', file);
}

static void put_legend(const struct timeline *timeline)
{
    FILE *file = timeline->output.file;
    size_t per_row = (LEFT + PLOT) / LEGEND_COLUMN, count = legend_count(timeline);
    size_t top = TOP + row_count(timeline) * ROW + 8;
    for (size_t i = 0; i < count; i++) {
        size_t x = 12 + i % per_row * LEGEND_COLUMN, y = top + i / per_row * LEGEND_ROW;
        fprintf(file,
                "<rect class=\"c%zu\" x=\"%zu\" y=\"%zu\" width=\"12\" height=\"12\"/>"
                "<text x=\"%zu\" y=\"%zu\">",
                i, x, y, x + 17, y + 10);
        put_label(file, timeline->names.names[i], 22);
        fputs("</text>\n", file);
    }
    top += (count + per_row - 1) / per_row * LEGEND_ROW;
    fprintf(file,
            "<text x=\"12\" y=\"%zu\" fill=\"#666\">Numbers are micro-batches; thin lines "
            "below a row are its side streams, then its transfers; white is waiting.",
            top + 12);
    if (timeline->left_out > 0)
        fprintf(file, " Cut after %d slices; %" PRIu64 " later events are not shown.",
                MOST_SLICES, timeline->left_out);
    if (row_count(timeline) < timeline->output.header->processor_count)
        fprintf(file, " The first %d of %zu processors.", MOST_ROWS,
                timeline->output.header->processor_count);
    fputs("</text>\n</svg>\n", file);
}

static bool timeline_finish(struct event_sink *sink, double total_s, struct error *error)
{
    struct timeline *timeline = (struct timeline *)sink;
    if (!trace_end_check(total_s, error))
        return false;
    if (timeline->end_ns == 0)
        timeline->end_ns = event_nanoseconds(total_s);
    if (timeline->end_ns == 0)
        timeline->end_ns = 1;
    put_head(timeline, total_s);
    put_axis(timeline);
    put_rows(timeline);
    for (size_t i = 0; i < timeline->count; i++)
        put_slice(timeline, &timeline->slices[i]);
    put_legend(timeline);
    return output_close(&timeline->output, error);
}

static void timeline_free(struct event_sink *sink)
{
    struct timeline *timeline = (struct timeline *)sink;
    if (timeline == NULL)
        return;
    output_release(&timeline->output);
    palette_free(&timeline->names);
    free(timeline->slices);
    free(timeline->latest);
    free(timeline);
}

struct event_sink *svg_timeline_open(const char *path, const struct trace_header *header,
                                     struct error *error)
{
    struct timeline *timeline = checked_calloc(1, sizeof(*timeline));
    if (timeline == NULL) {
        error_memory(error, path);
        return NULL;
    }
    timeline->output.sink =
        (struct event_sink){timeline_event, timeline_finish, timeline_free, NULL};
    bool opened = output_open(&timeline->output, path, header, error);
    if (opened) {
        timeline->slices = checked_calloc(MOST_SLICES, sizeof(*timeline->slices));
        timeline->latest = checked_calloc(row_count(timeline), sizeof(*timeline->latest));
        opened = (timeline->slices != NULL && timeline->latest != NULL) ||
                 error_memory(error, path);
    }
    if (opened)
        return &timeline->output.sink;
    timeline_free(&timeline->output.sink);
    return NULL;
}
