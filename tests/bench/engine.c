/* How fast the engine trains.
 *   bench_engine              one line a model, and the shares of sgemm and of a copy
 *   bench_engine step MODEL   runs a number of steps for every number read, and prints the
 *                             processor seconds they took: so engine.py lets two engines
 *                             take turns
 * A model is one line of the table. */
#include "base/checked.h"
#include "base/random.h"
#include "engine/loss.h"
#include "engine/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct row {
    const char *name, *model, *optimizer;
    size_t batch;
};

static const struct row rows[] = {
    {"mlp",
     "{\"preset\": \"mlp\", \"input\": [1024], \"hidden\": 1024, \"depth\": 7, "
     "\"classes\": 1024}",
     "adam", 128},
    {"mlp-sgd",
     "{\"preset\": \"mlp\", \"input\": [1024], \"hidden\": 1024, \"depth\": 7, "
     "\"classes\": 1024}",
     "sgd", 128},
    {"transformer_lm", "transformer_lm", "adam", 8},
    {"resnet18",
     "{\"preset\": \"resnet18\", \"stem\": \"cifar\", \"input\": [3, 32, 32], "
     "\"classes\": 10}",
     "sgd", 32},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0], ROUNDS = 15 };

struct training {
    struct model *model;
    struct network *network;
    struct optimizer_options optimizer;
    scalar *state;
    int32_t *labels;
    size_t label_count, batch;
    uint64_t step;
};

/* Of this processor's work: what others do on it meanwhile does not count. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const struct error *error)
{
    fprintf(stderr, "bench_engine: %s\n", error->message);
    exit(STATUS_HOST);
}

static void *room(size_t count, size_t item_bytes)
{
    struct error error;
    void *memory = checked_calloc_aligned(count, item_bytes);
    if (memory == NULL) {
        error_memory(&error, "arrays");
        stop(&error);
    }
    return memory;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static void read_row(const struct row *row, struct training *t)
{
    struct error error;
    char text[512];
    const char *quote = row->model[0] == '{' ? "" : "\"";
    snprintf(text, sizeof text, "{\"model\": %s%s%s, \"optimizer\": {\"kind\": \"%s\"}}",
             quote, row->model, quote, row->optimizer);
    struct json_file *file = json_file_parse(row->name, text, &error);
    if (file == NULL)
        stop(&error);
    struct json_at root = json_root(file), model, optimizer;
    if (!json_member(&root, "model", &model, &error) ||
        !json_member(&root, "optimizer", &optimizer, &error) ||
        !optimizer_read(&optimizer, &t->optimizer, &error) ||
        (t->model = model_read(&model, &error)) == NULL)
        stop(&error);
    json_file_free(file);
}

/* Inputs and labels are drawn once: reading data is not what is measured. */
static void fill(struct training *t)
{
    struct random_key key = {1, RANDOM_TEST, 0, 0};
    scalar *input = network_value(t->network, 0, 0);
    size_t count = t->batch * (size_t)shape_count(&t->model->input_shape);
    for (size_t i = 0; i < count; i++)
        input[i] = t->model->vocabulary > 0
                       ? (scalar)(random_u64(key, i) % t->model->vocabulary)
                       : (scalar)random_normal(key, i);
    for (size_t i = 0; i < t->label_count; i++)
        t->labels[i] = (int32_t)(random_u64(key, count + i) % t->model->classes);
}

static void open_training(const struct row *row, struct training *t)
{
    struct error error;
    *t = (struct training){.batch = row->batch};
    read_row(row, t);
    struct network_options options = {.model = t->model,
                                      .end_layer = t->model->layer_count,
                                      .batch = row->batch,
                                      .slots = 1,
                                      .training = true,
                                      .seed = 1};
    t->network = network_create(&options, &error);
    if (t->network == NULL)
        stop(&error);
    size_t count;
    network_parameters(t->network, &count);
    t->state = room(count * (size_t)optimizer_state_words(&t->optimizer), sizeof(scalar));
    const struct shape *output = model_value_shape(t->model, t->model->layer_count);
    t->label_count = row->batch * (size_t)(shape_count(output) / t->model->classes);
    t->labels = room(t->label_count, sizeof *t->labels);
    fill(t);
}

static void close_training(struct training *t)
{
    network_free(t->network);
    model_free(t->model);
    free(t->state);
    free(t->labels);
}

static void forward_backward(struct training *t)
{
    size_t output = model_output_value(t->model), classes = (size_t)t->model->classes;
    scalar *gradient = network_gradient(t->network, 0, output);
    network_zero_gradients(t->network);
    network_forward(t->network, 0, t->step, 0);
    memset(gradient, 0, t->label_count * classes * sizeof *gradient);
    loss_cross_entropy(network_value(t->network, 0, output), t->labels, t->label_count,
                       classes, 0, 1.0 / (double)t->label_count, gradient, NULL);
    network_backward(t->network, 0, BACKWARD_ALL, &output, 1);
}

static void update(struct training *t)
{
    size_t count;
    const struct network_tensor *tensors = network_tensors(t->network, &count);
    optimizer_update(&t->optimizer, t->step++, 1000, tensors, count,
                     network_parameters(t->network, NULL),
                     network_parameter_gradients(t->network), t->state);
}

static double time_steps(struct training *t, unsigned long count)
{
    double start = now_s();
    for (unsigned long i = 0; i < count; i++) {
        forward_backward(t);
        update(t);
    }
    return now_s() - start;
}

