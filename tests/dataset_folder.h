/* For tests of data sets: a folder for files made by the test, and opening a data set from
 * JSON text. */
#ifndef PODSIM_TESTS_DATASET_FOLDER_H
#define PODSIM_TESTS_DATASET_FOLDER_H

#include "engine/dataset.h"
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char folder[] = "/tmp/podsim-data-XXXXXX";

static inline const char *in_folder(const char *name)
{
    static char path[4][256];
    static size_t next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof(path[next]), "%s/%s", folder, name);
    return path[next];
}

static inline void write_file(const char *name, const void *bytes, size_t count)
{
    FILE *stream = fopen(in_folder(name), "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
    CU_ASSERT_FATAL(fwrite(bytes, 1, count, stream) == count);
    fclose(stream);
}

static inline void write_gzip(const char *name, const void *bytes, unsigned count)
{
    gzFile stream = gzopen(in_folder(name), "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
    CU_ASSERT_FATAL(gzwrite(stream, bytes, count) == (int)count);
    gzclose(stream);
}

/* Opens what the JSON text describes; "@" in it stands for the folder. */
static inline struct dataset *open_text(const char *text, struct json_file **file,
                                        struct error *error)
{
    char json[2048];
    size_t used = 0;
    for (const char *c = text; *c != '\0' && used < sizeof(json) - 64; c++)
        if (*c == '@')
            used += (size_t)snprintf(json + used, sizeof(json) - used, "%s", folder);
        else
            json[used++] = *c;
    json[used] = '\0';
    *error = (struct error){0};
    *file = json_file_parse("e.json", json, error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(*file);
    struct json_at at = json_root(*file);
    return dataset_open(&at, error);
}

static inline struct dataset *open_good(const char *text)
{
    struct error error;
    struct json_file *file;
    struct dataset *dataset = open_text(text, &file, &error);
    if (dataset == NULL)
        printf("\n    unexpected: %s\n", error.message);
    json_file_free(file); /* the data set must not need it any more */
    CU_ASSERT_PTR_NOT_NULL_FATAL(dataset);
    return dataset;
}

static inline void refuse(const char *text, const char *first, const char *second)
{
    struct error error;
    struct json_file *file;
    struct dataset *dataset = open_text(text, &file, &error);
    CU_ASSERT_PTR_NULL(dataset);
    CU_ASSERT(error.status == STATUS_BAD_INPUT);
    bool good =
        strstr(error.message, first) != NULL && strstr(error.message, second) != NULL;
    if (!good)
        printf("\n    message: %s\n    wanted: %s ... %s\n", error.message, first, second);
    CU_ASSERT(good);
    dataset_free(dataset);
    json_file_free(file);
}

static inline void make_folder(void)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
}

/* Removes the named files, each of which must be there, and the folder. */
static inline void remove_named(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CU_ASSERT(unlink(in_folder(names[i])) == 0);
    CU_ASSERT(rmdir(folder) == 0);
}

#endif
