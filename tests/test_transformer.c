/* Transformers: sizes, what may see what, and cuts, also between tied weights. */
#include "tests/network_chain.h"

#include <math.h>

static uint64_t parameters_of(const char *text)
{
    struct model *model = chain_model(text);
    uint64_t count = model_parameter_count(model);
    model_free(model);
    return count;
}

/* Vaswani et al. 2017, table 3, has 65 and 213 million, without saying with which biases
 * and vocabulary. These are the sums for 37000 tokens and biases in every projection. */
static void test_published_sizes(void)
{
    CU_ASSERT_EQUAL(parameters_of("{\"preset\": \"transformer\"}"), 63082496);
    CU_ASSERT_EQUAL(parameters_of("{\"preset\": \"transformer\", \"size\": \"big\"}"),
                    214245376);
    /* Each of 2 more tables, and the projection's bias. */
    CU_ASSERT_EQUAL(parameters_of("{\"preset\": \"transformer\", \"tied\": false}"),
                    63082496 + 2 * 37000 * 512 + 37000);
}

static uint64_t lm_parameters(uint64_t vocabulary, uint64_t length, uint64_t width,
                              uint64_t depth, uint64_t feed_forward)
{
    uint64_t attention = 4 * width * width + 4 * width;
    uint64_t feed = 2 * width * feed_forward + feed_forward + width;
    return (vocabulary + length) * width + depth * (attention + feed + 4 * width) +
           2 * width;
}

static void test_language_model_sizes(void)
{
    CU_ASSERT_EQUAL(parameters_of("\"transformer_lm\""),
                    lm_parameters(256, 128, 256, 4, 1024));
    CU_ASSERT_EQUAL(parameters_of("{\"preset\": \"transformer_lm\", \"tied\": false}"),
                    lm_parameters(256, 128, 256, 4, 1024) + 256 * 257);
    CU_ASSERT_EQUAL(
        parameters_of("{\"preset\": \"transformer_lm\", \"vocabulary\": 5, \"length\": 3, "
                      "\"width\": 6, \"depth\": 2, \"heads\": 3, \"feed_forward\": 7}"),
        lm_parameters(5, 3, 6, 2, 7));
    /* The norm at the end is part of norms that come first. */
    CU_ASSERT_EQUAL(
        parameters_of("{\"preset\": \"transformer_lm\", \"norm_first\": false}"),
        lm_parameters(256, 128, 256, 4, 1024) - 2 * 256);
    /* GPT-2, the small one (Radford et al. 2019): 124 million. */
    CU_ASSERT_EQUAL(
        parameters_of("{\"preset\": \"transformer_lm\", \"vocabulary\": 50257, \"length\": "
                      "1024, \"width\": 768, \"depth\": 12, \"heads\": 12}"),
        124439808);
}

static void test_blocks(void)
{
    struct model *model = chain_model("{\"preset\": \"transformer\", \"depth\": 3}");
    CU_ASSERT_EQUAL_FATAL(model->block_count, 6);
    CU_ASSERT_STRING_EQUAL(model->blocks[0].name, "encoder0");
    CU_ASSERT_STRING_EQUAL(model->blocks[5].name, "decoder2");
    /* Between encoder layers the state and the tokens, between decoder layers the state
     * and the memory. */
    CU_ASSERT_EQUAL(model_crossing_count(model, model->blocks[1].first_layer),
                    128 * 512 + 256);
    CU_ASSERT_EQUAL(model_crossing_count(model, model->blocks[4].first_layer),
                    2 * 128 * 512);
    CU_ASSERT_EQUAL(model->classes, 37000);
    model_free(model);
}

static const struct layer *layer_named(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name, name) == 0)
            return &model->layers[i];
    CU_FAIL_FATAL("no such layer");
    return NULL;
}

