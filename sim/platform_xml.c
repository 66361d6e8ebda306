/* The platform as SimGrid reads it. */
#include "base/checked.h"
#include "sim/platform_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char free_link[] = "free link";

static void write_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

static void write_named(FILE *out, const char *before, const char *name, const char *after)
{
    fputs(before, out);
    write_escaped(out, name);
    fputs(after, out);
}

static int by_ends(const void *a, const void *b)
{
    const struct platform_pair *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Sorted, each once, none from a processor to itself: SimGrid aborts on repetitions. */
static struct platform_pair *distinct_pairs(const struct platform_pair *pairs,
                                            size_t *count)
{
    struct platform_pair *sorted = checked_calloc(*count, sizeof(*sorted));
    size_t kept = 0;
    if (sorted == NULL)
        return NULL;
    if (*count > 0) {
        memcpy(sorted, pairs, *count * sizeof(*sorted));
        qsort(sorted, *count, sizeof(*sorted), by_ends);
    }
    for (size_t i = 0; i < *count; i++)
        if (sorted[i].from != sorted[i].to &&
            (kept == 0 || by_ends(&sorted[kept - 1], &sorted[i]) != 0))
            sorted[kept++] = sorted[i];
    *count = kept;
    return sorted;
}

static bool pair_route(struct platform *platform, struct platform_pair pair,
                       struct route *route, struct error *error)
{
    if (pair.to == PLATFORM_HOST)
        return error_set(error, STATUS_BAD_INPUT, "platform %s: no way back to the host",
                         platform->name);
    if (pair.from != PLATFORM_HOST)
        return platform_route(platform, pair.from, pair.to, route, error);
    if (platform->host_name == NULL)
        return error_set(error, STATUS_BAD_INPUT, "platform %s has no host",
                         platform->name);
    return platform_host_route(platform, pair.to, route, error);
}

static const char *end_name(const struct platform *platform, uint32_t end)
{
    return end == PLATFORM_HOST ? platform->host_name : platform->processors[end].name;
}

static void write_link(FILE *out, const struct link *link)
{
    write_named(out, "    <link id=\"", link->name, "\"");
    fprintf(out, " bandwidth=\"%.17gBps\" latency=\"0s\" sharing_policy=\"%s\"/>\n",
            link->bandwidth_bytes_per_s,
            link->sharing == LINK_FATPIPE ? "FATPIPE" : "SHARED");
}

/* Marks the links that the pairs use. */
static bool mark_links(struct platform *platform, const struct platform_pair *pairs,
                       size_t pair_count, bool *used, struct error *error)
{
    struct route route;
    for (size_t i = 0; i < pair_count; i++) {
        if (!pair_route(platform, pairs[i], &route, error))
            return false;
        for (size_t j = 0; j < route.link_count; j++)
            used[route.links[j]] = true;
    }
    return true;
}

static bool write_route(struct platform *platform, struct platform_pair pair, FILE *out,
                        struct error *error)
{
    struct route route;
    size_t written = 0;
    if (!pair_route(platform, pair, &route, error))
        return false;
    write_named(out, "    <route src=\"", end_name(platform, pair.from), "\"");
    write_named(out, " dst=\"", end_name(platform, pair.to), "\" symmetrical=\"NO\">");
    for (size_t i = 0; i < route.link_count; i++) {
        const struct link *link = &platform->links[route.links[i]];
        if (isinf(link->bandwidth_bytes_per_s))
            continue;
        write_named(out, "<link_ctn id=\"", link->name, "\"/>");
        written++;
    }
    if (written == 0)
        write_named(out, "<link_ctn id=\"", free_link, "\"/>");
    fputs("</route>\n", out);
    return true;
}

bool platform_write_xml(struct platform *platform, const struct platform_pair *pairs,
                        size_t pair_count, FILE *out, struct error *error)
{
    struct platform_pair *distinct = distinct_pairs(pairs, &pair_count);
    bool *used = checked_calloc(platform->link_count, sizeof(*used));
    bool good = (distinct != NULL && used != NULL) || error_memory(error, "routes");
    good = good && mark_links(platform, distinct, pair_count, used, error);
    if (good) {
        fputs("<?xml version=\"1.0\"?>\n"
              "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
              "<platform version=\"4.1\">\n",
              out);
        write_named(out, "  <zone id=\"platform ", platform->name,
                    "\" routing=\"Full\">\n");
        for (size_t i = 0; i < platform->processor_count; i++)
            write_named(out, "    <host id=\"", platform->processors[i].name,
                        "\" speed=\"1f\"/>\n");
        if (platform->host_name != NULL)
            write_named(out, "    <host id=\"", platform->host_name, "\" speed=\"1f\"/>\n");
        fprintf(out,
                "    <link id=\"%s\" bandwidth=\"1e18Bps\" latency=\"0s\" "
                "sharing_policy=\"FATPIPE\"/>\n",
                free_link);
    }
    for (size_t i = 0; good && i < platform->link_count; i++)
        if (used[i] && !isinf(platform->links[i].bandwidth_bytes_per_s))
            write_link(out, &platform->links[i]);
    for (size_t i = 0; good && i < pair_count; i++)
        good = write_route(platform, distinct[i], out, error);
    if (good)
        fputs("  </zone>\n</platform>\n", out);
    free(distinct);
    free(used);
    return good &&
           (!ferror(out) || error_set(error, STATUS_HOST, "cannot write the SimGrid file"));
}
