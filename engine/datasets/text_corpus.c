/* Language modelling on bytes: a sample is `length` bytes, its labels are each byte's
 * successor. A folder stands for its regular files (no symbolic links, no hidden ones) one
 * after the other in byte order of their names. The last tenth of every file belongs to the
 * test split. */
#include "base/checked.h"
#include "engine/datasets/file.h"
#include "engine/datasets/kinds.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct corpus {
    char **path;
    size_t path_count, path_capacity;
    uint64_t length;
    uint8_t *bytes; /* what all files train with, then their last tenths */
    uint64_t byte_count, test_count;
};

static bool add_file(struct corpus *corpus, char *path, uint64_t bytes, struct error *error)
{
    if (!checked_grow((void **)&corpus->path, &corpus->path_capacity,
                      corpus->path_count + 1, sizeof(*corpus->path))) {
        free(path);
        return error_memory(error, "file names");
    }
    corpus->path[corpus->path_count++] = path;
    corpus->byte_count += bytes;
    corpus->test_count += bytes / 10;
    return true;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool list_folder(struct corpus *corpus, const char *folder, struct error *error)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return error_set(error, STATUS_BAD_INPUT, "%s: cannot be read: %s", folder,
                         strerror(errno));
    bool good = true;
    for (const struct dirent *entry; good && (entry = readdir(directory)) != NULL;) {
        struct stat status;
        if (entry->d_name[0] == '.')
            continue;
        char *path = data_file_path(folder, entry->d_name, error);
        if (path == NULL)
            good = false;
        else if (lstat(path, &status) == 0 && S_ISREG(status.st_mode))
            good = add_file(corpus, path, (uint64_t)status.st_size, error);
        else
            free(path);
    }
    closedir(directory);
    if (good && corpus->path_count == 0)
        return error_set(error, STATUS_BAD_INPUT, "%s: no regular file in this folder",
                         folder);
    if (good)
        qsort(corpus->path, corpus->path_count, sizeof(*corpus->path), compare_paths);
    return good;
}

static bool list_files(struct corpus *corpus, const char *path, struct error *error)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return error_set(error, STATUS_BAD_INPUT, "%s: cannot be opened: %s", path,
                         strerror(errno));
    if (S_ISDIR(status.st_mode))
        return list_folder(corpus, path, error);
    char *copy = strdup(path);
    if (copy == NULL)
        return error_memory(error, "file name");
    return add_file(corpus, copy, (uint64_t)status.st_size, error);
}

/* Each sample needs the byte after its last, which may be the next sample's first. */
static bool count_samples(struct dataset *dataset, struct error *error)
{
    const struct corpus *corpus = dataset->data;
    uint64_t part[DATASET_SPLITS] = {corpus->byte_count - corpus->test_count,
                                     corpus->test_count};
    for (size_t split = 0; split < DATASET_SPLITS; split++) {
        uint64_t samples = part[split] == 0 ? 0 : (part[split] - 1) / corpus->length;
        dataset->description.samples[split] = samples;
        if (samples == 0)
            return error_set(
                error, STATUS_BAD_INPUT,
                "%s: a text of %llu bytes is too short for samples of length %llu",
                corpus->path[0], (unsigned long long)corpus->byte_count,
                (unsigned long long)corpus->length);
    }
    return true;
}

static bool describe_text(const struct json_at *at, struct dataset *dataset,
                          struct error *error)
{
    struct corpus *corpus = dataset->data = checked_calloc(1, sizeof(*corpus));
    if (corpus == NULL)
        return error_memory(error, "data set");
    const char *path = "/usr/share/common-licenses";
    corpus->length = 128;
    if (!json_read_string(at, "path", &path, error) ||
        !json_read_u64(at, "length", 1, 1 << 20, &corpus->length, error) ||
        !list_files(corpus, path, error))
        return false;
    dataset->description.input_shape = (struct shape){1, {corpus->length}};
    dataset->description.vocabulary = 256;
    dataset->description.classes = 256;
    dataset->description.labels = corpus->length;
    return count_samples(dataset, error);
}

