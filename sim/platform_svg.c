/* A platform as a drawing: every processor and link up to 64 processors, else a box for
 * each group of processors and the sorts of network in words. */
#include "base/checked.h"
#include "base/text.h"
#include "sim/platform_internal.h"

#include <math.h>
#include <stdlib.h>

enum { DRAWN = 64, SIZE = 960, HEAD = 60, MARGIN = 40 };

static void write_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else
            fputc(*text, out);
    }
}

static void write_text(FILE *out, double x, double y, const char *style, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style);
    write_escaped(out, text);
    fputs("</text>\n", out);
}

static void begin(const struct platform *platform, int height, FILE *out)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\">\n"
            "<style>.title{font-size:20px}.note{font-size:13px;fill:#555}"
            ".name{font-size:11px;text-anchor:middle;dominant-baseline:central}"
            ".link{stroke:#4a6fa5;stroke-linecap:round}"
            ".processor{fill:#f2c14e;stroke:#333}.switch{fill:#ddd;stroke:#333}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            SIZE, height, SIZE, height);
    write_text(out, MARGIN, 30, "title", platform->name);
    write_text(out, MARGIN, 50, "note", platform->description);
}

/* Line width grows with the logarithm of the bandwidth, from 1.5 to 7. */
static double line_width(const struct platform *platform, double bandwidth)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < platform->arc_count; i++) {
        uint32_t link = platform->arcs[i].link;
        if (link == LINK_NONE || isinf(platform->links[link].bandwidth_bytes_per_s))
            continue;
        low = fmin(low, platform->links[link].bandwidth_bytes_per_s);
        high = fmax(high, platform->links[link].bandwidth_bytes_per_s);
    }
    if (!isfinite(bandwidth) || !(high > low))
        return isfinite(bandwidth) ? 2 : 7;
    return 1.5 + 5.5 * log(bandwidth / low) / log(high / low);
}

/* Is a straight line from a to b drawn through another vertex? Then it must bend. */
static bool is_blocked(const struct platform *platform, const struct point *points,
                       uint32_t a, uint32_t b)
{
    double dx = points[b].x - points[a].x, dy = points[b].y - points[a].y;
    double square = dx * dx + dy * dy;
    for (size_t v = 0; v < platform->vertex_count && square > 0; v++) {
        if (v == a || v == b)
            continue;
        double px = points[v].x - points[a].x, py = points[v].y - points[a].y;
        double along = (px * dx + py * dy) / square;
        double off = fabs(px * dy - py * dx) / sqrt(square);
        if (along > 0.01 && along < 0.99 && off < 8)
            return true;
    }
    return false;
}

static void write_link_text(const struct platform *platform, const struct arc *arc,
                            FILE *out)
{
    char text[TEXT_QUANTITY_BYTES];
    fputs("<title>", out);
    if (arc->link == LINK_NONE) {
        fputs("free", out);
    } else {
        const struct link *link = &platform->links[arc->link];
        write_escaped(out, link->name);
        fprintf(out, ", %s",
                isinf(link->bandwidth_bytes_per_s)
                    ? "free"
                    : text_si(text, link->bandwidth_bytes_per_s, "B/s"));
        fprintf(out, ", %s", text_seconds(text, link->latency_s));
    }
    fputs("</title>", out);
}

/* One line for both directions: that of the arc from the lower vertex, or of a lone one. */
static bool is_drawn(const struct platform *platform, const struct arc *arc)
{
    if (arc->from < arc->to)
        return true;
    for (uint32_t i = platform->vertices[arc->to].first_out; i != ARC_NONE;
         i = platform->arcs[i].next_out)
        if (platform->arcs[i].to == arc->from)
            return false;
    return true;
}

