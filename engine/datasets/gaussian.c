/* Classes that are Gaussian clouds of unit variance whose means are all at the distance
 * `separation` from each other (separation / sqrt(2) along orthogonal directions), all
 * equally likely, with labels replaced by another class with probability `noise`. The
 * lowest reachable error is therefore known. `synthetic` has vectors whose directions are
 * the axes; `synthetic_images` has images whose directions are cosine waves, the lowest
 * frequencies first, each in one channel. */
#include "base/checked.h"
#include "engine/datasets/kinds.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_COUNT = 1 << 24 };

struct clouds {
    uint64_t seed;
    uint64_t classes;
    uint64_t count; /* scalars of a sample */
    double separation, noise;
    /* Images: class k is column[k][y] * row[k][x] in one channel. */
    uint64_t height, width;
    uint64_t *channel;
    scalar *column, *row;
};

/* The error of the best classifier of the clouds without label noise. Its score of the
 * right class is normal with mean s = separation / sqrt(2), each other score is normal
 * with mean 0, all independent: it errs unless the first is the largest. The integrand
 * is smooth and vanishes at both ends, so that the trapezoid rule is as good as exact. */
static double cloud_error(double separation, uint64_t classes)
{
    const double step = 0.005, reach = 14;
    double s = separation * sqrt(0.5), sum = 0;
    for (double t = -reach; t <= reach; t += step) {
        double above = 0.5 * erfc((s + t) * sqrt(0.5));
        double density = exp(-0.5 * t * t) / sqrt(2 * acos(-1.0));
        sum += density * -expm1((double)(classes - 1) * log1p(-above)) * step;
    }
    return sum;
}

/* A wrong answer is right by chance when the label was replaced by just that class. */
static double noisy_error(double error, double noise, uint64_t classes)
{
    return error + noise - error * noise * (double)classes / (double)(classes - 1);
}

static bool read_clouds(const struct json_at *at, struct dataset *dataset,
                        double separation, struct error *error)
{
    struct clouds *clouds = dataset->data;
    clouds->seed = 1;
    clouds->classes = 10;
    clouds->separation = separation;
    if (!json_read_u64(at, "classes", 2, 65536, &clouds->classes, error) ||
        !json_read_number(at, "separation", 0, 1e6, &clouds->separation, error) ||
        !dataset_read_noise(at, clouds->classes, &clouds->noise, error) ||
        !json_read_u64(at, "seed", 0, UINT64_MAX, &clouds->seed, error))
        return false;
    if (clouds->classes > clouds->count)
        return json_fail(at, error,
                         "%llu classes at equal distances need samples of at least as many "
                         "numbers, these have %llu",
                         (unsigned long long)clouds->classes,
                         (unsigned long long)clouds->count);
    dataset->description.classes = clouds->classes;
    dataset->description.bayes_error = noisy_error(
        cloud_error(clouds->separation, clouds->classes), clouds->noise, clouds->classes);
    return true;
}

static bool describe_vectors(const struct json_at *at, struct dataset *dataset,
                             struct error *error)
{
    struct clouds *clouds = dataset->data = checked_calloc(1, sizeof(*clouds));
    if (clouds == NULL)
        return error_memory(error, "data set");
    clouds->count = 32;
    if (!json_read_u64(at, "features", 2, MAX_COUNT, &clouds->count, error) ||
        !read_clouds(at, dataset, 4, error))
        return false;
    dataset->description.input_shape = (struct shape){1, {clouds->count}};
    return true;
}

/* The cloud without its mean; gives the class the mean is of. */
static uint64_t sample_cloud(const struct dataset *dataset, enum dataset_split split,
                             uint64_t index, scalar *input, int32_t *labels)
{
    const struct clouds *clouds = dataset->data;
    struct random_stream stream = dataset_sample_stream(clouds->seed, split, index);
    uint64_t class = dataset_choose(&stream, 0, clouds->classes);
    labels[0] =
        (int32_t)dataset_flip_class(&stream, 1, class, clouds->classes, clouds->noise);
    for (uint64_t i = 0; i < clouds->count; i++)
        input[i] = (scalar)random_stream_normal(&stream, 3 + i);
    return class;
}

static void sample_vector(const struct dataset *dataset, enum dataset_split split,
                          uint64_t index, scalar *input, int32_t *labels)
{
    const struct clouds *clouds = dataset->data;
    uint64_t class = sample_cloud(dataset, split, index, input, labels);
    input[class] += (scalar)(clouds->separation * sqrt(0.5));
}

