/* What all kinds of data set have in common: the table, the common keys, the order of
 * samples, and augmentation. */
#include "engine/dataset.h"

#include "base/checked.h"
#include "engine/datasets/kinds.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct dataset_kind *const kinds[] = {
    &dataset_fashion_mnist,
    &dataset_idx,
    &dataset_cifar10,
    &dataset_cifar100,
    &dataset_text,
    &dataset_synthetic,
    &dataset_synthetic_images,
    &dataset_synthetic_sequence,
    &dataset_synthetic_translation,
    &dataset_teacher_student,
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), MAX_KEYS = 24 };

static const char *const sample_keys[DATASET_SPLITS] = {"train_samples", "test_samples"};

const char *dataset_kind_name(size_t index)
{
    return index < KINDS ? kinds[index]->name : NULL;
}

const char *dataset_kind_summary(size_t index)
{
    return index < KINDS ? kinds[index]->summary : NULL;
}

struct random_stream dataset_sample_stream(uint64_t seed, enum dataset_split split,
                                           uint64_t index)
{
    return random_stream((struct random_key){seed, RANDOM_DATA, split, index});
}

struct random_stream dataset_shared_stream(uint64_t seed, uint64_t what)
{
    return random_stream((struct random_key){seed, RANDOM_DATA, DATASET_SPLITS, what});
}

uint64_t dataset_choose(const struct random_stream *stream, uint64_t draw, uint64_t count)
{
    return (uint64_t)(random_stream_uniform(stream, draw) * (double)count);
}

uint64_t dataset_flip_class(const struct random_stream *stream, uint64_t draw,
                            uint64_t class, uint64_t classes, double noise)
{
    if (random_stream_uniform(stream, draw) >= noise)
        return class;
    uint64_t other = dataset_choose(stream, draw + 1, classes - 1);
    return other < class ? other : other + 1;
}

bool dataset_read_noise(const struct json_at *at, uint64_t classes, double *noise,
                        struct error *error)
{
    double largest = (double)(classes - 1) / (double)classes;
    return json_read_number(at, "noise", 0, largest, noise, error);
}

static bool check_keys(const struct json_at *at, const struct dataset_kind *kind,
                       struct error *error)
{
    static const char *const image_keys[] = {"flip", "crop_padding"};
    const char *keys[MAX_KEYS];
    size_t count = 0;
    keys[count++] = "kind";
    for (size_t i = 0; kind->keys[i] != NULL && count < MAX_KEYS; i++)
        keys[count++] = kind->keys[i];
    for (size_t i = 0; i < DATASET_SPLITS && count < MAX_KEYS; i++)
        keys[count++] = sample_keys[i];
    for (size_t i = 0; kind->images && i < 2 && count < MAX_KEYS; i++)
        keys[count++] = image_keys[i];
    if (kind->passage != NULL && count < MAX_KEYS)
        keys[count++] = "shift";
    return json_keys(at, keys, count, error);
}

static bool read_augmentation(const struct json_at *at, struct dataset *dataset,
                              struct error *error)
{
    const struct shape *shape = &dataset->description.input_shape;
    uint64_t most = 0;
    if (dataset->kind->passage != NULL)
        return json_read_boolean(at, "shift", &dataset->shift, error);
    if (!dataset->kind->images)
        return true;
    if (shape->rank == 3)
        most =
            (shape->extent[1] < shape->extent[2] ? shape->extent[1] : shape->extent[2]) - 1;
    if (!json_read_boolean(at, "flip", &dataset->flip, error) ||
        !json_read_u64(at, "crop_padding", 0, most, &dataset->crop_padding, error))
        return false;
    if (dataset->flip && shape->rank != 3)
        return json_fail(at, error, "\"flip\" needs images, these samples are vectors");
    return true;
}

/* The data set described, not opened. */
static struct dataset *create(const struct json_at *at, struct error *error)
{
    const char *names[KINDS];
    size_t chosen = 0;
    struct json_at kind;
    for (size_t i = 0; i < KINDS; i++)
        names[i] = kinds[i]->name;
    if (!json_expand(at, "kind", error) || !json_member(at, "kind", &kind, error) ||
        !json_choice(&kind, names, KINDS, &chosen, error) ||
        !check_keys(at, kinds[chosen], error))
        return NULL;
    struct dataset *dataset = checked_calloc(1, sizeof(*dataset));
    if (dataset == NULL) {
        error_memory(error, "data set");
        return NULL;
    }
    dataset->kind = kinds[chosen];
    struct dataset_description *description = &dataset->description;
    snprintf(description->name, sizeof(description->name), "%s", names[chosen]);
    description->labels = 1;
    description->bayes_error = description->bayes_loss = -1;
    bool good = true;
    for (size_t split = 0; split < DATASET_SPLITS && good; split++) {
        dataset->wanted[split] = UINT64_MAX;
        if (dataset->kind->generated)
            dataset->wanted[split] = split == DATASET_TRAIN ? 10000 : 2000;
        description->samples[split] = UINT64_MAX;
        good = json_read_u64(at, sample_keys[split], 1, UINT64_MAX, &dataset->wanted[split],
                             error);
    }
    if (good && dataset->kind->describe(at, dataset, error) &&
        read_augmentation(at, dataset, error))
        return dataset;
    dataset_free(dataset);
    return NULL;
}

