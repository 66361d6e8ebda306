/* Layers, losses and optimisers against PyTorch: a stored file of small cases, and where
 * PyTorch is installed a fresh one of larger sizes. */
#include "tests/layer_bench.h"

#include "engine/loss.h"
#include "engine/optimizer.h"

#include <sys/wait.h>
#include <unistd.h>

static const double tolerance = 1e-5;

/* The numbers under a key or at an index; the caller frees. */
static scalar *numbers_of(const cJSON *list, size_t *count)
{
    *count = (size_t)cJSON_GetArraySize(list);
    scalar *values = bench_array(*count);
    size_t i = 0;
    for (const cJSON *item = list->child; item != NULL; item = item->next)
        values[i++] = (scalar)item->valuedouble;
    return values;
}

static const cJSON *member(const cJSON *object, const char *key)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    return found;
}

static double number(const cJSON *object, const char *key)
{
    return member(object, key)->valuedouble;
}

/* Relative to the largest number of the array. */
static void compare(const char *kind, const char *what, const cJSON *list,
                    const scalar *actual, size_t count)
{
    double worst = 0, scale = 0;
    size_t i = 0;
    CU_ASSERT_EQUAL_FATAL((size_t)cJSON_GetArraySize(list), count);
    for (const cJSON *item = list->child; item != NULL; item = item->next, i++) {
        worst = fmax(worst, fabs(item->valuedouble - (double)actual[i]));
        scale = fmax(scale, fabs(item->valuedouble));
    }
    bool close = worst <= tolerance * scale + 1e-30;
    if (!close)
        printf("\n  %s: %s differs by %g of %g\n", kind, what, worst, scale);
    CU_ASSERT(close);
}

static void load(const cJSON *list, scalar *to, size_t expected)
{
    size_t count;
    scalar *values = numbers_of(list, &count);
    CU_ASSERT_EQUAL_FATAL(count, expected);
    memcpy(to, values, count * sizeof(scalar));
    free(values);
}

static void case_of(const cJSON *from, struct layer_case *to)
{
    *to = (struct layer_case){.kind = member(from, "kind")->valuestring,
                              .batch = (size_t)number(from, "batch"),
                              .vocabulary = (uint64_t)number(from, "vocabulary")};
    size_t option = 0;
    for (const cJSON *o = member(from, "options")->child; o != NULL; o = o->next)
        to->options[option++] = (struct option_value){o->string, o->valuedouble};
    for (const cJSON *s = member(from, "shapes")->child; s != NULL; s = s->next) {
        struct shape *shape = &to->inputs[to->input_count++];
        for (const cJSON *e = s->child; e != NULL; e = e->next)
            shape->extent[shape->rank++] = (uint64_t)e->valuedouble;
    }
}

static void check_layer(const cJSON *from)
{
    struct layer_case what;
    struct bench b;
    case_of(from, &what);
    CU_ASSERT_TRUE_FATAL(bench_open(&b, &what));
    CU_ASSERT_EQUAL((size_t)cJSON_GetArraySize(member(from, "parameters")),
                    b.layer.tensor_count);
    for (size_t i = 0; i < b.layer.input_count; i++)
        load(cJSON_GetArrayItem(member(from, "inputs"), (int)i), b.input[i],
             b.input_size[i]);
    for (size_t i = 0; i < b.layer.tensor_count; i++) {
        load(cJSON_GetArrayItem(member(from, "parameters"), (int)i), b.parameter[i],
             b.layer.tensor[i].count);
        memset(b.d_parameter[i], 0, b.layer.tensor[i].count * sizeof(scalar));
    }
    load(member(from, "d_output"), b.d_output, b.output_size);
    bench_forward(&b);
    compare(what.kind, "output", member(from, "output"), b.output, b.output_size);
    compare(what.kind, "state", member(from, "state"), b.state,
            (size_t)b.layer.state_count);
    bench_backward(&b, true, true, false);
    for (size_t i = 0; i < b.layer.input_count && bench_has_gradient(&b, i); i++)
        compare(what.kind, "input gradient",
                cJSON_GetArrayItem(member(from, "d_inputs"), (int)i), b.d_input[i],
                b.input_size[i]);
    for (size_t i = 0; i < b.layer.tensor_count; i++)
        compare(what.kind, b.layer.tensor[i].name,
                cJSON_GetArrayItem(member(from, "d_parameters"), (int)i), b.d_parameter[i],
                b.layer.tensor[i].count);
    bench_close(&b);
}

