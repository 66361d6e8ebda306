/* Every layer kind and every loss against central differences, in double. */
#include "tests/check.h"
#include "tests/layer_bench.h"
#include "tests/layer_cases.h"

#include "engine/loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double tolerance = 1e-6;

/* The sum of the outputs, each with a random factor, which is its gradient. */
static double objective(struct bench *b)
{
    double sum = 0;
    bench_forward(b);
    for (size_t i = 0; i < b->output_size; i++)
        sum += b->output[i] * b->d_output[i];
    return sum;
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
    bench_forward(b);
    bench_backward(b, true, true, false);
    for (size_t i = 0; i < b->layer.input_count; i++)
        if (bench_has_gradient(b, i))
            compare(b, "input", i, b->input[i], b->d_input[i], b->input_size[i]);
    for (size_t i = 0; i < b->layer.tensor_count; i++)
        compare(b, b->layer.tensor[i].name, i, b->parameter[i], b->d_parameter[i],
                b->layer.tensor[i].count);
}

/* Gradients of parameters are always added, those of inputs when asked for. */
static void check_accumulation(struct bench *b)
{
    clear_parameters(b, 0);
    bench_forward(b);
    bench_backward(b, true, true, false);
    scalar *once[LAYER_MAX_INPUTS + LAYER_MAX_TENSORS];
    for (size_t i = 0; i < b->layer.input_count; i++) {
        once[i] = bench_array(b->input_size[i]);
        memcpy(once[i], b->d_input[i], b->input_size[i] * sizeof(scalar));
    }
    for (size_t i = 0; i < b->layer.tensor_count; i++) {
        once[LAYER_MAX_INPUTS + i] = bench_array(b->layer.tensor[i].count);
        memcpy(once[LAYER_MAX_INPUTS + i], b->d_parameter[i],
               b->layer.tensor[i].count * sizeof(scalar));
    }
    bench_backward(b, true, true, true);
    for (size_t i = 0; i < b->layer.input_count; i++) {
        double worst = 0, scale = largest(once[i], b->input_size[i]);
        for (size_t k = 0; bench_has_gradient(b, i) && k < b->input_size[i]; k++)
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
    bench_forward(b);
    bench_backward(b, true, true, false);
    uint64_t together = fingerprint(b);
    clear_parameters(b, 0.5);
    for (size_t i = 0; i < b->layer.input_count; i++)
        if (bench_has_gradient(b, i))
            memset(b->d_input[i], 0, b->input_size[i] * sizeof(scalar));
    bench_forward(b);
    bench_forward(b);
    bench_backward(b, true, false, false);
    if (b->layer.tensor_count > 0)
        bench_backward(b, false, true, false);
    CU_ASSERT_EQUAL(fingerprint(b), together);
}

static void test_layers(void)
{
    for (size_t i = 0; i < LAYER_CASE_COUNT; i++) {
        struct bench bench;
        CU_ASSERT_TRUE_FATAL(bench_open(&bench, &layer_cases[i]));
        check_differences(&bench);
        check_accumulation(&bench);
        check_split(&bench);
        bench_close(&bench);
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
    bench_fill(logits, ROWS * CLASSES, 30, 0);
    bench_fill(teacher, ROWS * CLASSES, 31, 0.5);
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
