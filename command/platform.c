/* podsim platform: checks and describes a machine. */
#include "command/command.h"
#include "sim/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All pairs, which is for small machines; podsim itself writes only those in use. */
static bool write_xml(struct platform *platform, struct error *error)
{
    size_t count = platform_processor_count(platform), used = 0;
    if (count > 512)
        return error_set(error, STATUS_BAD_INPUT,
                         "--xml writes a route for every pair of processors; %zu processors "
                         "are too many (at most 512)",
                         count);
    struct platform_pair *pairs = calloc(count * count + 1, sizeof *pairs);
    if (pairs == NULL)
        return error_memory(error, "pairs");
    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < count; to++)
            if (from != to)
                pairs[used++] = (struct platform_pair){.from = (uint32_t)from, .to = (uint32_t)to};
    bool written = platform_write_xml(platform, pairs, used, stdout, error);
    free(pairs);
    return written;
}

static bool write_svg(struct platform *platform, const char *path, struct error *error)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return error_set(error, STATUS_HOST, "%s: %s", path, strerror(errno));
    bool written = platform_write_svg(platform, file, error);
    if (fclose(file) != 0 && written)
        written = error_set(error, STATUS_HOST, "%s: cannot be written", path);
    return written;
}

static enum status describe(const struct options *options, struct error *error)
{
    struct platform *platform = platform_read(options->arguments[0], error);
    if (platform == NULL)
        return error->status;
    bool done = options->xml ? write_xml(platform, error)
                             : platform_describe(platform, stdout, error);
    if (done && options->svg != NULL)
        done = write_svg(platform, options->svg, error);
    platform_free(platform);
    return done ? STATUS_OK : error->status;
}

const struct command command_platform = {
    .name = "platform",
    .arguments = "NAME|FILE.json",
    .summary = "check and describe a machine",
    .min_arguments = 1,
    .max_arguments = 1,
    .uses = OPTION_XML | OPTION_SVG,
    .run = describe,
};
