/* Every layer kind and every loss against central differences, in double. */
#include "tests/check.h"
#include "tests/layer_cases.h"

#include "base/checked.h"
#include "base/random.h"
#include "engine/loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 1e-6;

/* One layer with all its arrays. The objective is the sum of output * weight. */
struct bench {
    const struct layer_case *from;
    struct layer layer;
    size_t input_size[LAYER_MAX_INPUTS], output_size, stash_size;
    scalar *input[LAYER_MAX_INPUTS], *d_input[LAYER_MAX_INPUTS];
    scalar *parameter[LAYER_MAX_TENSORS], *d_parameter[LAYER_MAX_TENSORS];
    scalar *output, *weight, *state, *stash, *work;
    void *prepared;
};

static scalar *array(size_t count)
{
    scalar *a = checked_calloc_aligned(count, sizeof *a);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    return a;
}

static void fill(scalar *values, size_t count, uint32_t a, double centre)
{
    struct random_key key = {1, RANDOM_TEST, a, 0};
    for (size_t i = 0; i < count; i++)
        values[i] = centre + 2 * random_uniform(key, i) - 1;
}

static void open_arrays(struct bench *b)
{
    struct layer *layer = &b->layer;
    for (size_t i = 0; i < layer->input_count; i++) {
        b->input_size[i] = b->from->batch * shape_count(&layer->input_shape[i]);
        b->input[i] = array(b->input_size[i]);
        b->d_input[i] = array(b->input_size[i]);
        fill(b->input[i], b->input_size[i], (uint32_t)i, 0);
        for (size_t k = 0; i == 0 && b->from->vocabulary > 0 && k < b->input_size[i]; k++)
            b->input[i][k] =
                floor((b->input[i][k] + 1) / 2 * (double)b->from->vocabulary);
    }
    for (size_t i = 0; i < layer->tensor_count; i++) {
        b->parameter[i] = array(layer->tensor[i].count);
        b->d_parameter[i] = array(layer->tensor[i].count);
        fill(b->parameter[i], layer->tensor[i].count, (uint32_t)(10 + i), 0.25);
    }
    b->output_size = b->from->batch * shape_count(&layer->output_shape);
    b->stash_size = b->from->batch * layer->stash_count + layer->stash_fixed_count;
    b->output = array(b->output_size);
    b->weight = array(b->output_size);
    fill(b->weight, b->output_size, 20, 0);
    b->state = array(layer->state_count);
    b->stash = array(b->stash_size);
    b->work = array(layer->kind->work_count ? layer->kind->work_count(layer, b->from->batch) : 0);
}

static bool open_bench(struct bench *b, const struct layer_case *from)
{
    struct error error;
    *b = (struct bench){.from = from};
    struct layer *layer = &b->layer;
    *layer = (struct layer){.kind = layer_kind_find(from->kind),
                            .name = "tried",
                            .identity = 7,
                            .tied_to = SIZE_MAX,
                            .input_count = from->input_count};
    CU_ASSERT_PTR_NOT_NULL_FATAL(layer->kind);
    for (size_t i = 0; i < from->input_count; i++)
        layer->input_shape[i] = from->inputs[i];
    for (size_t i = 0; layer->kind->options[i].name != NULL; i++) {
        layer->option[i] = layer->kind->options[i].fallback;
        for (size_t k = 0; from->options[k].name != NULL; k++)
            if (strcmp(from->options[k].name, layer->kind->options[i].name) == 0)
                layer->option[i] = from->options[k].value;
    }
    bool good = layer_describe(layer, &error);
    if (!good)
        printf("\n  %s: %s\n", from->kind, error.message);
    CU_ASSERT_TRUE_FATAL(good);
    open_arrays(b);
    return layer->kind->prepare == NULL ||
           layer->kind->prepare(layer, from->batch, &b->prepared, &error);
}

static void close_bench(struct bench *b)
{
    for (size_t i = 0; i < LAYER_MAX_INPUTS; i++) {
        free(b->input[i]);
        free(b->d_input[i]);
    }
    for (size_t i = 0; i < LAYER_MAX_TENSORS; i++) {
        free(b->parameter[i]);
        free(b->d_parameter[i]);
    }
    free(b->output);
    free(b->weight);
    free(b->state);
    free(b->stash);
    free(b->work);
    if (b->prepared != NULL)
        b->layer.kind->release(b->prepared);
}

static struct layer_call call_of(const struct bench *b)
{
    struct layer_call call = {.batch = b->from->batch,
                              .training = true,
                              .stash = b->stash,
                              .work = b->work,
                              .prepared = b->prepared,
                              .seed = 3,
                              .step = 5,
                              .first_sample = 8,
                              .identity = b->layer.identity};
    for (size_t i = 0; i < b->layer.tensor_count; i++)
        call.parameter[i] = b->parameter[i];
    return call;
}