static bool read_image_shape(const struct json_at *at, struct shape *shape,
                             struct error *error)
{
    struct json_at list, element;
    *shape = (struct shape){3, {3, 32, 32}};
    if (!json_optional(at, "shape", &list)) {
        cJSON *node = cJSON_CreateIntArray((const int[]){3, 32, 32}, 3);
        if (node == NULL || !cJSON_AddItemToObject(at->node, "shape", node)) {
            cJSON_Delete(node);
            return error_memory(error, "JSON default");
        }
        return true;
    }
    if (json_length(&list) != 3)
        return json_fail(&list, error, "must be [channels, height, width]");
    for (size_t i = 0; i < 3; i++)
        if (!json_element(&list, i, &element) ||
            !json_u64(&element, 1, 4096, &shape->extent[i], error))
            return false;
    return true;
}

static bool describe_images(const struct json_at *at, struct dataset *dataset,
                            struct error *error)
{
    struct clouds *clouds = dataset->data = checked_calloc(1, sizeof(*clouds));
    if (clouds == NULL)
        return error_memory(error, "data set");
    struct shape *shape = &dataset->description.input_shape;
    if (!read_image_shape(at, shape, error))
        return false;
    clouds->count = shape_count(shape);
    if (clouds->count > MAX_COUNT)
        return json_fail(at, error, "images of more than %d numbers are refused",
                         MAX_COUNT);
    clouds->height = shape->extent[1];
    clouds->width = shape->extent[2];
    return read_clouds(at, dataset, 8, error);
}

/* A wave of unit length: cos(pi (i + 1/2) frequency / count), the basis of the discrete
 * cosine transform. */
static void fill_wave(scalar *wave, uint64_t count, uint64_t frequency, double amplitude)
{
    double length = sqrt((double)count / (frequency == 0 ? 1 : 2));
    for (uint64_t i = 0; i < count; i++)
        wave[i] = (scalar)(amplitude / length *
                           cos(acos(-1.0) * ((double)i + 0.5) * (double)frequency /
                               (double)count));
}

static bool open_images(struct dataset *dataset, struct error *error)
{
    struct clouds *clouds = dataset->data;
    const uint64_t *extent = dataset->description.input_shape.extent;
    clouds->channel = checked_calloc(clouds->classes, sizeof(*clouds->channel));
    clouds->column = checked_calloc(clouds->classes, clouds->height * sizeof(scalar));
    clouds->row = checked_calloc(clouds->classes, clouds->width * sizeof(scalar));
    if (clouds->channel == NULL || clouds->column == NULL || clouds->row == NULL)
        return error_memory(error, "synthetic images");
    double amplitude = clouds->separation * sqrt(0.5);
    uint64_t class = 0;
    for (uint64_t sum = 0; class < clouds->classes; sum++) {
        for (uint64_t u = 0; u <= sum; u++) {
            if (u >= extent[1] || sum - u >= extent[2])
                continue;
            for (uint64_t c = 0; c < extent[0] && class < clouds->classes; c++, class ++) {
                clouds->channel[class] = c;
                fill_wave(clouds->column + class * extent[1], extent[1], u, amplitude);
                fill_wave(clouds->row + class * extent[2], extent[2], sum - u, 1);
            }
        }
    }
    return true;
}

static void sample_image(const struct dataset *dataset, enum dataset_split split,
                         uint64_t index, scalar *input, int32_t *labels)
{
    const struct clouds *clouds = dataset->data;
    uint64_t class = sample_cloud(dataset, split, index, input, labels);
    const scalar *column = clouds->column + class * clouds->height;
    const scalar *row = clouds->row + class * clouds->width;
    scalar *plane = input + clouds->channel[class] * clouds->height * clouds->width;
    for (uint64_t y = 0; y < clouds->height; y++)
        for (uint64_t x = 0; x < clouds->width; x++)
            plane[y * clouds->width + x] += column[y] * row[x];
}

static void close_clouds(struct dataset *dataset)
{
    struct clouds *clouds = dataset->data;
    free(clouds->channel);
    free(clouds->column);
    free(clouds->row);
    free(clouds);
}

const struct dataset_kind dataset_synthetic = {
    .name = "synthetic",
    .summary = "Gaussian clouds at equal distances; the lowest reachable error is known",
    .keys =
        (const char *const[]){"features", "classes", "separation", "noise", "seed", NULL},
    .generated = true,
    .describe = describe_vectors,
    .sample = sample_vector,
    .close = close_clouds,
};

const struct dataset_kind dataset_synthetic_images = {
    .name = "synthetic_images",
    .summary = "cosine waves under Gaussian noise, of any \"shape\"; lowest error known",
    .keys = (const char *const[]){"shape", "classes", "separation", "noise", "seed", NULL},
    .images = true,
    .generated = true,
    .describe = describe_images,
    .open = open_images,
    .sample = sample_image,
    .close = close_clouds,
};
