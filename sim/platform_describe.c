/* A platform for people: what `podsim platform` prints. */
#include "base/text.h"
#include "sim/platform_internal.h"

#include <math.h>
#include <string.h>

enum { LABEL = 12, LINK_ROWS = 12 };

static void row(FILE *out, const char *label)
{
    fprintf(out, "  %-*s ", LABEL, label);
}

static void write_peaks(const struct processor *group, FILE *out)
{
    char text[TEXT_QUANTITY_BYTES];
    row(out, "peak");
    size_t given = 0;
    for (size_t f = 0; group->kind->peak_flops_per_s != NULL && f < FORMAT_COUNT; f++) {
        double peak = group->kind->peak_flops_per_s(group, (enum number_format)f);
        if (!(peak > 0))
            continue;
        fprintf(out, "%s%s %s", given > 0 ? ", " : "",
                number_format_name((enum number_format)f), text_si(text, peak, "FLOP/s"));
        given++;
    }
    fputs(given > 0 ? "\n" : "measured seconds instead\n", out);
}

static void write_power(const struct power *power, FILE *out)
{
    char text[TEXT_QUANTITY_BYTES];
    if (!power->known)
        return;
    row(out, "power");
    fprintf(out, "%g W idle, %g W busy, %s a byte sent\n", power->idle_watts,
            power->busy_watts, text_si(text, power->joules_per_byte, "J"));
}

static void write_group(const struct platform *platform, size_t index, size_t first,
                        FILE *out)
{
    const struct processor *group = &platform->groups[index];
    size_t last = first + (size_t)platform->group_counts[index] - 1;
    char text[TEXT_QUANTITY_BYTES];
    row(out, "processors");
    fprintf(out, "%zu: %s", last - first + 1, platform->processors[first].name);
    if (last > first)
        fprintf(out, " to %s", platform->processors[last].name);
    fprintf(out, "\n");
    row(out, "kind");
    fprintf(out, "%s: %s\n", group->kind->name, group->kind->summary);
    write_peaks(group, out);
    row(out, "memory");
    fprintf(out, "%s each", text_bytes(text, group->memory_bytes));
    if (group->streaming_bytes > 0) {
        fprintf(out, ", beside it %s", text_bytes(text, group->streaming_bytes));
        fprintf(out, " at %s",
                text_si(text, group->streaming_bandwidth_bytes_per_s, "B/s"));
    }
    fputc('\n', out);
    row(out, "transfers");
    if (group->overlap)
        fputs("beside compute\n", out);
    else
        fprintf(out, "not during compute, after a sync of %s\n",
                text_seconds(text, group->sync_s));
    if (group->slowdown < 1 || group->slowdown > 1) {
        row(out, "slowdown");
        fprintf(out, "%g x on compute time\n", group->slowdown);
    }
    write_power(&group->power, out);
}

static bool same_link(const struct link *a, const struct link *b)
{
    return memcmp(&a->bandwidth_bytes_per_s, &b->bandwidth_bytes_per_s, sizeof(double)) ==
               0 &&
           memcmp(&a->latency_s, &b->latency_s, sizeof(double)) == 0 &&
           a->sharing == b->sharing;
}

/* One row for each sort of link, in the order in which they appear. */
static void write_links(const struct platform *platform, FILE *out)
{
    size_t sample[LINK_ROWS], count[LINK_ROWS] = {0}, sorts = 0, others = 0;
    char text[TEXT_QUANTITY_BYTES];
    for (size_t i = 0; i < platform->link_count; i++) {
        size_t s = 0;
        while (s < sorts && !same_link(&platform->links[i], &platform->links[sample[s]]))
            s++;
        if (s == sorts && sorts < LINK_ROWS)
            sample[sorts++] = i;
        if (s < sorts)
            count[s]++;
        else
            others++;
    }
    row(out, "links");
    fprintf(out, "%zu, each direction counted\n", platform->link_count);
    for (size_t s = 0; s < sorts; s++) {
        const struct link *link = &platform->links[sample[s]];
        row(out, "");
        fprintf(out, "%zu like %s: %s", count[s], link->name,
                isinf(link->bandwidth_bytes_per_s)
                    ? "free"
                    : text_si(text, link->bandwidth_bytes_per_s, "B/s"));
        fprintf(out, ", %s%s\n", text_seconds(text, link->latency_s),
                link->sharing == LINK_FATPIPE ? ", not shared" : "");
    }
    if (others > 0) {
        row(out, "");
        fprintf(out, "%zu of other sorts\n", others);
    }
}

static bool write_network(struct platform *platform, FILE *out, struct error *error)
{
    char text[TEXT_QUANTITY_BYTES];
    size_t links = 0;
    double latency_s = 0, bisection = 0;
    bool sampled = false;
    if (platform->fabric_count == 0)
        return true;
    const struct topology_kind *kind = platform->fabrics[0]->kind;
    row(out, "topology");
    fprintf(out, "%s: %s\n", kind->name, kind->summary);
    write_links(platform, out);
    if (!platform_diameter(platform, &links, &latency_s, &sampled, error) ||
        !platform_bisection(platform, &bisection, error))
        return false;
    row(out, "diameter");
    fprintf(out, "%s%zu link%s; longest latency %s\n", sampled ? "at least " : "", links,
            links == 1 ? "" : "s", text_seconds(text, latency_s));
    row(out, "bisection");
    fprintf(out, "%s a direction\n",
            isinf(bisection) ? "free" : text_si(text, bisection, "B/s"));
    return true;
}

static void write_host(struct platform *platform, FILE *out)
{
    char text[TEXT_QUANTITY_BYTES];
    row(out, "host");
    if (platform->host_name == NULL) {
        fputs("none: training data is free\n", out);
        return;
    }
    size_t links = 1;
    for (size_t i = 1; i < platform->processor_count; i++)
        links += platform->host_links[i] != platform->host_links[i - 1];
    const struct link *link = &platform->links[platform->host_links[0]];
    fprintf(out, "%s: %zu link%s of %s", platform->host_name, links, links == 1 ? "" : "s",
            text_si(text, link->bandwidth_bytes_per_s, "B/s"));
    fprintf(out, ", %s\n", text_seconds(text, link->latency_s));
}

bool platform_describe(struct platform *platform, FILE *out, struct error *error)
{
    const struct trouble *trouble = &platform->trouble;
    char text[TEXT_QUANTITY_BYTES];
    double total = 0;
    size_t first = 0;
    fprintf(out, "%s%s%s\n", platform->name, platform->description[0] != '\0' ? ": " : "",
            platform->description);
    for (size_t i = 0; i < platform->group_count; i++) {
        write_group(platform, i, first, out);
        first += (size_t)platform->group_counts[i];
    }
    for (size_t i = 0; i < platform->processor_count; i++)
        total += (double)platform->processors[i].memory_bytes;
    row(out, "in all");
    fprintf(out, "%s of memory\n", text_si(text, total, "B"));
    if (!write_network(platform, out, error))
        return false;
    write_host(platform, out);
    if (trouble->straggler_count + trouble->degradation_count + trouble->failure_count >
        0) {
        row(out, "trouble");
        fprintf(out, "%zu stragglers; %zu times of slower or failed links; %zu processor "
                     "failures\n",
                trouble->straggler_count, trouble->degradation_count,
                trouble->failure_count);
    }
    return !ferror(out) || error_set(error, STATUS_HOST, "cannot write the description");
}
