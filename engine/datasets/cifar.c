/* CIFAR-10 and CIFAR-100 (Krizhevsky 2009), binary version: records of one label byte
 * (two for CIFAR-100: coarse, fine) and 3 x 32 x 32 pixels, channel after channel. */
#include "base/checked.h"
#include "engine/datasets/file.h"
#include "engine/datasets/kinds.h"

#include <stdlib.h>
#include <string.h>

enum { IMAGE_BYTES = 3 * 32 * 32, PLANE_BYTES = 32 * 32, MAX_FILES = 5 };

struct cifar_layout {
    const char *files[DATASET_SPLITS][MAX_FILES + 1];
    size_t label_bytes;
    uint64_t classes[2]; /* by label byte */
    double mean[3], deviation[3];
};

/* Means and deviations of the training images, per channel. */
static const struct cifar_layout cifar10 = {
    .files = {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
               "data_batch_4.bin", "data_batch_5.bin"},
              {"test_batch.bin"}},
    .label_bytes = 1,
    .classes = {10},
    .mean = {0.4914, 0.4822, 0.4465},
    .deviation = {0.2470, 0.2435, 0.2616},
};
static const struct cifar_layout cifar100 = {
    .files = {{"train.bin"}, {"test.bin"}},
    .label_bytes = 2,
    .classes = {20, 100},
    .mean = {0.5071, 0.4865, 0.4409},
    .deviation = {0.2673, 0.2564, 0.2762},
};

struct cifar_set {
    const struct cifar_layout *layout;
    size_t label_byte; /* which of the label bytes is the label */
    char *folder;
    uint8_t *records[DATASET_SPLITS];
    struct pixel_table table;
};

static size_t record_bytes(const struct cifar_set *set)
{
    return set->layout->label_bytes + IMAGE_BYTES;
}

static bool check_records(const struct cifar_set *set, const char *path,
                          const uint8_t *records, uint64_t bytes, struct error *error)
{
    size_t size = record_bytes(set);
    if (bytes == 0 || bytes % size != 0)
        return error_set(error, STATUS_BAD_INPUT,
                         "%s: byte %llu: the file is %s: records are of %zu bytes", path,
                         (unsigned long long)(bytes / size * size),
                         bytes == 0 ? "empty" : "truncated in a record", size);
    for (uint64_t i = 0; i < bytes / size; i++)
        for (size_t k = 0; k < set->layout->label_bytes; k++)
            if (records[i * size + k] >= set->layout->classes[k])
                return error_set(error, STATUS_BAD_INPUT,
                                 "%s: byte %llu: label %u of record %llu, but there are "
                                 "only %llu classes",
                                 path, (unsigned long long)(i * size + k),
                                 records[i * size + k], (unsigned long long)i,
                                 (unsigned long long)set->layout->classes[k]);
    return true;
}

/* Appends one file's records to the split's. */
static bool load_file(struct dataset *dataset, enum dataset_split split, const char *name,
                      size_t *capacity, struct error *error)
{
    struct cifar_set *set = dataset->data;
    uint64_t *samples = &dataset->description.samples[split];
    char *path = data_file_path(set->folder, name, error);
    if (path == NULL)
        return false;
    struct data_file file;
    uint8_t *bytes = NULL;
    uint64_t count = 0;
    bool good = data_file_open(&file, path,
                               "it is in the binary version of the set, from "
                               "https://www.cs.toronto.edu/~kriz/cifar.html",
                               error) &&
                (bytes = data_file_read_rest(&file, &count, error)) != NULL &&
                check_records(set, path, bytes, count, error);
    if (good) {
        size_t used = (size_t)*samples * record_bytes(set);
        good =
            checked_grow((void **)&set->records[split], capacity, used + (size_t)count, 1);
        if (good) {
            memcpy(set->records[split] + used, bytes, (size_t)count);
            *samples += count / record_bytes(set);
        } else {
            error_memory(error, path);
        }
    }
    data_file_close(&file);
    free(bytes);
    free(path);
    return good;
}