/* Read as they are, not through gzip: the sizes of the description are the files'. */
static bool append_file(struct corpus *corpus, const char *path, size_t *capacity,
                        struct error *error)
{
    enum { PIECE_BYTES = 1 << 16 };
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return error_set(error, STATUS_BAD_INPUT, "%s: cannot be opened: %s", path,
                         strerror(errno));
    size_t got = 1;
    bool good = true;
    while (good && got > 0) {
        good = checked_grow((void **)&corpus->bytes, capacity,
                            (size_t)corpus->byte_count + PIECE_BYTES, 1);
        if (!good) {
            error_memory(error, path);
            break;
        }
        got = fread(corpus->bytes + corpus->byte_count, 1, PIECE_BYTES, stream);
        corpus->byte_count += got;
    }
    if (good && ferror(stream))
        good = error_set(error, STATUS_BAD_INPUT, "%s: cannot be read: %s", path,
                         strerror(errno));
    fclose(stream);
    return good;
}

struct tails {
    uint8_t *bytes;
    size_t count, capacity;
};

/* Of the file that begins at `before`. */
static bool cut_tail(struct corpus *corpus, uint64_t before, struct tails *tails,
                     struct error *error)
{
    size_t count = (size_t)((corpus->byte_count - before) / 10);
    if (!checked_grow((void **)&tails->bytes, &tails->capacity, tails->count + count + 1, 1))
        return error_memory(error, "text");
    corpus->byte_count -= count;
    memcpy(tails->bytes + tails->count, corpus->bytes + corpus->byte_count, count);
    tails->count += count;
    return true;
}

static bool join_tails(struct corpus *corpus, const struct tails *tails, size_t *capacity,
                       struct error *error)
{
    if (!checked_grow((void **)&corpus->bytes, capacity,
                      (size_t)corpus->byte_count + tails->count + 1, 1))
        return error_memory(error, "text");
    memcpy(corpus->bytes + corpus->byte_count, tails->bytes, tails->count);
    corpus->byte_count += tails->count;
    corpus->test_count = tails->count;
    return true;
}

static bool open_text(struct dataset *dataset, struct error *error)
{
    struct corpus *corpus = dataset->data;
    struct tails tails = {NULL, 0, 0};
    size_t capacity = 0;
    bool good = true;
    corpus->byte_count = 0;
    for (size_t i = 0; good && i < corpus->path_count; i++) {
        uint64_t before = corpus->byte_count;
        good = append_file(corpus, corpus->path[i], &capacity, error) &&
               cut_tail(corpus, before, &tails, error);
    }
    good = good && join_tails(corpus, &tails, &capacity, error);
    free(tails.bytes);
    return good && count_samples(dataset, error);
}

static void passage_of_text(const struct dataset *dataset, uint64_t first, scalar *input,
                            int32_t *labels)
{
    const struct corpus *corpus = dataset->data;
    const uint8_t *byte = corpus->bytes + first;
    for (uint64_t i = 0; i < corpus->length; i++) {
        input[i] = (scalar)byte[i];
        labels[i] = byte[i + 1];
    }
}

static void sample_text(const struct dataset *dataset, enum dataset_split split,
                        uint64_t index, scalar *input, int32_t *labels)
{
    const struct corpus *corpus = dataset->data;
    uint64_t first = split == DATASET_TRAIN ? 0 : corpus->byte_count - corpus->test_count;
    passage_of_text(dataset, first + index * corpus->length, input, labels);
}

static void close_text(struct dataset *dataset)
{
    struct corpus *corpus = dataset->data;
    for (size_t i = 0; i < corpus->path_count; i++)
        free(corpus->path[i]);
    free(corpus->path);
    free(corpus->bytes);
    free(corpus);
}

const struct dataset_kind dataset_text = {
    .name = "text",
    .summary = "the bytes of a text file or folder, each predicted from those before it",
    .keys = (const char *const[]){"path", "length", NULL},
    .describe = describe_text,
    .open = open_text,
    .sample = sample_text,
    .passage = passage_of_text,
    .close = close_text,
};