static void test_costs(void)
{
    struct model *model = chain_model(
        "{\"preset\": \"transformer\", \"source_length\": 5, \"target_length\": 3, "
        "\"width\": 8, \"depth\": 1, \"heads\": 2, \"feed_forward\": 16}");
    const uint64_t s = 5, t = 3, w = 8, h = 2;
    const struct layer *self = layer_named(model, "encoder0.attention");
    const struct layer *cross = layer_named(model, "decoder0.cross");
    CU_ASSERT_EQUAL(self->macs, 4 * s * w * w + 2 * s * s * w);
    CU_ASSERT_EQUAL(self->forward_flops, 2 * self->macs + 4 * s * w + 8 * h * s * s);
    CU_ASSERT_EQUAL(self->backward_weight_flops, 2 * 4 * s * w * w + 4 * s * w);
    CU_ASSERT_EQUAL(self->backward_input_flops,
                    2 * 4 * s * w * w + 8 * s * s * w + 4 * h * s * s);
    CU_ASSERT_EQUAL(self->stash_count, 4 * s * w + h * s * s);
    CU_ASSERT_EQUAL(cross->macs, 2 * t * w * w + 2 * s * w * w + 2 * t * s * w);
    CU_ASSERT_EQUAL(cross->forward_flops,
                    2 * cross->macs + 2 * t * w + 2 * s * w + 8 * h * t * s);
    CU_ASSERT_EQUAL(cross->stash_count, 2 * t * w + 2 * s * w + h * t * s);
    model_free(model);
}

/* Logits of a batch of one for tokens i * i % vocabulary, one of them replaced. */
static scalar *logits_of(const struct model *model, size_t place, uint64_t token)
{
    struct error error = {0};
    struct network_options options = {
        .model = model, .end_layer = model->layer_count, .batch = 1, .slots = 1, .seed = 3};
    struct network *network = network_create(&options, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(network);
    scalar *input = network_value(network, 0, 0);
    for (size_t i = 0; i < model->input_shape.extent[0]; i++)
        input[i] = (scalar)(i * i % model->vocabulary);
    if (place < model->input_shape.extent[0])
        input[place] = (scalar)token;
    network_forward(network, 0, 0, 0);
    size_t count = (size_t)shape_count(model_value_shape(model, model->layer_count));
    scalar *copy = checked_calloc(count, sizeof *copy);
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    memcpy(copy, network_value(network, 0, model->layer_count), count * sizeof *copy);
    network_free(network);
    return copy;
}

/* Which of the output's rows change, bit by bit, with the token at a place. */
static size_t first_changed(const struct model *model, size_t place)
{
    size_t rows = (size_t)model_value_shape(model, model->layer_count)->extent[0];
    size_t classes = (size_t)model->classes, row = 0;
    scalar *before = logits_of(model, SIZE_MAX, 0);
    scalar *after = logits_of(model, place, (place * place + 1) % model->vocabulary);
    while (row < rows && memcmp(before + row * classes, after + row * classes,
                                classes * sizeof *before) == 0)
        row++;
    free(before);
    free(after);
    return row;
}

static void test_causal(void)
{
    static const size_t lengths[] = {1, 2, 7, 64, 65, 131};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"preset\": \"transformer_lm\", \"vocabulary\": 13, \"length\": %zu, "
                 "\"width\": 12, \"depth\": 2, \"heads\": 3}",
                 lengths[i]);
        struct model *model = chain_model(text);
        const size_t places[] = {0, lengths[i] / 2, lengths[i] * 2 / 3, lengths[i] - 1};
        for (size_t k = 0; k < 4; k++)
            CU_ASSERT_EQUAL(first_changed(model, places[k]), places[k]);
        model_free(model);
    }
}

static void test_source_and_target(void)
{
    struct model *model = chain_model(
        "{\"preset\": \"transformer\", \"vocabulary\": 13, \"source_length\": 5, "
        "\"target_length\": 4, \"width\": 8, \"depth\": 2, \"heads\": 2}");
    for (size_t place = 0; place < 5; place++)
        CU_ASSERT_EQUAL(first_changed(model, place), 0);
    for (size_t place = 5; place < 9; place++)
        CU_ASSERT_EQUAL(first_changed(model, place), place - 5);
    model_free(model);
}

/* It is seen in the output, and does not read beyond the table. */
static void test_not_a_token(void)
{
    struct model *model =
        chain_model("{\"preset\": \"transformer_lm\", \"vocabulary\": 13, "
                    "\"length\": 2, \"width\": 4, \"heads\": 1}");
    scalar *logits = logits_of(model, 1, 13);
    for (size_t i = 0; i < 13; i++)
        CU_ASSERT(isnan(logits[13 + i]));
    free(logits);
    model_free(model);
}

/* Sum over the parts of the gradients of an owner's tensor; the number of parts that hold
 * it comes back. */
static size_t sum_of_copies(struct chain *parts, size_t owner, size_t tensor, scalar *sum)
{
    size_t copies = 0;
    for (size_t i = 0; i < parts->count; i++) {
        size_t count;
        const struct network_tensor *tensors = network_tensors(parts->network[i], &count);
        const scalar *gradients = network_parameter_gradients(parts->network[i]);
        for (size_t t = 0; t < count; t++) {
            if (model_owner(parts->model, tensors[t].layer) != owner ||
                tensors[t].tensor != tensor)
                continue;
            for (size_t k = 0; k < tensors[t].count; k++)
                sum[k] += gradients[tensors[t].offset + k];
            copies++;
        }
    }
    return copies;
}