static void forward(struct bench *b)
{
    struct layer_call call = call_of(b);
    for (size_t i = 0; i < b->layer.input_count; i++)
        call.input[i] = b->input[i];
    call.output = b->output;
    b->layer.kind->forward(&b->layer, &call);
}

static double objective(struct bench *b)
{
    double sum = 0;
    forward(b);
    for (size_t i = 0; i < b->output_size; i++)
        sum += b->output[i] * b->weight[i];
    return sum;
}

static bool has_gradient(const struct bench *b, size_t input)
{
    return input > 0 || b->from->vocabulary == 0;
}

/* What the layer did not say that it keeps is not given to it. */
static void backward(struct bench *b, bool inputs, bool weights, bool accumulate)
{
    struct layer_call call = call_of(b);
    call.d_output = b->weight;
    if (b->layer.keeps_output)
        call.output = b->output;
    for (size_t i = 0; i < b->layer.input_count; i++) {
        if (b->layer.keeps_input[i])
            call.input[i] = b->input[i];
        call.d_input[i] = inputs && has_gradient(b, i) ? b->d_input[i] : NULL;
        call.accumulate[i] = accumulate;
    }
    for (size_t i = 0; i < b->layer.tensor_count && weights; i++)
        call.d_parameter[i] = b->d_parameter[i];
    b->layer.kind->backward(&b->layer, &call);
}

static void clear_parameters(struct bench *b, double value)
{
    for (size_t i = 0; i < b->layer.tensor_count; i++)
        for (size_t k = 0; k < b->layer.tensor[i].count; k++)
            b->d_parameter[i][k] = value;
}

static double largest(const scalar *values, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(values[i]));
    return most;
}

/* Relative to the largest gradient of the array: a component may well be zero. */
static void compare(struct bench *b, const char *what, size_t which, scalar *values,
                    const scalar *gradient, size_t count)
{
    const double h = 1e-5;
    double scale = fmax(largest(gradient, count), 1e-3), worst = 0;
    for (size_t i = 0; i < count; i++) {
        double x = values[i];
        values[i] = x + h;
        double above = objective(b);
        values[i] = x - h;
        double below = objective(b);
        values[i] = x;
        worst = fmax(worst, fabs((above - below) / (2 * h) - gradient[i]) / scale);
    }
    if (!(worst <= tolerance))
        printf("\n  %s: %s %zu: relative error %g\n", b->from->kind, what, which, worst);
    CU_ASSERT(worst <= tolerance);
}

static void check_differences(struct bench *b)
{
    clear_parameters(b, 0);
    forward(b);
    backward(b, true, true, false);
    for (size_t i = 0; i < b->layer.input_count; i++)
        if (has_gradient(b, i))
            compare(b, "input", i, b->input[i], b->d_input[i], b->input_size[i]);
    for (size_t i = 0; i < b->layer.tensor_count; i++)
        compare(b, b->layer.tensor[i].name, i, b->parameter[i], b->d_parameter[i],
                b->layer.tensor[i].count);
}

/* Gradients of parameters are always added, those of inputs when asked for. */
static void check_accumulation(struct bench *b)
{
    clear_parameters(b, 0);
    forward(b);
    backward(b, true, true, false);
    scalar *once[LAYER_MAX_INPUTS + LAYER_MAX_TENSORS];
    for (size_t i = 0; i < b->layer.input_count; i++) {
        once[i] = array(b->input_size[i]);
        memcpy(once[i], b->d_input[i], b->input_size[i] * sizeof(scalar));
    }
    for (size_t i = 0; i < b->layer.tensor_count; i++) {
        once[LAYER_MAX_INPUTS + i] = array(b->layer.tensor[i].count);
        memcpy(once[LAYER_MAX_INPUTS + i], b->d_parameter[i],
               b->layer.tensor[i].count * sizeof(scalar));
    }
    backward(b, true, true, true);
    for (size_t i = 0; i < b->layer.input_count; i++) {
        double worst = 0, scale = largest(once[i], b->input_size[i]);
        for (size_t k = 0; has_gradient(b, i) && k < b->input_size[i]; k++)
            worst = fmax(worst, fabs(b->d_input[i][k] - 2 * once[i][k]));
        CU_ASSERT(worst <= 1e-12 * scale);
        free(once[i]);
    }
    for (size_t i = 0; i < b->layer.tensor_count; i++) {
        scalar *first = once[LAYER_MAX_INPUTS + i];
        double worst = 0, scale = largest(first, b->layer.tensor[i].count);
        for (size_t k = 0; k < b->layer.tensor[i].count; k++)
            worst = fmax(worst, fabs(b->d_parameter[i][k] - 2 * first[k]));
        CU_ASSERT(worst <= 1e-12 * scale);
        free(first);
    }
}

