/* Residual networks: published sizes, what crosses between blocks, and training. */
#include "tests/network_chain.h"

#include <math.h>

enum { CLASSES = 3 };

struct published {
    const char *name;
    uint64_t parameters;
    uint64_t macs; /* of convolutions and the classifier, at 224 x 224 */
    size_t blocks, convolutions;
};

static const struct published table[] = {
    {"resnet18", 11689512, 1814073344, 8, 20},
    {"resnet34", 21797672, 3663761408, 16, 36},
    {"resnet50", 25557032, 4089184256, 16, 53},
    {"resnet101", 44549160, 7801405440, 33, 104},
    {"resnext101_32x8d", 88791336, 16414015488, 33, 104},
};
enum { TABLE_COUNT = sizeof table / sizeof table[0] };

static struct model *preset(const char *name, const char *rest)
{
    char text[256];
    snprintf(text, sizeof text, "{\"preset\": \"%s\"%s}", name, rest);
    return chain_model(text);
}

static size_t count_kind(const struct model *model, const char *kind)
{
    size_t count = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        count += strcmp(model->layers[i].kind->name, kind) == 0;
    return count;
}

static void test_published(void)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        struct model *model = preset(table[i].name, "");
        CU_ASSERT_EQUAL(model_parameter_count(model), table[i].parameters);
        CU_ASSERT_EQUAL(model_macs(model), table[i].macs);
        if (model_macs(model) != table[i].macs)
            printf("\n  %s: %llu multiply-adds", table[i].name,
                   (unsigned long long)model_macs(model));
        CU_ASSERT_EQUAL(model->block_count, table[i].blocks);
        CU_ASSERT_EQUAL(model->classes, 1000);
        CU_ASSERT_EQUAL(count_kind(model, "conv2d"), table[i].convolutions);
        CU_ASSERT_EQUAL(count_kind(model, "batch_norm"), table[i].convolutions);
        CU_ASSERT_EQUAL(count_kind(model, "add"), table[i].blocks);
        model_free(model);
    }
}

/* Between the stages of [3, 4, 6, 3] blocks. */
static void test_crossings(void)
{
    static const struct {
        size_t block;
        uint64_t narrow, wide; /* resnet34's and resnet50's */
    } cuts[] = {{3, 200704, 802816}, {7, 100352, 401408}, {13, 50176, 200704}};
    struct model *basic = preset("resnet34", ""), *bottleneck = preset("resnet50", "");
    for (size_t i = 0; i < 3; i++) {
        size_t values[MODEL_MAX_CROSSING];
        size_t a = basic->blocks[cuts[i].block].first_layer;
        size_t b = bottleneck->blocks[cuts[i].block].first_layer;
        CU_ASSERT_EQUAL(model_crossing(basic, a, values), 1);
        CU_ASSERT_EQUAL(model_crossing_count(basic, a), cuts[i].narrow);
        CU_ASSERT_EQUAL(model_crossing_count(bottleneck, b), cuts[i].wide);
    }
    for (size_t i = 1; i < basic->block_count; i++)
        CU_ASSERT_EQUAL(model_crossing(basic, basic->blocks[i].first_layer,
                                       (size_t[MODEL_MAX_CROSSING]){0}),
                        1);
    model_free(basic);
    model_free(bottleneck);
}

static void test_settings(void)
{
    struct model *model = preset("resnet18", ", \"stem\": \"cifar\", \"input\": [3, 32, 32], "
                                             "\"classes\": 10");
    CU_ASSERT_EQUAL(model_parameter_count(model), 11173962);
    CU_ASSERT_EQUAL(model_macs(model), 555422720);
    CU_ASSERT_EQUAL(count_kind(model, "max_pool"), 0);
    model_free(model);
    model = preset("resnet34", ", \"norm\": \"group_norm\"");
    CU_ASSERT_EQUAL(model_parameter_count(model), 21797672);
    CU_ASSERT_EQUAL(model_state_count(model), 0);
    CU_ASSERT_EQUAL(count_kind(model, "group_norm"), 36);
    model_free(model);
    for (unsigned width = 1; width < 100; width += 14) {
        char rest[96];
        snprintf(rest, sizeof rest, ", \"norm\": \"group_norm\", \"width\": %u, \"input\": "
                                    "[1, 17, 33], \"classes\": 1", width);
        model = preset("resnet50", rest);
        CU_ASSERT_EQUAL(model_value_shape(model, model->layer_count)->extent[0], 1);
        model_free(model);
    }
}