/* Gradients of a tensor that one part holds are the whole's, bit by bit; copies' add up
 * to it, in another order. */
static bool same_gradients(struct chain *whole, struct chain *parts)
{
    size_t count, total;
    const struct network_tensor *tensors = network_tensors(whole->network[0], &count);
    const scalar *gradients = network_parameter_gradients(whole->network[0]);
    bool same = true;
    network_parameters(whole->network[0], &total);
    scalar *sum = checked_calloc(total, sizeof *sum);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sum);
    for (size_t t = 0; t < count; t++) {
        const scalar *expected = gradients + tensors[t].offset;
        memset(sum, 0, tensors[t].count * sizeof *sum);
        size_t copies = sum_of_copies(parts, tensors[t].layer, tensors[t].tensor, sum);
        double worst = 0, largest = 0;
        for (size_t k = 0; k < tensors[t].count; k++) {
            worst = fmax(worst, fabs((double)(expected[k] - sum[k])));
            largest = fmax(largest, fabs((double)expected[k]));
        }
        same = same && copies > 0 && worst <= (copies > 1 ? 1e-6 * largest : 0);
    }
    free(sum);
    return same;
}

static void check_cuts(const char *text)
{
    struct model *model = chain_model(text);
    size_t ends[CHAIN_MAX];
    struct chain whole, parts;
    chain_open(&whole, model, NULL, 0, 1, false);
    double loss = chain_step(&whole, 2);
    /* Between any two layers, then between all blocks at once. */
    for (size_t cut = 1; cut <= model->layer_count; cut++) {
        size_t count = cut < model->layer_count ? 1 : model->block_count - 1;
        for (size_t i = 0; i < count; i++)
            ends[i] = cut < model->layer_count ? cut : model->blocks[i].end_layer;
        chain_open(&parts, model, ends, count, 1, false);
        CU_ASSERT_EQUAL(chain_step(&parts, 2), loss);
        CU_ASSERT_TRUE(same_gradients(&whole, &parts));
        chain_close(&parts);
    }
    chain_close(&whole);
    model_free(model);
}

#define SMALL_LM                                                                           \
    "{\"preset\": \"transformer_lm\", \"vocabulary\": 11, \"length\": 7, "                 \
    "\"width\": 12, \"depth\": 3, \"heads\": 3, "
#define SMALL                                                                              \
    "{\"preset\": \"transformer\", \"vocabulary\": 11, \"source_length\": 5, "             \
    "\"target_length\": 3, \"width\": 8, \"depth\": 2, \"feed_forward\": 5, "

static void test_cuts(void)
{
    check_cuts(SMALL_LM "\"dropout\": 0.1}");
    check_cuts(SMALL_LM "\"tied\": false, \"norm_first\": false, \"activation\": \"relu\", "
                        "\"positions\": \"sinusoidal\"}");
    check_cuts(SMALL "\"heads\": 2}");
    check_cuts(SMALL "\"heads\": 1, \"tied\": false, \"norm_first\": true, "
                     "\"dropout\": 0, \"positions\": \"learned\"}");
}

/* A token is followed by 3 times itself plus 1, but where the sequence begins anew. */
static void test_learns(void)
{
    struct model *model = chain_model(SMALL_LM "\"positions\": \"learned\"}");
    struct error error = {0};
    enum { LENGTH = 7, VOCABULARY = 11, STEPS = 200 };
    struct chain chain;
    chain_open(&chain, model, NULL, 0, 1, false);
    struct network *network = chain.network[0];
    size_t output = model_output_value(model), count;
    scalar *p = network_parameters(network, &count);
    double first = 0, last = 0;
    CU_ASSERT_EQUAL(error.status, STATUS_OK);
    for (uint64_t step = 0; step < STEPS; step++) {
        int32_t labels[CHAIN_BATCH * LENGTH];
        for (uint64_t i = 0, token = 0; i < CHAIN_BATCH * LENGTH; i++) {
            token =
                i % LENGTH == 0 ? (step + i) % VOCABULARY : (3 * token + 1) % VOCABULARY;
            network_value(network, 0, 0)[i] = (scalar)token;
            labels[i] = (int32_t)((3 * token + 1) % VOCABULARY);
        }
        scalar *gradient = network_gradient(network, 0, output);
        network_zero_gradients(network);
        network_forward(network, 0, step, 0);
        memset(gradient, 0,
               sizeof labels / sizeof labels[0] * VOCABULARY * sizeof *gradient);
        last = loss_cross_entropy(network_value(network, 0, output), labels,
                                  CHAIN_BATCH * LENGTH, VOCABULARY, 0,
                                  1.0 / (CHAIN_BATCH * LENGTH), gradient, NULL) /
               (CHAIN_BATCH * LENGTH);
        first = step == 0 ? last : first;
        network_backward(network, 0, BACKWARD_ALL, &output, 1);
        for (size_t i = 0; i < count; i++)
            p[i] -= (scalar)0.3 * network_parameter_gradients(network)[i];
    }
    CU_ASSERT(first > 1.5);
    CU_ASSERT(last < 0.1);
    chain_close(&chain);
    model_free(model);
}