/* Sum of all gradients' bits, order included: two runs agree or not. */
static uint64_t fingerprint(const struct bench *b)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < b->layer.input_count + b->layer.tensor_count; i++) {
        bool input = i < b->layer.input_count;
        const scalar *values =
            input ? b->d_input[i] : b->d_parameter[i - b->layer.input_count];
        size_t count =
            input ? b->input_size[i] : b->layer.tensor[i - b->layer.input_count].count;
        const unsigned char *bytes = (const unsigned char *)values;
        for (size_t k = 0; k < count * sizeof(scalar); k++)
            hash = (hash ^ bytes[k]) * 1099511628211u;
    }
    return hash;
}

/* The two gradients computed apart, after a forward that was done twice, are the same
 * bits as together. */
static void check_split(struct bench *b)
{
    clear_parameters(b, 0.5);
    forward(b);
    backward(b, true, true, false);
    uint64_t together = fingerprint(b);
    clear_parameters(b, 0.5);
    for (size_t i = 0; i < b->layer.input_count; i++)
        if (has_gradient(b, i))
            memset(b->d_input[i], 0, b->input_size[i] * sizeof(scalar));
    forward(b);
    forward(b);
    backward(b, true, false, false);
    if (b->layer.tensor_count > 0)
        backward(b, false, true, false);
    CU_ASSERT_EQUAL(fingerprint(b), together);
}

static void test_layers(void)
{
    for (size_t i = 0; i < LAYER_CASE_COUNT; i++) {
        struct bench bench;
        CU_ASSERT_TRUE_FATAL(open_bench(&bench, &layer_cases[i]));
        check_differences(&bench);
        check_accumulation(&bench);
        check_split(&bench);
        close_bench(&bench);
    }
}

static void test_every_kind_has_a_case(void)
{
    for (size_t i = 0; i < layer_kind_count(); i++) {
        bool found = false;
        for (size_t k = 0; k < LAYER_CASE_COUNT && !found; k++)
            found = strcmp(layer_cases[k].kind, layer_kind_get(i)->name) == 0;
        if (!found)
            printf("\n  %s has no case in tests/layer_cases.h\n", layer_kind_get(i)->name);
        CU_ASSERT(found);
    }
}

enum { ROWS = 5, CLASSES = 7 };

typedef double loss_function(const scalar *logits, const scalar *teacher, scalar *gradient);

static const int32_t labels[ROWS] = {3, -1, 0, 6, 3};

static double cross_entropy(const scalar *logits, const scalar *teacher, scalar *gradient)
{
    (void)teacher;
    return loss_cross_entropy(logits, labels, ROWS, CLASSES, 0, 0.7, gradient, NULL);
}

static double smoothed(const scalar *logits, const scalar *teacher, scalar *gradient)
{
    (void)teacher;
    return loss_cross_entropy(logits, labels, ROWS, CLASSES, 0.3, 0.7, gradient, NULL);
}

static double mean_square(const scalar *logits, const scalar *teacher, scalar *gradient)
{
    return loss_mean_square(logits, teacher, ROWS, CLASSES, 0.7, gradient);
}

static double divergence(const scalar *logits, const scalar *teacher, scalar *gradient)
{
    return loss_kl(logits, teacher, ROWS, CLASSES, 2.5, 0.7, gradient);
}

static void check_loss(loss_function *loss)
{
    scalar logits[ROWS * CLASSES], teacher[ROWS * CLASSES], gradient[ROWS * CLASSES];
    const double h = 1e-5, before = 11;
    fill(logits, ROWS * CLASSES, 30, 0);
    fill(teacher, ROWS * CLASSES, 31, 0.5);
    for (size_t i = 0; i < ROWS * CLASSES; i++)
        gradient[i] = before;
    double value = loss(logits, teacher, gradient);
    CU_ASSERT_EQUAL(value, loss(logits, teacher, NULL));
    for (size_t i = 0; i < ROWS * CLASSES; i++) {
        scalar x = logits[i];
        logits[i] = x + h;
        double above = loss(logits, teacher, NULL);
        logits[i] = x - h;
        double below = loss(logits, teacher, NULL);
        logits[i] = x;
        double difference = 0.7 * (above - below) / (2 * h);
        CU_ASSERT(fabs(gradient[i] - before - difference) <= tolerance);
    }
}

static void test_losses(void)
{
    check_loss(cross_entropy);
    check_loss(smoothed);
    check_loss(mean_square);
    check_loss(divergence);
}

static const struct check checks[] = {
    {"every kind has a case", test_every_kind_has_a_case},
    {"layers against central differences", test_layers},
    {"losses against central differences", test_losses},
};
CHECK_MAIN("gradients", checks)
