/* Models: what crosses a cut, what is kept, heads, and strict reading. */
#include "tests/check.h"

#include "engine/models/presets.h"

#include <stdio.h>
#include <string.h>

static struct model *read_text(const char *text, struct error *error)
{
    struct json_file *file = json_file_parse("m.json", text, error);
    if (file == NULL)
        return NULL;
    struct json_at root = json_root(file);
    struct model *model = model_read(&root, error);
    json_file_free(file);
    return model;
}

static struct model *model_of(const char *text)
{
    struct error error = {0};
    struct model *model = read_text(text, &error);
    if (model == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    return model;
}

/* Values: 0 input [5], 1 linear [7], 2 relu [7], 3 linear [7], 4 add [7], 5 linear [3]. */
static const char residual[] =
    "{\"input\": [5], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"linear\", \"out\": 7}, {\"kind\": "
    "\"relu\"}]},"
    "{\"name\": \"b\", \"layers\": [{\"kind\": \"linear\", \"out\": 7},"
    " {\"kind\": \"add\", \"inputs\": [\"previous\", \"block_input\"]}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"linear\", \"out\": 3}]}]}";

static void test_crossing(void)
{
    static const struct {
        size_t count, values[2];
        uint64_t scalars;
    } expected[] = {{1, {0}, 5},     {1, {1}, 7}, {1, {2}, 7},
                    {2, {2, 3}, 14}, {1, {4}, 7}, {1, {5}, 3}};
    struct model *model = model_of(residual);
    CU_ASSERT_EQUAL_FATAL(model->layer_count, 5);
    CU_ASSERT_EQUAL(model->block_count, 3);
    CU_ASSERT_EQUAL(model->classes, 3);
    for (size_t cut = 0; cut <= 5; cut++) {
        size_t values[MODEL_MAX_CROSSING];
        CU_ASSERT_EQUAL(model_crossing(model, cut, values), expected[cut].count);
        for (size_t i = 0; i < expected[cut].count; i++)
            CU_ASSERT_EQUAL(values[i], expected[cut].values[i]);
        CU_ASSERT_EQUAL(model_crossing_count(model, cut), expected[cut].scalars);
    }
    CU_ASSERT_EQUAL(model_parameter_count(model), 5 * 7 + 7 + 7 * 7 + 7 + 7 * 3 + 3);
    CU_ASSERT_EQUAL(model_macs(model), 5 * 7 + 7 * 7 + 7 * 3);
    CU_ASSERT_EQUAL(model->layers[0].forward_flops, 2 * 5 * 7 + 7);
    model_free(model);
}

/* Kept: 0 and 2 and 4 by the linears, 2 by relu as well, once. */
static void test_stash(void)
{
    struct model *model = model_of(residual);
    CU_ASSERT_EQUAL(model_stash(model, 0, 5).count, 5 + 7 + 7);
    CU_ASSERT_EQUAL(model_stash(model, 0, 5).fixed_count, 0);
    CU_ASSERT_EQUAL(model_stash(model, 0, 2).count, 5 + 7);
    CU_ASSERT_EQUAL(model_stash(model, 2, 4).count, 7);
    CU_ASSERT_EQUAL(model_stash(model, 3, 4).count, 0);
    CU_ASSERT_EQUAL(model_stash(model, 4, 5).count, 7);
    CU_ASSERT_EQUAL(model_stash(model, 1, 1).count, 0);
    CU_ASSERT_TRUE(model_keeps(model, 0, 2, 2));
    CU_ASSERT_FALSE(model_keeps(model, 3, 4, 2));
    model_free(model);
}

/* Backward of the whole: gradients of 5 and 4 together 10, then 4 with 3 and 2: 21. Of
 * layers 2 and 3: 4 with 3 and 2, then 3 with 2. Of the add alone forward and backward
 * have 21. Of the last layer alone: 4's and 5's. */
static void test_transient(void)
{
    struct model *model = model_of(residual);
    CU_ASSERT_EQUAL(model_transient_count(model, 0, 5), 21);
    CU_ASSERT_EQUAL(model_transient_count(model, 2, 4), 21);
    CU_ASSERT_EQUAL(model_transient_count(model, 3, 4), 21);
    CU_ASSERT_EQUAL(model_transient_count(model, 4, 5), 10);
    CU_ASSERT_EQUAL(model_transient_count(model, 0, 1), 7);
    /* Nothing but what passes through. */
    CU_ASSERT_EQUAL(model_transient_count(model, 3, 3), 14);
    model_free(model);
    /* A value that a layer uses twice is there once. */
    model = model_of("{\"input\": [4], \"blocks\": [{\"name\": \"a\", \"layers\": ["
                     "{\"kind\": \"linear\", \"out\": 9}, {\"kind\": \"add\","
                     " \"inputs\": [\"previous\", \"previous\"]},"
                     " {\"kind\": \"add\", \"name\": \"b\","
                     " \"inputs\": [\"previous\", \"previous\"]}]}]}");
    CU_ASSERT_EQUAL(model_transient_count(model, 0, 3), 9 + 9);
    model_free(model);
}

static void test_mlp(void)
{
    struct model *model = model_of("{\"preset\": \"mlp\"}");
    CU_ASSERT_EQUAL(model->block_count, 9);
    CU_ASSERT_EQUAL(model->layer_count, 1 + 8 * 2 + 1);
    CU_ASSERT_EQUAL(model_parameter_count(model),
                    784 * 256 + 256 + 7 * (256 * 256 + 256) + 256 * 10 + 10);
    model_free(model);
    model = model_of("{\"preset\": \"mlp\", \"input\": [1], \"hidden\": 1, \"depth\": 0,"
                     " \"classes\": 1}");
    CU_ASSERT_EQUAL(model->layer_count, 1);
    CU_ASSERT_EQUAL(model->block_count, 1);
    model_free(model);
    /* Sizes beyond 4 GiB are described all the same. */
    model = model_of("{\"preset\": \"mlp\", \"input\": [16777216], \"hidden\": 16384,"
                     " \"depth\": 1}");
    CU_ASSERT_EQUAL(model->layers[0].tensor[0].count, UINT64_C(1) << 38);
    CU_ASSERT_EQUAL(model->layers[0].forward_flops, (UINT64_C(1) << 39) + 16384);
    model_free(model);
}

static void test_every_preset_builds(void)
{
    CU_ASSERT(model_preset_count() > 0);
    CU_ASSERT_PTR_NULL(model_preset_name(model_preset_count()));
    CU_ASSERT_PTR_NULL(model_preset_find("nothing"));
    for (size_t i = 0; i < model_preset_count(); i++) {
        char text[128];
        const char *name = model_preset_name(i);
        CU_ASSERT_STRING_EQUAL(model_preset_find(name)->name, name);
        snprintf(text, sizeof text, "{\"preset\": \"%s\"}", name);
        struct model *model = model_of(text);
        CU_ASSERT(model->block_count > 1);
        size_t layers = 0;
        for (size_t b = 0; b < model->block_count; b++) {
            CU_ASSERT_EQUAL(model->blocks[b].first_layer, layers);
            layers = model->blocks[b].end_layer;
        }
        CU_ASSERT_EQUAL(layers, model->layer_count);
        model_free(model);
    }
}

/* A bare name becomes an object in the tree, with all defaults, and reads again alike. */
static void test_resolved(void)
{
    struct error error;
    struct json_file *file = json_file_parse("m.json", "{\"model\": \"mlp\"}", &error);
    struct json_at root = json_root(file), at;
    CU_ASSERT_TRUE_FATAL(json_member(&root, "model", &at, &error));
    struct model *model = model_read(&at, &error);
    char *text = cJSON_PrintUnformatted(at.node);
    CU_ASSERT_STRING_EQUAL(text, "{\"preset\":\"mlp\",\"input\":[1,28,28],\"hidden\":256,"
                                 "\"depth\":8,\"classes\":10}");
    struct model *again = model_of(text);
    CU_ASSERT_EQUAL(model_parameter_count(model), model_parameter_count(again));
    cJSON_free(text);
    model_free(model);
    model_free(again);
    json_file_free(file);
}

static void test_blocks(void)
{
    struct model *model = model_of(
        "{\"name\": \"mine\", \"input\": [2, 4], \"comment\": \"any\", \"blocks\": ["
        "{\"name\": \"x\", \"repeat\": 2, \"layers\": ["
        " {\"kind\": \"linear\", \"out\": 4, \"bias\": true},"
        " {\"kind\": \"linear\", \"out\": 4, \"bias\": 0},"
        " {\"kind\": \"add\", \"name\": \"sum\","
        "  \"inputs\": [\"linear\", \"linear_2\", \"block_input\"]}]},"
        "{\"name\": \"y\", \"layers\": ["
        " {\"kind\": \"add\", \"inputs\": [\"x0.sum\", \"input\"]}]}]}");
    CU_ASSERT_STRING_EQUAL(model->name, "mine");
    CU_ASSERT_EQUAL_FATAL(model->layer_count, 7);
    CU_ASSERT_STRING_EQUAL(model->blocks[1].name, "x1");
    CU_ASSERT_STRING_EQUAL(model->layers[4].name, "x1.linear_2");
    CU_ASSERT_EQUAL(model->layers[3].tensor_count, 2);
    CU_ASSERT_EQUAL(model->layers[4].tensor_count, 1);
    const size_t sum[] = {4, 5, 3};
    CU_ASSERT_EQUAL(memcmp(model->layers[5].input, sum, sizeof sum), 0);
    CU_ASSERT_EQUAL(model->layers[6].input[0], 3);
    CU_ASSERT_EQUAL(model->layers[6].input[1], 0);
    struct error error;
    struct model *copy = model_copy(model, &error);
    model_free(model);
    CU_ASSERT_EQUAL(copy->layer_count, 7);
    CU_ASSERT_STRING_EQUAL(copy->layers[5].name, "x1.sum");
    model_free(copy);
}

#define ONE(layer)                                                                         \
    "{\"input\": [4], \"blocks\": [{\"name\": \"a\", \"layers\": [" layer "]}]}"

static void test_refusals(void)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"\"mpl\"", "nearest known is \"mlp\""},
        {"5", "preset"},
        {"{\"preset\": \"mlp\", \"hiden\": 5}", "nearest known is \"hidden\""},
        {"{\"preset\": \"mlp\", \"hidden\": 0}", "hidden"},
        {"{\"preset\": \"mlp\", \"input\": []}", "input"},
        {"{\"preset\": \"mlp\", \"input\": [1, 2, 3, 4, 5]}", "input"},
        {"{\"preset\": \"mlp\", \"input\": [0]}", "input[0]"},
        {"{\"preset\": \"mlp\", \"input\": [1048576, 1048576, 2]}", "2^40"},
        {"{\"preset\": \"mlp\", \"input\": [16777216], \"hidden\": 16777216}", "too large"},
        {"{}", "input"},
        {"{\"input\": [3]}", "blocks"},
        {"{\"input\": [3], \"blocks\": []}", "blocks"},
        {"{\"input\": [3], \"blocks\": [{\"name\": \"a\", \"layers\": []}]}", "layers"},
        {"{\"input\": [3], \"blocks\": [{\"layers\": []}]}", "\"name\""},
        {"{\"input\": [3], \"blocks\": [{\"name\": \"a\", \"repeat\": 0, \"layers\": []}]}",
         "repeat"},
        {ONE("{\"kind\": \"lineer\", \"out\": 3}"), "nearest known is \"linear\""},
        {ONE("{\"kind\": \"linear\"}"), "blocks[0].layers[0]: the key \"out\" is missing"},
        {ONE("{\"kind\": \"linear\", \"out\": 0}"), "blocks[0].layers[0].out"},
        {ONE("{\"kind\": \"linear\", \"out\": 2.5}"), "blocks[0].layers[0].out"},
        {ONE("{\"kind\": \"linear\", \"out\": 2, \"bais\": 1}"),
         "nearest known is \"bias\""},
        {ONE("{\"kind\": \"linear\", \"out\": 2, \"bias\": 2}"), "bias"},
        {ONE("{\"kind\": \"linear\", \"out\": 2, \"bias\": \"no\"}"), "bias"},
        {ONE("{\"kind\": \"dropout\", \"rate\": 1}"), "rate"},
        {ONE("{\"kind\": \"relu\", \"name\": \"previous\"}"), "previous"},
        {ONE("{\"kind\": \"relu\", \"name\": \"\"}"), "empty"},
        {ONE("{\"kind\": \"relu\", \"name\": \"x\"}, {\"kind\": \"relu\", \"name\": "
             "\"x\"}"),
         "blocks[0].layers[1]"},
        {ONE("{\"kind\": \"relu\", \"name\": "
             "\"a_name_that_is_longer_than_what_fits_into_the_array\"}"),
         "longer"},
        {ONE("{\"kind\": \"add\"}"), "2 to 3 inputs"},
        {ONE("{\"kind\": \"relu\", \"inputs\": [\"later\"]}"), "\"later\""},
        {ONE("{\"kind\": \"relu\", \"inputs\": []}"), "inputs"},
        {ONE("{\"kind\": \"linear\", \"out\": 3}, {\"kind\": \"add\", \"inputs\": "
             "[\"previous\", \"input\"]}"),
         "shapes 3 and 4"},
        {ONE("{\"kind\": \"linear\", \"out\": 3}, {\"kind\": \"linear\", \"out\": 3, "
             "\"tied_to\": \"linear\"}"),
         "other sizes"},
        {ONE("{\"kind\": \"relu\", \"name\": \"r\"}, {\"kind\": \"relu\", \"tied_to\": "
             "\"r\"}"),
         "tied"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {0};
        struct model *model = read_text(cases[i].text, &error);
        CU_ASSERT_PTR_NULL(model);
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        bool told = strstr(error.message, cases[i].part) != NULL &&
                    strncmp(error.message, "m.json", 6) == 0;
        if (!told)
            printf("\n  %s: %s\n", cases[i].text, error.message);
        CU_ASSERT(told);
        model_free(model);
    }
}