static void test_refusals(void)
{
    static const char *const bad[][2] = {
        {"{\"preset\": \"resnet18\", \"width\": 0}", "width"},
        {"{\"preset\": \"resnet18\", \"norm\": \"layer_norm\"}", "batch_norm"},
        {"{\"preset\": \"resnet18\", \"stem\": \"cifra\"}", "cifar"},
        {"{\"preset\": \"resnet18\", \"classes\": 0}", "classes"},
        {"{\"preset\": \"resnet18\", \"with\": 64}", "width"},
        {"{\"preset\": \"resnet18\", \"input\": [784]}", "images"},
        {"{\"preset\": \"resnet18\", \"input\": [3, 0, 5]}", "input"},
        {"{\"preset\": \"resnext101_32x8d\", \"width\": 4}", "32 groups do not divide"},
        {"\"resnet43\"", "resnet34"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error error = {0};
        struct json_file *file = json_file_parse("model.json", bad[i][0], &error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        struct json_at root = json_root(file);
        CU_ASSERT_PTR_NULL(model_read(&root, &error));
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        if (strstr(error.message, bad[i][1]) == NULL)
            printf("\n  \"%s\" where \"%s\" is expected\n", error.message, bad[i][1]);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, bad[i][1]));
        json_file_free(file);
    }
}

/* Cuts before every layer, so also within residual blocks, where two values cross. */
static void cut_everywhere(struct model *model)
{
    struct chain whole;
    chain_open(&whole, model, NULL, 0, 1, false);
    double expected = chain_step(&whole, 2);
    size_t most = 0;
    for (size_t cut = 1; cut < model->layer_count; cut++) {
        struct chain parts;
        size_t values[MODEL_MAX_CROSSING], crossing = model_crossing(model, cut, values);
        most = crossing > most ? crossing : most;
        chain_open(&parts, model, &cut, 1, 1, false);
        CU_ASSERT_EQUAL(chain_step(&parts, 2), expected);
        CU_ASSERT(chain_equal(&parts, &whole, true));
        chain_close(&parts);
    }
    CU_ASSERT_EQUAL(most, 2);
    chain_close(&whole);
    model_free(model);
}

/* Wide enough for the fastest convolutions. */
static const char wide_text[] =
    "{\"input\": [3, 15, 16], \"blocks\": ["
    "{\"name\": \"stem\", \"layers\": ["
    "  {\"kind\": \"conv2d\", \"channels\": 32, \"padding\": 1}, {\"kind\": \"relu\"}]},"
    "{\"name\": \"body\", \"repeat\": 2, \"layers\": ["
    "  {\"kind\": \"conv2d\", \"channels\": 32, \"padding\": 1}, {\"kind\": \"batch_norm\"},"
    "  {\"kind\": \"relu\"}, {\"kind\": \"conv2d\", \"channels\": 32, \"padding\": 1},"
    "  {\"kind\": \"batch_norm\"},"
    "  {\"kind\": \"add\", \"inputs\": [\"previous\", \"block_input\"]},"
    "  {\"kind\": \"relu\", \"name\": \"last\"}]},"
    "{\"name\": \"classifier\", \"layers\": [{\"kind\": \"global_average_pool\"},"
    "  {\"kind\": \"linear\", \"out\": 3}]}]}";

static void test_cuts(void)
{
    cut_everywhere(preset("resnet18", ", \"width\": 4, \"stem\": \"cifar\", \"input\": "
                                      "[3, 8, 8], \"classes\": 3"));
    cut_everywhere(preset("resnet50", ", \"width\": 4, \"norm\": \"group_norm\", \"input\": "
                                      "[2, 19, 16], \"classes\": 3"));
    cut_everywhere(chain_model(wide_text));
}

/* Training on a few images whose mean colour is their class. */
enum { SAMPLES = 12, PIXELS = 64 };

struct lesson {
    scalar images[SAMPLES * 3 * PIXELS];
    int32_t labels[SAMPLES];
};

static struct lesson make_lesson(void)
{
    struct lesson lesson;
    struct random_key key = {8, RANDOM_TEST, 0, 0};
    for (size_t n = 0; n < SAMPLES; n++) {
        lesson.labels[n] = (int32_t)(n % CLASSES);
        for (size_t c = 0; c < 3; c++)
            for (size_t p = 0; p < PIXELS; p++) {
                size_t at = (n * 3 + c) * PIXELS + p;
                double centre = c == n % CLASSES ? 0.5 : 0;
                lesson.images[at] = (scalar)(centre + random_normal(key, at));
            }
    }
    return lesson;
}