static void draw_arc(const struct platform *platform, const struct point *points,
                     const struct arc *arc, FILE *out)
{
    struct point a = points[arc->from], b = points[arc->to];
    double bend = is_blocked(platform, points, arc->from, arc->to) ? 0.15 : 0;
    double width =
        arc->link == LINK_NONE
            ? 1
            : line_width(platform, platform->links[arc->link].bandwidth_bytes_per_s);
    fprintf(out,
            "<path class=\"link\" fill=\"none\" stroke-width=\"%.1f\" "
            "d=\"M%.1f %.1f Q%.1f %.1f %.1f %.1f\"%s>",
            width, a.x, a.y, (a.x + b.x) / 2 - bend * (b.y - a.y),
            (a.y + b.y) / 2 + bend * (b.x - a.x), b.x, b.y,
            arc->link == LINK_NONE ? " stroke-dasharray=\"3 3\"" : "");
    write_link_text(platform, arc, out);
    fputs("</path>\n", out);
}

static void draw_vertex(const struct platform *platform, size_t vertex, struct point at,
                        FILE *out)
{
    bool processor = vertex < platform->processor_count;
    double width = platform->processor_count > 32 ? 42 : 54, height = processor ? 22 : 16;
    if (!processor)
        width = 12;
    fprintf(out,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "rx=\"4\"><title>",
            processor ? "processor" : "switch", at.x - width / 2, at.y - height / 2, width,
            height);
    write_escaped(out, platform->vertices[vertex].name);
    fputs("</title></rect>\n", out);
    if (processor)
        write_text(out, at.x, at.y, "name", platform->vertices[vertex].name);
}

static bool draw(const struct platform *platform, FILE *out, struct error *error)
{
    struct point *points = checked_calloc(platform->vertex_count, sizeof(*points));
    struct box box = {MARGIN, HEAD + MARGIN, SIZE - 2 * MARGIN, SIZE - HEAD - 2 * MARGIN};
    if (points == NULL)
        return error_memory(error, "drawing");
    begin(platform, SIZE, out);
    if (platform->fabric_count > 0)
        fabric_place(platform, platform->fabrics[0], box, points);
    else
        points[0] = (struct point){SIZE / 2.0, SIZE / 2.0};
    for (size_t i = 0; i < platform->arc_count; i++)
        if (is_drawn(platform, &platform->arcs[i]))
            draw_arc(platform, points, &platform->arcs[i], out);
    for (size_t v = 0; v < platform->vertex_count; v++)
        draw_vertex(platform, v, points[v], out);
    free(points);
    return true;
}

static void summarize(const struct platform *platform, FILE *out)
{
    size_t shown = platform->group_count < 16 ? platform->group_count : 16;
    char text[160];
    begin(platform, (int)(HEAD + 80 * shown + 120), out);
    for (size_t i = 0; i < shown; i++) {
        const struct processor *group = &platform->groups[i];
        double y = HEAD + 20 + 80 * (double)i;
        fprintf(out,
                "<rect class=\"processor\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"50\" "
                "rx=\"4\"/>\n",
                MARGIN, y, SIZE - 2 * MARGIN);
        snprintf(text, sizeof(text), "%llu x %s (%s)",
                 (unsigned long long)platform->group_counts[i], group->group,
                 group->kind->name);
        write_text(out, SIZE / 2.0, y + 25, "name", text);
    }
    double y = HEAD + 80 * (double)shown + 50;
    if (shown < platform->group_count) {
        snprintf(text, sizeof(text), "and %zu groups more", platform->group_count - shown);
        write_text(out, MARGIN, y, "note", text);
    }
    snprintf(text, sizeof(text), "%s: %zu links, counting each direction",
             platform->fabrics[0]->kind->name, platform->link_count);
    write_text(out, MARGIN, y + 20, "note", text);
    write_text(out, MARGIN, y + 40, "note", platform->fabrics[0]->kind->summary);
}

bool platform_write_svg(struct platform *platform, FILE *out, struct error *error)
{
    if (platform->processor_count > DRAWN)
        summarize(platform, out);
    else if (!draw(platform, out, error))
        return false;
    fputs("</svg>\n", out);
    return !ferror(out) || error_set(error, STATUS_HOST, "cannot write the drawing");
}