/* The products of the MLP's forward and backward pass alone, in the same order, on arrays
 * of the same sizes. */
enum { LAYERS = 8, WIDTH = 1024, BATCH = 128 };

struct products {
    scalar *value, *weight, *d_value, *d_weight;
};

static void multiply(const struct products *p)
{
    const size_t value = BATCH * WIDTH, weight = WIDTH * WIDTH;
    for (size_t i = 0; i < LAYERS; i++)
        scalar_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, BATCH, WIDTH, WIDTH, 1,
                    p->value + i * value, WIDTH, p->weight + i * weight, WIDTH, 0,
                    p->value + (i + 1) * value, WIDTH);
    for (size_t i = LAYERS; i-- > 0;) {
        scalar *dy = p->d_value + i % 2 * value, *dx = p->d_value + (i + 1) % 2 * value;
        if (i > 0)
            scalar_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, BATCH, WIDTH, WIDTH, 1,
                        dy, WIDTH, p->weight + i * weight, WIDTH, 0, dx, WIDTH);
        scalar_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, WIDTH, WIDTH, BATCH, 1, dy,
                    WIDTH, p->value + i * value, WIDTH, 0, p->d_weight + i * weight, WIDTH);
    }
}

static void print_sgemm_share(void)
{
    struct training t;
    double ours[ROUNDS], bare[ROUNDS];
    const size_t value = BATCH * WIDTH, weight = WIDTH * WIDTH;
    struct products p = {.value = room((LAYERS + 1) * value, sizeof(scalar)),
                         .weight = room(LAYERS * weight, sizeof(scalar)),
                         .d_value = room(2 * value, sizeof(scalar)),
                         .d_weight = room(LAYERS * weight, sizeof(scalar))};
    open_training(&rows[0], &t);
    for (size_t i = 0; i <= ROUNDS; i++) {
        double start = now_s();
        forward_backward(&t);
        double middle = now_s();
        multiply(&p);
        if (i > 0) {
            ours[i - 1] = middle - start;
            bare[i - 1] = now_s() - middle;
        }
    }
    double flops = 2.0 * (3 * LAYERS - 1) * BATCH * WIDTH * WIDTH;
    double a = median(ours, ROUNDS), b = median(bare, ROUNDS);
    printf("mlp forward and backward: %.1f GFLOP/s of sgemm's %.1f, %.0f %%\n",
           1e-9 * flops / a, 1e-9 * flops / b, 100 * b / a);
    close_training(&t);
    free(p.value);
    free(p.weight);
    free(p.d_value);
    free(p.d_weight);
}

/* Both count every byte read or written once. */
static void print_copy_share(const struct row *row)
{
    struct training t;
    double ours[ROUNDS], copy[ROUNDS];
    size_t count;
    open_training(row, &t);
    network_parameters(t.network, &count);
    scalar *from = room(count, sizeof *from), *to = room(count, sizeof *to);
    forward_backward(&t);
    for (size_t i = 0; i <= ROUNDS; i++) {
        double start = now_s();
        update(&t);
        double middle = now_s();
        memcpy(to, from, count * sizeof *to);
        if (i > 0) {
            ours[i - 1] = middle - start;
            copy[i - 1] = now_s() - middle;
        }
    }
    double words = 3 + 2 * (double)optimizer_state_words(&t.optimizer);
    double bytes = (double)count * sizeof(scalar);
    double a = words * bytes / median(ours, ROUNDS), b = 2 * bytes / median(copy, ROUNDS);
    printf("%s update: %.1f GB/s of a copy's %.1f, %.0f %%\n", row->optimizer, 1e-9 * a,
           1e-9 * b, 100 * a / b);
    close_training(&t);
    free(from);
    free(to);
}

static int print_all(void)
{
    /* PyTorch's may be the same library: OPENBLAS_CORETYPE then speaks to both. */
    printf("OpenBLAS's kernels are those for %s\n", openblas_get_corename());
    for (size_t i = 0; i < ROW_COUNT; i++) {
        struct training t;
        double seconds[ROUNDS];
        open_training(&rows[i], &t);
        time_steps(&t, 1);
        for (size_t k = 0; k < ROUNDS; k++)
            seconds[k] = time_steps(&t, 1);
        printf("%-16s %8.2f ms a step\n", rows[i].name, 1e3 * median(seconds, ROUNDS));
        close_training(&t);
    }
    print_sgemm_share();
    print_copy_share(&rows[0]);
    print_copy_share(&rows[1]);
    return 0;
}

static int take_turns(const char *name)
{
    size_t i = 0;
    char line[32];
    while (i < ROW_COUNT && strcmp(rows[i].name, name) != 0)
        i++;
    if (i == ROW_COUNT) {
        fprintf(stderr, "bench_engine: no model \"%s\"\n", name);
        return STATUS_BAD_INPUT;
    }
    struct training t;
    open_training(&rows[i], &t);
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%.9f\n", time_steps(&t, strtoul(line, NULL, 10)));
        fflush(stdout);
    }
    close_training(&t);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "step") == 0)
        return take_turns(argv[2]);
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (size_t i = 0; i < ROW_COUNT; i++)
            puts(rows[i].name);
        return 0;
    }
    if (argc == 1)
        return print_all();
    fputs("usage: bench_engine [list | step MODEL]\n", stderr);
    return STATUS_BAD_INPUT;
}