static struct network *open_network(const struct model *model, size_t batch, bool training)
{
    struct error error;
    struct network_options options = {.model = model,
                                      .end_layer = model->layer_count,
                                      .batch = batch,
                                      .slots = 1,
                                      .training = training,
                                      .seed = 3};
    struct network *network = network_create(&options, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(network);
    return network;
}

/* The mean loss of samples [first, first + batch), after forward and, for training,
 * backward. */
static double learn(struct network *network, const struct model *model,
                    const struct lesson *lesson, size_t first, size_t batch,
                    uint64_t *correct)
{
    size_t output = model_output_value(model);
    scalar *gradient = network_gradient(network, 0, output);
    memcpy(network_value(network, 0, 0), lesson->images + first * 3 * PIXELS,
           batch * 3 * PIXELS * sizeof(scalar));
    network_forward(network, 0, 0, first);
    if (gradient != NULL)
        memset(gradient, 0, batch * CLASSES * sizeof *gradient);
    double loss =
        loss_cross_entropy(network_value(network, 0, output), lesson->labels + first, batch,
                           CLASSES, 0, 1.0 / SAMPLES, gradient, correct);
    if (gradient != NULL)
        network_backward(network, 0, BACKWARD_ALL, &output, 1);
    return loss / (double)batch;
}

static void descend(struct network *network, scalar rate)
{
    size_t count;
    scalar *p = network_parameters(network, &count);
    const scalar *d = network_parameter_gradients(network);
    for (size_t i = 0; i < count; i++)
        p[i] -= rate * d[i];
    network_zero_gradients(network);
}

static const char *const small = ", \"width\": 4, \"stem\": \"cifar\", \"input\": [3, 8, 8], "
                                 "\"classes\": 3";

/* The loss falls, and with running statistics the same images are then recognised. */
static void test_training(void)
{
    struct model *model = preset("resnet18", small);
    struct network *network = open_network(model, SAMPLES, true);
    struct network *evaluation = open_network(model, 1, false);
    struct lesson lesson = make_lesson();
    double first = learn(network, model, &lesson, 0, SAMPLES, NULL), last = first;
    uint64_t correct = 0;
    for (size_t step = 0; step < 60; step++) {
        descend(network, (scalar)0.05);
        last = learn(network, model, &lesson, 0, SAMPLES, NULL);
        CU_ASSERT_FATAL(isfinite(last));
    }
    CU_ASSERT(last < 0.25 * first);
    network_copy_weights(evaluation, network);
    for (size_t n = 0; n < SAMPLES; n++)
        learn(evaluation, model, &lesson, n, 1, &correct);
    if (correct + 2 < SAMPLES || last >= 0.25 * first)
        printf("\n  loss %g to %g, %llu right\n", first, last, (unsigned long long)correct);
    CU_ASSERT(correct + 2 >= SAMPLES);
    network_free(network);
    network_free(evaluation);
    model_free(model);
}

/* Group norm knows no batch: micro-batches of any size give the gradients of the whole. */
static void test_micro_batches(void)
{
    char rest[160];
    snprintf(rest, sizeof rest, "%s, \"norm\": \"group_norm\"", small);
    struct model *model = preset("resnet18", rest);
    struct lesson lesson = make_lesson();
    struct network *whole = open_network(model, SAMPLES, true);
    learn(whole, model, &lesson, 0, SAMPLES, NULL);
    for (size_t batch = 1; batch < SAMPLES; batch += batch < 4 ? 1 : 2) {
        struct network *parts = open_network(model, batch, true);
        size_t count;
        if (SAMPLES % batch == 0)
            for (size_t first = 0; first < SAMPLES; first += batch)
                learn(parts, model, &lesson, first, batch, NULL);
        else
            learn(parts, model, &lesson, 0, batch, NULL);
        network_parameters(whole, &count);
        const scalar *a = network_parameter_gradients(whole);
        const scalar *b = network_parameter_gradients(parts);
        double difference = 0, size = 0;
        for (size_t i = 0; i < count; i++) {
            difference += pow((double)(a[i] - b[i]), 2);
            size += pow((double)a[i], 2);
        }
        CU_ASSERT_EQUAL(difference <= 1e-10 * size, SAMPLES % batch == 0);
        network_free(parts);
    }
    network_free(whole);
    model_free(model);
}

static const struct check checks[] = {
    {"published sizes", test_published},
    {"what crosses between blocks", test_crossings},
    {"settings", test_settings},
    {"refusals", test_refusals},
    {"cuts within residual blocks", test_cuts},
    {"training", test_training},
    {"micro-batches with group norm", test_micro_batches},
};

CHECK_MAIN("residual networks", checks)