static void refused(const char *text, const char *part)
{
    struct error error = {0};
    struct json_file *file = json_file_parse("model.json", text, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    struct json_at root = json_root(file);
    struct model *model = model_read(&root, &error);
    CU_ASSERT_PTR_NULL(model);
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    if (strstr(error.message, part) == NULL || strstr(error.message, "model.json") == NULL)
        printf("\n  \"%s\" does not say \"%s\"\n", error.message, part);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, part));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "model.json"));
    model_free(model);
    json_file_free(file);
}

static void test_refusals(void)
{
    refused("{\"preset\": \"transformer_lm\", \"heads\": 3}", "256 is not for 3 heads");
    refused("{\"preset\": \"transformer_lm\", \"heads\": 0}", "heads");
    refused("{\"preset\": \"transformer_lm\", \"depth\": 0}", "depth");
    refused("{\"preset\": \"transformer_lm\", \"length\": 0}", "length");
    refused("{\"preset\": \"transformer_lm\", \"positions\": \"none\"}", "sinusoidal");
    refused("{\"preset\": \"transformer_lm\", \"width\": 16777216, \"heads\": 1}", "2^40");
    refused("{\"preset\": \"transformer\", \"size\": \"huge\"}", "base");
    refused("{\"preset\": \"transformer\", \"source_length\": 0}", "source_length");
    refused("{\"input\": [4], \"blocks\": [{\"name\": \"a\", \"layers\": [{\"kind\": "
            "\"slice\", \"first\": 3, \"count\": 2}]}]}",
            "2 places from place 3 of 4");
    refused("{\"input\": [4], \"blocks\": [{\"name\": \"a\", \"layers\": [{\"kind\": "
            "\"attention\", \"heads\": 2}]}]}",
            "sequence");
    refused("{\"input\": [2, 2, 2, 2], \"blocks\": [{\"name\": \"a\", \"layers\": "
            "[{\"kind\": \"embedding\", \"vocabulary\": 3, \"width\": 2}]}]}",
            "dimensions");
    refused("{\"input\": [4, 4], \"blocks\": [{\"name\": \"a\", \"layers\": [{\"kind\": "
            "\"cross_attention\", \"heads\": 2, \"inputs\": [\"input\"]}]}]}",
            "inputs");
}

/* Longer than memory holds: described, not computed. */
static void test_large(void)
{
    struct model *model =
        chain_model("{\"preset\": \"transformer_lm\", \"length\": 100000, "
                    "\"width\": 12288, \"heads\": 96, \"depth\": 2}");
    const struct layer *layer = layer_named(model, "layer1.attention");
    CU_ASSERT_EQUAL(layer->stash_count,
                    UINT64_C(4) * 100000 * 12288 + UINT64_C(96) * 100000 * 100000);
    struct error error = {0};
    struct network_options options = {.model = model,
                                      .end_layer = model->layer_count,
                                      .batch = 1,
                                      .slots = 1,
                                      .training = true};
    CU_ASSERT_PTR_NULL(network_create(&options, &error));
    CU_ASSERT_NOT_EQUAL(error.status, STATUS_OK);
    model_free(model);
}

static const struct check checks[] = {
    {"published sizes", test_published_sizes},
    {"language models' sizes", test_language_model_sizes},
    {"blocks", test_blocks},
    {"costs", test_costs},
    {"no place sees a later one", test_causal},
    {"the target sees the source", test_source_and_target},
    {"not a token", test_not_a_token},
    {"cuts anywhere", test_cuts},
    {"learns", test_learns},
    {"refusals", test_refusals},
    {"too long to compute", test_large},
};
CHECK_MAIN("transformers", checks)