/* Eight values that are used at the end, and the input as the ninth. */
static void test_too_many_crossing(void)
{
    struct error error = {0};
    const struct shape input = {1, {4}};
    struct model *model = model_create("fan", &input, 0, &error);
    char name[LAYER_NAME_BYTES];
    CU_ASSERT_FALSE(model_finish(model, &error));
    CU_ASSERT_FALSE(
        model_add(model, "relu", "early", NULL, NULL, 0, SIZE_MAX, NULL, &error));
    CU_ASSERT_TRUE_FATAL(model_begin_block(model, "a", &error));
    CU_ASSERT_FALSE(model_begin_block(model, "a", &error));
    for (size_t i = 0; i < 8; i++) {
        const size_t from = 0;
        snprintf(name, sizeof name, "r%zu", i);
        CU_ASSERT_TRUE_FATAL(
            model_add(model, "relu", name, NULL, &from, 1, SIZE_MAX, NULL, &error));
    }
    for (size_t i = 0; i < 4; i++) {
        const size_t from[] = {2 * i + 1, 2 * i + 2};
        snprintf(name, sizeof name, "s%zu", i);
        CU_ASSERT_TRUE_FATAL(
            model_add(model, "add", name, NULL, from, 2, SIZE_MAX, NULL, &error));
    }
    const size_t ahead = 99;
    CU_ASSERT_FALSE(model_add(model, "relu", "x", NULL, &ahead, 1, SIZE_MAX, NULL, &error));
    const struct option_value twice[] = {{"out", 1}, {"out", 2}, {0}};
    CU_ASSERT_FALSE(
        model_add(model, "linear", "x", twice, NULL, 0, SIZE_MAX, NULL, &error));
    CU_ASSERT_TRUE(model_finish(model, &error));
    const size_t ninth[] = {12, 0};
    CU_ASSERT_TRUE(model_add(model, "add", "t", NULL, ninth, 2, SIZE_MAX, NULL, &error));
    CU_ASSERT_FALSE(model_finish(model, &error));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "in use at once"));
    model_free(model);
}

