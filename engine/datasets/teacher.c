/* Labels given by a fixed random network of two layers (the teacher) to normal inputs: the
 * class of its largest output, replaced by another with probability `noise`. A student
 * that is large enough can reach an error of just `noise`. */
#include "base/checked.h"
#include "engine/datasets/kinds.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_HIDDEN = 1024 };

struct teacher {
    uint64_t seed, features, hidden, classes;
    double noise;
    double *first;  /* [hidden][features] */
    double *second; /* [classes][hidden] */
};

static bool describe_teacher(const struct json_at *at, struct dataset *dataset,
                             struct error *error)
{
    struct teacher *teacher = dataset->data = checked_calloc(1, sizeof(*teacher));
    if (teacher == NULL)
        return error_memory(error, "data set");
    teacher->seed = 1;
    teacher->features = 32;
    teacher->hidden = 64;
    teacher->classes = 10;
    if (!json_read_u64(at, "features", 1, 1 << 16, &teacher->features, error) ||
        !json_read_u64(at, "hidden", 1, MAX_HIDDEN, &teacher->hidden, error) ||
        !json_read_u64(at, "classes", 2, 65536, &teacher->classes, error) ||
        !dataset_read_noise(at, teacher->classes, &teacher->noise, error) ||
        !json_read_u64(at, "seed", 0, UINT64_MAX, &teacher->seed, error))
        return false;
    dataset->description.input_shape = (struct shape){1, {teacher->features}};
    dataset->description.classes = teacher->classes;
    dataset->description.bayes_error = teacher->noise;
    return true;
}

static double *random_weights(uint64_t seed, uint64_t layer, uint64_t outputs,
                              uint64_t inputs)
{
    struct random_stream stream = dataset_shared_stream(seed, layer);
    double *weights = checked_calloc(outputs * inputs, sizeof(*weights));
    for (uint64_t i = 0; weights != NULL && i < outputs * inputs; i++)
        weights[i] = random_stream_normal(&stream, i) / sqrt((double)inputs);
    return weights;
}

static bool open_teacher(struct dataset *dataset, struct error *error)
{
    struct teacher *teacher = dataset->data;
    teacher->first = random_weights(teacher->seed, 0, teacher->hidden, teacher->features);
    teacher->second = random_weights(teacher->seed, 1, teacher->classes, teacher->hidden);
    return (teacher->first != NULL && teacher->second != NULL) ||
           error_memory(error, "teacher");
}

/* The hidden layer is tanh, which is odd, so that no class is favoured by its mean. */
static uint64_t teach(const struct teacher *teacher, const scalar *input)
{
    double hidden[MAX_HIDDEN], largest = -INFINITY;
    uint64_t best = 0;
    for (uint64_t h = 0; h < teacher->hidden; h++) {
        double sum = 0;
        for (uint64_t i = 0; i < teacher->features; i++)
            sum += teacher->first[h * teacher->features + i] * (double)input[i];
        hidden[h] = tanh(2 * sum);
    }
    for (uint64_t c = 0; c < teacher->classes; c++) {
        double sum = 0;
        for (uint64_t h = 0; h < teacher->hidden; h++)
            sum += teacher->second[c * teacher->hidden + h] * hidden[h];
        if (sum > largest) {
            largest = sum;
            best = c;
        }
    }
    return best;
}

static void sample_teacher(const struct dataset *dataset, enum dataset_split split,
                           uint64_t index, scalar *input, int32_t *labels)
{
    const struct teacher *teacher = dataset->data;
    struct random_stream stream = dataset_sample_stream(teacher->seed, split, index);
    for (uint64_t i = 0; i < teacher->features; i++)
        input[i] = (scalar)random_stream_normal(&stream, 2 + i);
    labels[0] = (int32_t)dataset_flip_class(&stream, 0, teach(teacher, input),
                                            teacher->classes, teacher->noise);
}

static void close_teacher(struct dataset *dataset)
{
    struct teacher *teacher = dataset->data;
    free(teacher->first);
    free(teacher->second);
    free(teacher);
}

const struct dataset_kind dataset_teacher_student = {
    .name = "teacher_student",
    .summary = "labels by a fixed random two-layer network; lowest error is \"noise\"",
    .keys = (const char *const[]){"features", "hidden", "classes", "noise", "seed", NULL},
    .generated = true,
    .describe = describe_teacher,
    .open = open_teacher,
    .sample = sample_teacher,
    .close = close_teacher,
};
