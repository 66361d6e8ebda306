#include "engine/datasets/file.h"

#include "base/checked.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE_BYTES = 1 << 20 };

bool data_file_open(struct data_file *file, const char *path, const char *source,
                    struct error *error)
{
    struct stat status;
    *file = (struct data_file){.path = path};
    errno = 0;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return error_set(error, STATUS_BAD_INPUT, "%s: is a directory, not a data file",
                         path);
    file->stream = gzopen(path, "rb");
    if (file->stream == NULL && (errno == 0 || errno == ENOMEM))
        return error_memory(error, path);
    if (file->stream == NULL)
        return error_set(error, STATUS_BAD_INPUT, "%s: cannot be opened: %s%s%s", path,
                         strerror(errno), source == NULL ? "" : "; ",
                         source == NULL ? "" : source);
    gzbuffer(file->stream, PIECE_BYTES / 8);
    return true;
}

void data_file_close(struct data_file *file)
{
    if (file->stream != NULL)
        gzclose_r(file->stream);
    file->stream = NULL;
}

/* As gzread, but the reason of a failure goes into error; SIZE_MAX on failure. */
static size_t read_some(struct data_file *file, void *bytes, size_t count,
                        struct error *error)
{
    unsigned piece = count < PIECE_BYTES ? (unsigned)count : PIECE_BYTES;
    int got = gzread(file->stream, bytes, piece);
    int problem = Z_OK;
    const char *reason = got < (int)piece ? gzerror(file->stream, &problem) : NULL;
    if (got >= 0 && (problem == Z_OK || problem == Z_STREAM_END)) {
        file->offset += (unsigned)got;
        return (size_t)got;
    }
    if (got > 0)
        file->offset += (unsigned)got;
    if (problem == Z_ERRNO)
        reason = strerror(errno);
    error_set(error, STATUS_BAD_INPUT, "%s: after byte %llu: the file is corrupt: %s",
              file->path, (unsigned long long)file->offset, reason);
    return SIZE_MAX;
}

static bool fail_truncated(const struct data_file *file, uint64_t missing,
                           struct error *error)
{
    return error_set(error, STATUS_BAD_INPUT,
                     "%s: byte %llu: the file is truncated, %llu more bytes should follow",
                     file->path, (unsigned long long)file->offset,
                     (unsigned long long)missing);
}

bool data_file_read(struct data_file *file, void *bytes, size_t count, struct error *error)
{
    char *to = bytes;
    while (count > 0) {
        size_t got = read_some(file, to, count, error);
        if (got == SIZE_MAX)
            return false;
        if (got == 0)
            return fail_truncated(file, count, error);
        to += got;
        count -= got;
    }
    return true;
}

/* Up to `limit` bytes, fewer when the file ends. */
static uint8_t *read_up_to(struct data_file *file, uint64_t limit, uint64_t *count,
                           struct error *error)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0, length = 0, got = 1;
    while (length < limit && got > 0) {
        uint64_t left = limit - length;
        size_t piece = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        if (!checked_grow((void **)&bytes, &capacity, length + piece, 1)) {
            error_memory(error, file->path);
            free(bytes);
            return NULL;
        }
        got = read_some(file, bytes + length, piece, error);
        if (got == SIZE_MAX) {
            free(bytes);
            return NULL;
        }
        length += got;
    }
    *count = length;
    if (bytes == NULL && (bytes = checked_calloc(0, 1)) == NULL)
        error_memory(error, file->path);
    return bytes;
}

uint8_t *data_file_read_array(struct data_file *file, uint64_t count, struct error *error)
{
    uint64_t found = 0;
    uint8_t *bytes = read_up_to(file, count, &found, error);
    if (bytes != NULL && found < count) {
        fail_truncated(file, count - found, error);
        free(bytes);
        return NULL;
    }
    return bytes;
}

uint8_t *data_file_read_rest(struct data_file *file, uint64_t *count, struct error *error)
{
    return read_up_to(file, SIZE_MAX, count, error);
}

bool data_file_end(struct data_file *file, struct error *error)
{
    char byte;
    uint64_t end = file->offset;
    size_t got = read_some(file, &byte, 1, error);
    if (got == 1)
        return error_set(error, STATUS_BAD_INPUT, "%s: byte %llu: the file should end here",
                         file->path, (unsigned long long)end);
    return got == 0;
}

char *data_file_path(const char *folder, const char *name, struct error *error)
{
    struct text path = {0};
    if (!text_append(&path, "%s/%s", folder, name)) {
        text_free(&path);
        error_memory(error, "file name");
    }
    return path.data;
}

void pixel_table_fill(struct pixel_table *table, size_t channels, const double *mean,
                      const double *deviation)
{
    for (size_t c = 0; c < channels; c++)
        for (size_t value = 0; value < 256; value++)
            table->value[c][value] =
                (scalar)(((double)value / 255 - mean[c]) / deviation[c]);
}
