/* Image sets in IDX files, the format of MNIST: a magic number (two zero bytes, the type,
 * the rank), the extents as 32-bit big-endian numbers, then the bytes. Fashion-MNIST
 * (Xiao, Rasul and Vollgraf 2017) is such a set of known size. */
#include "base/checked.h"
#include "engine/datasets/file.h"
#include "engine/datasets/kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDX_BYTE = 0x08, IDX_MAX_RANK = 4, FILES = 4 };

struct idx_set {
    char *path[DATASET_SPLITS][2]; /* images, labels */
    const char *source;
    uint64_t image_bytes;
    uint8_t *pixels[DATASET_SPLITS], *labels[DATASET_SPLITS];
    struct pixel_table table;
};

struct idx_header {
    size_t rank;
    uint64_t extent[IDX_MAX_RANK];
};

static bool read_header(struct data_file *file, size_t least_rank, size_t most_rank,
                        struct idx_header *header, struct error *error)
{
    uint8_t magic[4], word[4];
    if (!data_file_read(file, magic, sizeof(magic), error))
        return false;
    if (magic[0] != 0 || magic[1] != 0 || magic[2] != IDX_BYTE)
        return error_set(error, STATUS_BAD_INPUT,
                         "%s: byte 0: the magic number is %02x%02x%02x%02x; an IDX file of "
                         "bytes begins with 000008",
                         file->path, magic[0], magic[1], magic[2], magic[3]);
    header->rank = magic[3];
    if (header->rank < least_rank || header->rank > most_rank)
        return error_set(
            error, STATUS_BAD_INPUT,
            "%s: byte 3: the data has %zu dimensions, it should have %zu to %zu",
            file->path, header->rank, least_rank, most_rank);
    for (size_t i = 0; i < header->rank; i++) {
        if (!data_file_read(file, word, sizeof(word), error))
            return false;
        header->extent[i] = (uint64_t)word[0] << 24 | (uint64_t)word[1] << 16 |
                            (uint64_t)word[2] << 8 | word[3];
        if (header->extent[i] == 0)
            return error_set(error, STATUS_BAD_INPUT, "%s: byte %zu: dimension %zu is 0",
                             file->path, 4 + 4 * i, i);
    }
    return true;
}

/* The shape of one image: [features], [1, height, width] or [channels, height, width]. */
static struct shape image_shape(const struct idx_header *header)
{
    struct shape shape = {.rank = header->rank == 2 ? 1 : 3};
    if (header->rank == 3)
        shape.extent[0] = 1;
    size_t shift = shape.rank - (header->rank - 1);
    for (size_t i = 1; i < header->rank; i++)
        shape.extent[i - 1 + shift] = header->extent[i];
    return shape;
}

/* Opens an images file and checks its header against the description, or, for the first
 * file of a set of any shape, takes the shape from it. */
static bool open_images(struct dataset *dataset, enum dataset_split split,
                        struct data_file *file, struct error *error)
{
    struct idx_set *set = dataset->data;
    struct dataset_description *description = &dataset->description;
    struct idx_header header;
    if (!data_file_open(file, set->path[split][0], set->source, error))
        return false;
    if (!read_header(file, 2, IDX_MAX_RANK, &header, error))
        return false;
    struct shape shape = image_shape(&header);
    uint64_t all;
    set->image_bytes = 1;
    for (size_t i = 0; i < shape.rank; i++)
        if (!checked_multiply(set->image_bytes, shape.extent[i], &set->image_bytes))
            set->image_bytes = UINT64_MAX;
    if (!checked_multiply(set->image_bytes, header.extent[0], &all) || all > PTRDIFF_MAX)
        return error_set(error, STATUS_BAD_INPUT, "%s: byte 4: the images are too large",
                         file->path);
    if (description->input_shape.rank == 0)
        description->input_shape = shape;
    if (!shape_equal(&description->input_shape, &shape)) {
        char found[64], wanted[64];
        shape_text(&shape, found);
        shape_text(&description->input_shape, wanted);
        return error_set(error, STATUS_BAD_INPUT,
                         "%s: byte 8: the images are %s, they should be %s", file->path,
                         found, wanted);
    }
    description->samples[split] = header.extent[0];
    return true;
}

static bool load_labels(struct dataset *dataset, enum dataset_split split,
                        struct data_file *file, struct error *error)
{
    struct idx_set *set = dataset->data;
    uint64_t images = dataset->description.samples[split];
    struct idx_header header;
    if (!data_file_open(file, set->path[split][1], set->source, error) ||
        !read_header(file, 1, 1, &header, error))
        return false;
    if (header.extent[0] != images)
        return error_set(error, STATUS_BAD_INPUT,
                         "%s: byte 4: there are %llu labels for the %llu images of %s",
                         file->path, (unsigned long long)header.extent[0],
                         (unsigned long long)images, set->path[split][0]);
    set->labels[split] = data_file_read_array(file, images, error);
    if (set->labels[split] == NULL || !data_file_end(file, error))
        return false;
    for (uint64_t i = 0; i < images; i++)
        if (set->labels[split][i] >= dataset->description.classes)
            return error_set(
                error, STATUS_BAD_INPUT,
                "%s: byte %llu: label %u of record %llu, but there are only %llu "
                "classes",
                file->path, (unsigned long long)(i + 8), set->labels[split][i],
                (unsigned long long)i, (unsigned long long)dataset->description.classes);
    return true;
}