static void check_loss(const cJSON *from)
{
    const char *kind = member(from, "loss")->valuestring;
    double argument = number(from, "argument"), value = NAN;
    size_t rows = (size_t)number(from, "rows"), classes = (size_t)number(from, "classes");
    size_t count, label_count;
    scalar *logits = numbers_of(member(from, "logits"), &count);
    scalar *teacher = numbers_of(member(from, "teacher"), &count);
    scalar *labels = numbers_of(member(from, "labels"), &label_count);
    scalar *gradient = bench_array(count);
    int32_t label[64];
    CU_ASSERT_FATAL(count == rows * classes && label_count == rows && rows <= 64);
    for (size_t i = 0; i < rows; i++)
        label[i] = (int32_t)labels[i];
    if (strcmp(kind, "cross_entropy") == 0)
        value =
            loss_cross_entropy(logits, label, rows, classes, argument, 1, gradient, NULL);
    else if (strcmp(kind, "mean_square") == 0)
        value = loss_mean_square(logits, teacher, rows, classes, 1, gradient);
    else if (strcmp(kind, "kl") == 0)
        value = loss_kl(logits, teacher, rows, classes, argument, 1, gradient);
    CHECK_CLOSE(value, number(from, "value"), tolerance);
    compare(kind, "gradient", member(from, "gradient"), gradient, count);
    free(logits);
    free(teacher);
    free(labels);
    free(gradient);
}

static void check_optimizer(const cJSON *from)
{
    struct optimizer_options options;
    struct error error = {0};
    char *text = cJSON_PrintUnformatted(member(from, "options"));
    struct json_file *file = json_file_parse("options", text, &error);
    struct json_at root = json_root(file);
    CU_ASSERT_TRUE_FATAL(optimizer_read(&root, &options, &error));
    size_t count, gradient_count;
    scalar *parameters = numbers_of(member(from, "start"), &count);
    scalar *state = bench_array(2 * count);
    const struct network_tensor tensor = {.count = count, .decays = true};
    for (uint64_t step = 0; step < 10; step++) {
        scalar *gradients = numbers_of(
            cJSON_GetArrayItem(member(from, "gradients"), (int)step), &gradient_count);
        CU_ASSERT_EQUAL_FATAL(gradient_count, count);
        optimizer_update(&options, step, 10, &tensor, 1, parameters, gradients, state);
        free(gradients);
    }
    compare(text, "parameters", member(from, "result"), parameters, count);
    free(parameters);
    free(state);
    cJSON_free(text);
    json_file_free(file);
}

static void check_file(const char *path)
{
    struct error error = {0};
    struct json_file *file = json_file_read(path, &error);
    if (file == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    const cJSON *tree = json_file_tree(file), *item;
    cJSON_ArrayForEach(item, member(tree, "layers")) check_layer(item);
    cJSON_ArrayForEach(item, member(tree, "losses")) check_loss(item);
    cJSON_ArrayForEach(item, member(tree, "optimizers")) check_optimizer(item);
    /* Dropout's mask is its own affair; all others have a case. */
    for (size_t i = 0; i < layer_kind_count(); i++) {
        bool found = strcmp(layer_kind_get(i)->name, "dropout") == 0;
        cJSON_ArrayForEach(item, member(tree, "layers")) found =
            found ||
            strcmp(member(item, "kind")->valuestring, layer_kind_get(i)->name) == 0;
        if (!found)
            printf("\n  %s has no case in tests/torch_reference.py\n",
                   layer_kind_get(i)->name);
        CU_ASSERT(found);
    }
    json_file_free(file);
}

static void test_stored(void)
{
    check_file("tests/golden/torch.json");
}

static void test_fresh(void)
{
    char path[] = "/tmp/podsim-torch-XXXXXX", command[256];
    int descriptor = mkstemp(path);
    CU_ASSERT_FATAL(descriptor >= 0);
    close(descriptor);
    /* The system's Python may have what the one found first has not. */
    snprintf(
        command, sizeof command,
        "for p in python3 /usr/bin/python3; do"
        " $p tests/torch_reference.py 2 11 %s; s=$?; [ $s = 0 ] && break; done; exit $s",
        path);
    int status = system(command);
    /* 77: no PyTorch; 127: no Python. */
    if (status != -1 && WIFEXITED(status) &&
        (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
        printf("skipped: PyTorch is not installed; ");
    else {
        CU_ASSERT_EQUAL(status, 0);
        check_file(path);
    }
    unlink(path);
}

static const struct check checks[] = {
    {"stored cases", test_stored},
    {"fresh cases", test_fresh},
};
CHECK_MAIN("torch", checks)