static bool open_cifar(struct dataset *dataset, struct error *error)
{
    const struct cifar_set *set = dataset->data;
    for (enum dataset_split split = DATASET_TRAIN; split < DATASET_SPLITS; split++) {
        size_t capacity = 0;
        dataset->description.samples[split] = 0;
        for (size_t i = 0; set->layout->files[split][i] != NULL; i++)
            if (!load_file(dataset, split, set->layout->files[split][i], &capacity, error))
                return false;
    }
    return true;
}

static void sample_cifar(const struct dataset *dataset, enum dataset_split split,
                         uint64_t index, scalar *input, int32_t *labels)
{
    const struct cifar_set *set = dataset->data;
    const uint8_t *record = set->records[split] + index * record_bytes(set);
    const uint8_t *pixel = record + set->layout->label_bytes;
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < PLANE_BYTES; i++)
            input[c * PLANE_BYTES + i] = set->table.value[c][pixel[c * PLANE_BYTES + i]];
    labels[0] = record[set->label_byte];
}

static scalar border_cifar(const struct dataset *dataset, uint64_t channel)
{
    return ((const struct cifar_set *)dataset->data)->table.value[channel][0];
}

static void close_cifar(struct dataset *dataset)
{
    struct cifar_set *set = dataset->data;
    free(set->folder);
    free(set->records[DATASET_TRAIN]);
    free(set->records[DATASET_TEST]);
    free(set);
}

static bool describe_cifar(const struct json_at *at, struct dataset *dataset,
                           const struct cifar_layout *layout, size_t label_byte,
                           struct error *error)
{
    struct cifar_set *set = dataset->data = checked_calloc(1, sizeof(*set));
    if (set == NULL)
        return error_memory(error, "data set");
    struct json_at member;
    const char *folder = NULL;
    if (!json_member(at, "path", &member, error) || !json_string(&member, &folder, error))
        return false;
    if ((set->folder = strdup(folder)) == NULL)
        return error_memory(error, "file name");
    set->layout = layout;
    set->label_byte = label_byte;
    pixel_table_fill(&set->table, 3, layout->mean, layout->deviation);
    dataset->description.input_shape = (struct shape){3, {3, 32, 32}};
    dataset->description.classes = layout->classes[label_byte];
    dataset->description.samples[DATASET_TRAIN] = 50000;
    dataset->description.samples[DATASET_TEST] = 10000;
    return true;
}

static bool describe_cifar10(const struct json_at *at, struct dataset *dataset,
                             struct error *error)
{
    return describe_cifar(at, dataset, &cifar10, 0, error);
}

static bool describe_cifar100(const struct json_at *at, struct dataset *dataset,
                              struct error *error)
{
    static const char *const names[] = {"coarse", "fine"};
    size_t label_byte = 1;
    return json_read_choice(at, "labels", names, 2, &label_byte, error) &&
           describe_cifar(at, dataset, &cifar100, label_byte, error);
}

const struct dataset_kind dataset_cifar10 = {
    .name = "cifar10",
    .summary = "50000 + 10000 colour 32x32 photographs, 10 classes; \"path\": their folder",
    .keys = (const char *const[]){"path", NULL},
    .images = true,
    .describe = describe_cifar10,
    .open = open_cifar,
    .sample = sample_cifar,
    .close = close_cifar,
    .border = border_cifar,
};

const struct dataset_kind dataset_cifar100 = {
    .name = "cifar100",
    .summary = "as cifar10 with 100 classes (\"labels\": \"fine\") or 20 (\"coarse\")",
    .keys = (const char *const[]){"path", "labels", NULL},
    .images = true,
    .describe = describe_cifar100,
    .open = open_cifar,
    .sample = sample_cifar,
    .close = close_cifar,
    .border = border_cifar,
};