static bool open_idx(struct dataset *dataset, struct error *error)
{
    struct idx_set *set = dataset->data;
    for (enum dataset_split split = DATASET_TRAIN; split < DATASET_SPLITS; split++) {
        struct data_file file = {0};
        bool good = open_images(dataset, split, &file, error);
        if (good) {
            uint64_t bytes = dataset->description.samples[split] * set->image_bytes;
            set->pixels[split] = data_file_read_array(&file, bytes, error);
            good = set->pixels[split] != NULL && data_file_end(&file, error);
        }
        data_file_close(&file);
        if (good)
            good = load_labels(dataset, split, &file, error);
        data_file_close(&file);
        if (!good)
            return false;
    }
    return true;
}

static void sample_idx(const struct dataset *dataset, enum dataset_split split,
                       uint64_t index, scalar *input, int32_t *labels)
{
    const struct idx_set *set = dataset->data;
    const uint8_t *pixel = set->pixels[split] + index * set->image_bytes;
    for (uint64_t i = 0; i < set->image_bytes; i++)
        input[i] = set->table.value[0][pixel[i]];
    labels[0] = set->labels[split][index];
}

static scalar border_idx(const struct dataset *dataset, uint64_t channel)
{
    (void)channel;
    return ((const struct idx_set *)dataset->data)->table.value[0][0];
}

static void close_idx(struct dataset *dataset)
{
    struct idx_set *set = dataset->data;
    for (size_t split = 0; split < DATASET_SPLITS; split++) {
        free(set->path[split][0]);
        free(set->path[split][1]);
        free(set->pixels[split]);
        free(set->labels[split]);
    }
    free(set);
}

static const char *const file_keys[DATASET_SPLITS][2] = {{"train_images", "train_labels"},
                                                         {"test_images", "test_labels"}};

static bool describe_idx(const struct json_at *at, struct dataset *dataset,
                         struct error *error)
{
    struct idx_set *set = dataset->data = checked_calloc(1, sizeof(*set));
    if (set == NULL)
        return error_memory(error, "data set");
    double mean = 0.5, deviation = 0.5;
    uint64_t classes = 10;
    if (!json_read_u64(at, "classes", 2, 256, &classes, error) ||
        !json_read_number(at, "mean", -1e6, 1e6, &mean, error) ||
        !json_read_number(at, "std", 1e-6, 1e6, &deviation, error))
        return false;
    pixel_table_fill(&set->table, 1, &mean, &deviation);
    dataset->description.classes = classes;
    for (enum dataset_split split = DATASET_TRAIN; split < DATASET_SPLITS; split++) {
        for (size_t i = 0; i < 2; i++) {
            struct json_at member;
            const char *path = NULL;
            if (!json_member(at, file_keys[split][i], &member, error) ||
                !json_string(&member, &path, error))
                return false;
            if ((set->path[split][i] = strdup(path)) == NULL)
                return error_memory(error, "file name");
        }
        struct data_file file = {0};
        bool good = open_images(dataset, split, &file, error);
        data_file_close(&file);
        if (!good)
            return false;
    }
    return true;
}

/* Compressed as the Debian package has it, or else plain. */
static char *find_fashion_file(const char *folder, const char *name, struct error *error)
{
    char *path = data_file_path(folder, name, error);
    if (path == NULL || access(path, F_OK) == 0)
        return path;
    char *plain = data_file_path(folder, name, error);
    if (plain != NULL)
        plain[strlen(plain) - strlen(".gz")] = '\0';
    if (plain != NULL && access(plain, F_OK) == 0) {
        free(path);
        return plain;
    }
    free(plain);
    return path;
}

static bool describe_fashion_mnist(const struct json_at *at, struct dataset *dataset,
                                   struct error *error)
{
    static const char *const name[DATASET_SPLITS][2] = {
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"},
        {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"}};
    /* Mean and deviation of the pixels of the training images. */
    const double mean = 0.2860, deviation = 0.3530;
    struct idx_set *set = dataset->data = checked_calloc(1, sizeof(*set));
    if (set == NULL)
        return error_memory(error, "data set");
    const char *folder = "/usr/share/datasets/fashion-mnist";
    if (!json_read_string(at, "path", &folder, error))
        return false;
    for (size_t split = 0; split < DATASET_SPLITS; split++) {
        for (size_t i = 0; i < 2; i++) {
            set->path[split][i] = find_fashion_file(folder, name[split][i], error);
            if (set->path[split][i] == NULL)
                return false;
        }
    }
    set->source =
        "the Debian package dataset-fashion-mnist provides it, or give the folder "
        "as \"path\"";
    pixel_table_fill(&set->table, 1, &mean, &deviation);
    dataset->description.input_shape = (struct shape){3, {1, 28, 28}};
    dataset->description.classes = 10;
    dataset->description.samples[DATASET_TRAIN] = 60000;
    dataset->description.samples[DATASET_TEST] = 10000;
    return true;
}

const struct dataset_kind dataset_fashion_mnist = {
    .name = "fashion_mnist",
    .summary = "60000 + 10000 grey 28x28 pictures of clothes, 10 classes",
    .keys = (const char *const[]){"path", NULL},
    .images = true,
    .describe = describe_fashion_mnist,
    .open = open_idx,
    .sample = sample_idx,
    .close = close_idx,
    .border = border_idx,
};

const struct dataset_kind dataset_idx = {
    .name = "idx",
    .summary = "any image set in IDX files (MNIST's format), plain or gzip",
    .keys = (const char *const[]){"train_images", "train_labels", "test_images",
                                  "test_labels", "classes", "mean", "std", NULL},
    .images = true,
    .describe = describe_idx,
    .open = open_idx,
    .sample = sample_idx,
    .close = close_idx,
    .border = border_idx,
};