static bool limit_samples(const struct json_at *at, struct dataset *dataset,
                          struct error *error)
{
    for (size_t split = 0; split < DATASET_SPLITS; split++) {
        uint64_t *samples = &dataset->description.samples[split];
        uint64_t wanted = dataset->wanted[split];
        if (wanted != UINT64_MAX && wanted > *samples)
            return json_fail(at, error, "\"%s\" is %llu, but there are only %llu",
                             sample_keys[split], (unsigned long long)wanted,
                             (unsigned long long)*samples);
        if (wanted < *samples)
            *samples = wanted;
    }
    return true;
}

bool dataset_describe(const struct json_at *at, struct dataset_description *description,
                      struct error *error)
{
    struct dataset *dataset = create(at, error);
    bool good = dataset != NULL && limit_samples(at, dataset, error);
    if (good)
        *description = dataset->description;
    dataset_free(dataset);
    return good;
}

struct dataset *dataset_open(const struct json_at *at, struct error *error)
{
    struct dataset *dataset = create(at, error);
    if (dataset == NULL)
        return NULL;
    if ((dataset->kind->open == NULL || dataset->kind->open(dataset, error)) &&
        limit_samples(at, dataset, error))
        return dataset;
    dataset_free(dataset);
    return NULL;
}

void dataset_free(struct dataset *dataset)
{
    if (dataset != NULL && dataset->data != NULL)
        dataset->kind->close(dataset);
    free(dataset);
}

const struct dataset_description *dataset_get_description(const struct dataset *dataset)
{
    return &dataset->description;
}

void dataset_sample(const struct dataset *dataset, enum dataset_split split, uint64_t index,
                    scalar *input, int32_t *labels)
{
    assert(index < dataset->description.samples[split]);
    dataset->kind->sample(dataset, split, index, input, labels);
}

static void mirror(scalar *row, uint64_t width)
{
    for (uint64_t x = 0; x < width / 2; x++) {
        scalar kept = row[x];
        row[x] = row[width - 1 - x];
        row[width - 1 - x] = kept;
    }
}

/* row[x] = from[x + shift], and border where that is outside. The two may be one. */
static void shift_row(scalar *row, const scalar *from, uint64_t width, int64_t shift,
                      scalar border)
{
    uint64_t away = (uint64_t)(shift < 0 ? -shift : shift);
    uint64_t kept = width - away;
    memmove(shift < 0 ? row + away : row, shift < 0 ? from : from + away,
            kept * sizeof(*row));
    for (uint64_t x = 0; x < away; x++)
        row[shift < 0 ? x : kept + x] = border;
}

/* plane[y][x] = plane[y + down][x + right], rows in the order that reads each before it
 * is overwritten. */
static void shift_plane(scalar *plane, uint64_t height, uint64_t width, int64_t down,
                        int64_t right, scalar border)
{
    for (uint64_t i = 0; i < height; i++) {
        uint64_t y = down < 0 ? height - 1 - i : i;
        uint64_t from = y + (uint64_t)down; /* wraps past the top: then it is >= height */
        if (from < height) {
            shift_row(plane + y * width, plane + from * width, width, right, border);
            continue;
        }
        for (uint64_t x = 0; x < width; x++)
            plane[y * width + x] = border;
    }
}

/* key.b is the sample. Only bytes of the samples in use are seen: the last one stays. */
static uint64_t shifted_start(const struct dataset *dataset, struct random_key key)
{
    uint64_t length = dataset->description.labels;
    uint64_t last = (dataset->description.samples[DATASET_TRAIN] - 1) * length;
    struct random_stream stream = random_stream(key);
    uint64_t start = key.b * length + dataset_choose(&stream, 0, length);
    return start < last ? start : last;
}

void dataset_training_sample(const struct dataset *dataset, uint64_t seed, uint64_t step,
                             uint64_t index, scalar *input, int32_t *labels)
{
    struct random_key key = {seed, RANDOM_AUGMENT, (uint32_t)step, index};
    if (dataset->shift) {
        dataset->kind->passage(dataset, shifted_start(dataset, key), input, labels);
        return;
    }
    dataset_sample(dataset, DATASET_TRAIN, index, input, labels);
    if (!dataset->flip && dataset->crop_padding == 0)
        return;
    const uint64_t *extent = dataset->description.input_shape.extent;
    struct random_stream stream = random_stream(key);
    uint64_t padding = dataset->crop_padding;
    bool flip = dataset->flip && random_stream_uniform(&stream, 0) < 0.5;
    int64_t down = (int64_t)(dataset_choose(&stream, 1, 2 * padding + 1) - padding);
    int64_t right = (int64_t)(dataset_choose(&stream, 2, 2 * padding + 1) - padding);
    for (uint64_t c = 0; c < extent[0]; c++) {
        scalar *plane = input + c * extent[1] * extent[2];
        scalar border =
            dataset->kind->border == NULL ? 0 : dataset->kind->border(dataset, c);
        if (down != 0 || right != 0)
            shift_plane(plane, extent[1], extent[2], down, right, border);
        for (uint64_t y = 0; flip && y < extent[1]; y++)
            mirror(plane + y * extent[2], extent[2]);
    }
}

uint64_t dataset_order(const struct dataset *dataset, uint64_t seed, uint64_t position)
{
    uint64_t count = dataset->description.samples[DATASET_TRAIN];
    uint64_t epoch = position / count;
    struct random_key key = {seed, RANDOM_ORDER, (uint32_t)epoch, epoch >> 32};
    return random_permutation(key, count, position % count);
}