static void test_heads(void)
{
    struct model *model = model_of("{\"preset\": \"mlp\", \"depth\": 4, \"hidden\": 12}");
    const size_t all[] = {1, 2, 3, 4, 5}, two[] = {2, 5};
    size_t head[5], body[5], head_two[2], body_two[2];
    struct error error = {0};
    struct model *many = model_with_heads(model, all, 5, NULL, head, body, &error);
    struct model *few =
        model_with_heads(model, two, 2, "linear", head_two, body_two, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(many);
    CU_ASSERT_PTR_NOT_NULL_FATAL(few);
    CU_ASSERT_EQUAL(many->layer_count, model->layer_count + 4);
    CU_ASSERT_EQUAL(few->layer_count, model->layer_count + 1);
    for (size_t i = 0; i < 5; i++) {
        const struct shape *logits = model_value_shape(many, head[i]);
        CU_ASSERT(logits->rank == 1 && logits->extent[0] == 10);
        CU_ASSERT_EQUAL(head[i] == body[i], i == 4);
        size_t end = many->blocks[i].end_layer, values[MODEL_MAX_CROSSING];
        CU_ASSERT_EQUAL(model_crossing(many, end, values), 1);
        CU_ASSERT_EQUAL(values[0], body[i]);
        if (i < 4)
            CU_ASSERT_EQUAL(many->layers[head[i] - 1].input[0], body[i]);
    }
    /* The head after block 1 is keyed alike in both, and unlike all body layers. */
    uint32_t identity = many->layers[head[1] - 1].identity;
    CU_ASSERT_EQUAL(identity, few->layers[head_two[0] - 1].identity);
    for (size_t i = 0; i < model->layer_count; i++)
        CU_ASSERT_NOT_EQUAL(model->layers[i].identity, identity);
    for (size_t i = 0, k = 0; i < many->layer_count; i++)
        if (strncmp(many->layers[i].name, "head", 4) != 0) {
            CU_ASSERT_STRING_EQUAL(many->layers[i].name, model->layers[k].name);
            CU_ASSERT_EQUAL(many->layers[i].identity, model->layers[k].identity);
            k++;
        }
    model_free(many);
    model_free(few);
    model_free(model);
}

/* A head's logits stay to the end of their chunk: they are read by the loss. */
static void test_head_memory(void)
{
    struct model *model = model_of(residual), *local;
    const size_t ends[] = {1, 3};
    size_t head[2], body[2];
    struct error error;
    local = model_with_heads(model, ends, 2, NULL, head, body, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(local);
    /* linear, relu, head.linear: kept are 0 and 2; forward ends with the logits. */
    CU_ASSERT_EQUAL(model_stash(local, 0, 3).count, 5 + 7);
    CU_ASSERT_EQUAL(model_used_until(local, head[0]), 0);
    /* Backward: gradients of the logits and of relu's output, which also goes out. */
    CU_ASSERT_EQUAL(model_transient_count(local, 0, 3), 7 + 7);
    model_free(local);
    model_free(model);
}

static void test_head_kinds(void)
{
    static const struct {
        const char *text, *kind, *last[2];
    } cases[] = {
        {"{\"input\": [3, 4, 5], \"blocks\": [{\"name\": \"a\", \"layers\": [{\"kind\":"
         " \"relu\"}]}, {\"name\": \"b\", \"layers\": [{\"kind\": \"flatten\"}]}]}",
         "linear",
         {"flatten", "linear"}},
        {"{\"input\": [6, 4], \"blocks\": [{\"name\": \"a\", \"layers\": [{\"kind\":"
         " \"relu\"}]}, {\"name\": \"b\", \"layers\": [{\"kind\": \"linear\","
         " \"out\": 9}]}]}",
         "auto",
         {"layer_norm", "linear"}},
        {"{\"input\": [6, 4], \"blocks\": [{\"name\": \"a\", \"layers\": [{\"kind\":"
         " \"relu\"}]}, {\"name\": \"b\", \"layers\": [{\"kind\": \"flatten\"}]}]}",
         NULL,
         {"flatten", "linear"}},
        {"{\"input\": [3, 4, 5], \"blocks\": [{\"name\": \"a\", \"layers\": [{\"kind\":"
         " \"relu\"}]}, {\"name\": \"b\", \"layers\": [{\"kind\": \"flatten\"}]}]}",
         NULL,
         {"global_average_pool", "linear"}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model *model = model_of(cases[i].text);
        const size_t ends[] = {1, 2};
        size_t head[2], body[2];
        struct error error = {0};
        struct model *local =
            model_with_heads(model, ends, 2, cases[i].kind, head, body, &error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(local);
        CU_ASSERT_STRING_EQUAL(local->layers[head[0] - 2].kind->name, cases[i].last[0]);
        CU_ASSERT_STRING_EQUAL(local->layers[head[0] - 1].kind->name, cases[i].last[1]);
        model_free(local);
        CU_ASSERT_PTR_NULL(model_with_heads(model, ends, 2, "tail", head, body, &error));
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        model_free(model);
    }
    CU_ASSERT_STRING_EQUAL(model_head_kind_name(0), "auto");
    CU_ASSERT_PTR_NULL(model_head_kind_name(model_head_kind_count()));
    for (size_t i = 0; i < model_head_kind_count(); i++)
        CU_ASSERT_PTR_NOT_NULL(model_head_kind_name(i));
}

/* A sequence whose positions are classified cannot have the head of an image. */
static void test_head_that_does_not_fit(void)
{
    struct model *model = model_of(
        "{\"input\": [6, 4], \"blocks\": [{\"name\": \"a\", \"layers\": [{\"kind\":"
        " \"relu\"}]}, {\"name\": \"b\", \"layers\": [{\"kind\": \"linear\", \"out\": "
        "9}]}]}");
    const size_t ends[] = {1, 2};
    size_t head[2], body[2];
    struct error error = {0};
    CU_ASSERT_PTR_NULL(model_with_heads(model, ends, 2, "pooled", head, body, &error));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "6x4"));
    CU_ASSERT_PTR_NULL(model_with_heads(model, ends, 2, "linear", head, body, &error));
    model_free(model);
}

static const struct check checks[] = {
    {"crossing values", test_crossing},
    {"stash", test_stash},
    {"transient", test_transient},
    {"mlp", test_mlp},
    {"every preset", test_every_preset_builds},
    {"resolved defaults", test_resolved},
    {"blocks", test_blocks},
    {"refusals", test_refusals},
    {"too many crossing values", test_too_many_crossing},
    {"heads", test_heads},
    {"memory of heads", test_head_memory},
    {"kinds of heads", test_head_kinds},
    {"a head that does not fit", test_head_that_does_not_fit},
};
CHECK_MAIN("model", checks)
