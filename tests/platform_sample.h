/* Platforms from text, for the suites about them. */
#ifndef PODSIM_TESTS_PLATFORM_SAMPLE_H
#define PODSIM_TESTS_PLATFORM_SAMPLE_H

#include "base/text.h"
#include "sim/platform.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

/* Reads a platform's text; NULL with the error. The name in messages is "test". */
static inline struct platform *sample_parse(const char *text, struct error *error)
{
    struct json_file *file = json_file_parse("test", text, error);
    if (file == NULL)
        return NULL;
    struct json_at root = json_root(file);
    struct platform *platform = platform_parse(&root, error);
    json_file_free(file);
    return platform;
}

/* `count` plain processors p0, p1, ... with this topology, and further members ("" or
 * ", \"host\": ..."). Single quotes stand for double ones. */
static inline struct platform *sample_try(size_t count, const char *topology,
                                          const char *further, struct error *error)
{
    struct text text = {0};
    text_append(
        &text,
        "{'name': 'sample', 'processors': {'name': 'p', 'count': %zu, 'kind': 'ipu',"
        "'peak_flops_per_s': 1e12, 'memory_bytes': 1000000, "
        "'memory_bandwidth_bytes_per_s': 1e12}, 'topology': %s%s}",
        count, topology, further);
    for (char *c = text.data; c != NULL && *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    struct platform *platform = sample_parse(text_string(&text), error);
    text_free(&text);
    return platform;
}

static inline struct platform *sample(size_t count, const char *topology)
{
    struct error error = {0};
    struct platform *platform = sample_try(count, topology, "", &error);
    if (platform == NULL)
        fprintf(stderr, "\n%s\n", error.message);
    CU_ASSERT_FATAL(platform != NULL);
    return platform;
}

#endif
