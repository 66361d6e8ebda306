/* Optimisers against the recurrences of their papers, one number at a time. */
#include "tests/check.h"

#include "engine/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 5, STEPS = 12 };

/* Two tensors: the first decays, the second does not. */
static const struct network_tensor tensors[] = {
    {.layer = 0, .tensor = 0, .offset = 0, .count = 3, .decays = true},
    {.layer = 0, .tensor = 1, .offset = 3, .count = 2, .decays = false}};
static const double start[COUNT] = {1, -2, 0.5, 3, -0.25};

static double gradient(int step, int i)
{
    return sin(1.7 * step + 0.9 * i) + 0.1 * i;
}

static bool read_text(const char *text, struct optimizer_options *options,
                      struct error *error)
{
    struct json_file *file = json_file_parse("o.json", text, error);
    if (file == NULL)
        return false;
    struct json_at root = json_root(file), at;
    bool read =
        json_member(&root, "optimizer", &at, error) && optimizer_read(&at, options, error);
    json_file_free(file);
    return read;
}

static struct optimizer_options options_of(const char *object)
{
    struct optimizer_options options;
    struct error error = {0};
    char text[512];
    snprintf(text, sizeof text, "{\"optimizer\": %s}", object);
    bool read = read_text(text, &options, &error);
    if (!read)
        printf("\n  %s\n", error.message);
    CU_ASSERT_TRUE_FATAL(read);
    return options;
}

/* What the recurrences work on. */
struct reference {
    const struct optimizer_options *options;
    double p[COUNT], m[COUNT], v[COUNT];
};
typedef void recurrence(struct reference *r, int step, const double g[COUNT], double rate);

static double decay_of(const struct reference *r, int i)
{
    return i < 3 ? r->options->weight_decay : 0;
}

static void sgd(struct reference *r, int step, const double g[COUNT], double rate)
{
    (void)step;
    for (int i = 0; i < COUNT; i++) {
        double d = g[i] + decay_of(r, i) * r->p[i];
        r->v[i] = r->options->momentum * r->v[i] + d;
        r->p[i] -=
            rate * (r->options->nesterov ? d + r->options->momentum * r->v[i] : r->v[i]);
    }
}

static void adam_step(struct reference *r, int step, int i, double g, double rate)
{
    const struct optimizer_options *o = r->options;
    r->m[i] = o->beta1 * r->m[i] + (1 - o->beta1) * g;
    r->v[i] = o->beta2 * r->v[i] + (1 - o->beta2) * g * g;
    double mean = r->m[i] / (1 - pow(o->beta1, step + 1));
    double square = r->v[i] / (1 - pow(o->beta2, step + 1));
    r->p[i] -= rate * mean / (sqrt(square) + o->epsilon);
}

static void adam(struct reference *r, int step, const double g[COUNT], double rate)
{
    for (int i = 0; i < COUNT; i++)
        adam_step(r, step, i, g[i] + decay_of(r, i) * r->p[i], rate);
}

static void adamw(struct reference *r, int step, const double g[COUNT], double rate)
{
    for (int i = 0; i < COUNT; i++) {
        r->p[i] -= rate * decay_of(r, i) * r->p[i];
        adam_step(r, step, i, g[i], rate);
    }
}

static void lars(struct reference *r, int step, const double g[COUNT], double rate)
{
    const struct optimizer_options *o = r->options;
    (void)step;
    double weight = 0, slope = 0;
    for (int i = 0; i < 3; i++) {
        weight += r->p[i] * r->p[i];
        slope += g[i] * g[i];
    }
    weight = sqrt(weight);
    slope = sqrt(slope);
    double factor = o->trust * weight / (slope + o->weight_decay * weight);
    for (int i = 0; i < COUNT; i++) {
        double local = i < 3 ? factor : 1;
        r->v[i] = o->momentum * r->v[i] + rate * local * (g[i] + decay_of(r, i) * r->p[i]);
        r->p[i] -= r->v[i];
    }
}

static void clip(const struct optimizer_options *options, double g[COUNT])
{
    double norm = 0;
    for (int i = 0; i < COUNT; i++)
        norm += g[i] * g[i];
    norm = sqrt(norm);
    for (int i = 0; i < COUNT && options->clip_norm > 0 && norm > options->clip_norm; i++)
        g[i] *= options->clip_norm / norm;
}

static void follow(const char *object, recurrence *update)
{
    struct optimizer_options options = options_of(object);
    struct reference r = {.options = &options};
    scalar p[COUNT], state[2 * COUNT] = {0};
    memcpy(r.p, start, sizeof start);
    for (int i = 0; i < COUNT; i++)
        p[i] = (scalar)start[i];
    for (int step = 0; step < STEPS; step++) {
        double g[COUNT];
        scalar gradients[COUNT];
        for (int i = 0; i < COUNT; i++) {
            g[i] = gradient(step, i);
            gradients[i] = (scalar)g[i];
        }
        clip(&options, g);
        update(&r, step, g, optimizer_learning_rate(&options, (uint64_t)step, STEPS));
        optimizer_update(&options, (uint64_t)step, STEPS, tensors, 2, p, gradients, state);
        for (int i = 0; i < COUNT; i++)
            CU_ASSERT(fabs((double)p[i] - r.p[i]) < 3e-6);
    }
}

static void test_sgd(void)
{
    follow("\"sgd\"", sgd);
    follow("{\"momentum\": 0}", sgd);
    follow("{\"momentum\": 0, \"weight_decay\": 0.1}", sgd);
    follow("{\"momentum\": 0.8, \"weight_decay\": 0.1, \"learning_rate\": 0.3}", sgd);
    follow("{\"momentum\": 0.8, \"nesterov\": true, \"weight_decay\": 0.1}", sgd);
    follow("{\"clip_norm\": 0.5}", sgd);
    follow("{\"clip_norm\": 1000, \"schedule\": \"cosine\"}", sgd);
}

static void test_adam(void)
{
    follow("\"adam\"", adam);
    follow("{\"kind\": \"adam\", \"learning_rate\": 0.1, \"weight_decay\": 0.2}", adam);
    follow("{\"kind\": \"adam\", \"learning_rate\": 0.1, \"beta1\": 0, \"beta2\": 0.5,"
           " \"epsilon\": 0.01, \"clip_norm\": 0.1}",
           adam);
    follow("{\"kind\": \"adamw\", \"learning_rate\": 0.1, \"weight_decay\": 0.2}", adamw);
    follow("{\"kind\": \"adamw\", \"schedule\": {\"kind\": \"linear\","
           " \"warmup_steps\": 3}}",
           adamw);
}

static void test_lars(void)
{
    follow("\"lars\"", lars);
    follow("{\"kind\": \"lars\", \"learning_rate\": 0.5, \"trust\": 0.1,"
           " \"weight_decay\": 0.05, \"clip_norm\": 0.7}",
           lars);
}

/* A weight of norm zero must be able to leave it. */
static void test_lars_from_zero(void)
{
    struct optimizer_options options = options_of("{\"kind\": \"lars\", \"momentum\": 0}");
    scalar p[COUNT] = {0}, g[COUNT] = {1, 0, 0, 0, 0}, state[COUNT] = {0};
    optimizer_update(&options, 0, 1, tensors, 2, p, g, state);
    CU_ASSERT_EQUAL(p[0], -1);
    memset(g, 0, sizeof g);
    optimizer_update(&options, 0, 1, tensors, 2, p, g, state);
    CU_ASSERT_EQUAL(p[0], -1);
}

static void test_words_and_flops(void)
{
    static const struct {
        const char *object;
        uint64_t words, flops;
    } cases[] = {{"{\"momentum\": 0}", 0, 2},
                 {"\"sgd\"", 1, 4},
                 {"{\"nesterov\": true, \"weight_decay\": 0.1}", 1, 8},
                 {"{\"clip_norm\": 1}", 1, 7},
                 {"\"adam\"", 2, 13},
                 {"{\"kind\": \"adamw\", \"weight_decay\": 0.1}", 2, 15},
                 {"\"lars\"", 1, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct optimizer_options options = options_of(cases[i].object);
        CU_ASSERT_EQUAL(optimizer_state_words(&options), cases[i].words);
        CU_ASSERT_EQUAL(optimizer_flops(&options), cases[i].flops);
    }
    struct optimizer_options options;
    optimizer_defaults(&options);
    CU_ASSERT_STRING_EQUAL(optimizer_name(&options), "sgd");
    CU_ASSERT_EQUAL(options.learning_rate, 0.05);
    CU_ASSERT_PTR_NULL(optimizer_kind_name(optimizer_kind_count()));
    optimizer_update(&options, 0, 1, NULL, 0, NULL, NULL, NULL);
}

static double rate(const char *schedule, uint64_t step, uint64_t total)
{
    char object[256];
    snprintf(object, sizeof object, "{\"learning_rate\": 2, \"schedule\": %s}", schedule);
    struct optimizer_options options = options_of(object);
    return optimizer_learning_rate(&options, step, total);
}

static void test_schedules(void)
{
    CU_ASSERT_EQUAL(rate("\"constant\"", 99, 100), 2);
    CU_ASSERT_EQUAL(rate("{\"kind\": \"constant\", \"warmup_steps\": 4}", 0, 100), 0.5);
    CU_ASSERT_EQUAL(rate("{\"kind\": \"constant\", \"warmup_steps\": 4}", 3, 100), 2);
    CU_ASSERT_EQUAL(rate("{\"kind\": \"constant\", \"warmup_steps\": 4}", 4, 100), 2);
    const char *step =
        "{\"kind\": \"step\", \"decay_steps\": [10, 20], \"decay_factor\": 0.5}";
    CU_ASSERT_EQUAL(rate(step, 9, 100), 2);
    CU_ASSERT_EQUAL(rate(step, 10, 100), 1);
    CU_ASSERT_EQUAL(rate(step, 20, 100), 0.5);
    CU_ASSERT_EQUAL(rate("\"linear\"", 0, 4), 2);
    CU_ASSERT_EQUAL(rate("\"linear\"", 3, 4), 0.5);
    CU_ASSERT_EQUAL(rate("\"linear\"", 9, 4), 0);
    CHECK_CLOSE(rate("\"cosine\"", 50, 100), 1, 1e-12);
    CU_ASSERT_EQUAL(rate("\"cosine\"", 0, 100), 2);
    CHECK_CLOSE(rate("{\"kind\": \"cosine\", \"warmup_steps\": 20}", 60, 100), 1, 1e-12);
    CU_ASSERT_EQUAL(rate("{\"kind\": \"cosine\", \"warmup_steps\": 20}", 20, 20), 2);
    const char *inverse = "{\"kind\": \"inverse_sqrt\", \"warmup_steps\": 4}";
    CU_ASSERT_EQUAL(rate(inverse, 1, 100), 1);
    CU_ASSERT_EQUAL(rate(inverse, 3, 100), 2);
    CU_ASSERT_EQUAL(rate(inverse, 15, 100), 1);
    CU_ASSERT_EQUAL(rate("\"inverse_sqrt\"", 3, 100), 1);
}

static void test_weight_decay_changes(void)
{
    struct optimizer_options options =
        options_of("{\"weight_decay\": 1e-4, \"schedule\": {\"kind\": \"step\","
                   " \"decay_steps\": [10, 20], \"weight_decay_after\": [1e-5, 0]}}");
    CU_ASSERT_EQUAL(optimizer_weight_decay(&options, 9), 1e-4);
    CU_ASSERT_EQUAL(optimizer_weight_decay(&options, 10), 1e-5);
    CU_ASSERT_EQUAL(optimizer_weight_decay(&options, 25), 0);
    CU_ASSERT_EQUAL(optimizer_flops(&options), 6);
}

static void test_refusals(void)
{
    static const struct {
        const char *object, *part;
    } cases[] = {
        {"\"sdg\"", "nearest known is \"sgd\""},
        {"7", "optimizer"},
        {"{\"kind\": 3}", "optimizer.kind"},
        {"{\"beta1\": 0.9}", "\"beta1\""},
        {"{\"kind\": \"adam\", \"momentum\": 0.9}", "\"momentum\""},
        {"{\"learning_rate\": -1}", "optimizer.learning_rate"},
        {"{\"learning_rate\": \"fast\"}", "optimizer.learning_rate"},
        {"{\"momentum\": 1.5}", "optimizer.momentum"},
        {"{\"momentum\": 0, \"nesterov\": true}", "no effect"},
        {"{\"clip_norm\": -1}", "optimizer.clip_norm"},
        {"{\"kind\": \"adam\", \"beta2\": 1}", "optimizer.beta2"},
        {"{\"schedule\": \"cosign\"}", "cosine"},
        {"{\"schedule\": {\"kind\": \"step\"}}", "decay_steps"},
        {"{\"warmup_steps\": 3}", "{\"kind\": \"cosine\", \"warmup_steps\": ...}"},
        {"{\"schedule\": \"step\", \"decay_steps\": [5]}", "belongs into \"schedule\""},
        {"{\"schedule\": {\"kind\": \"linear\", \"decay_factor\": 0.5}}", "kind \"step\""},
        {"{\"schedule\": {\"kind\": \"step\", \"decay_steps\": []}}", "1 to 8"},
        {"{\"schedule\": {\"kind\": \"step\", \"decay_steps\": 5}}", "1 to 8"},
        {"{\"schedule\": {\"kind\": \"step\", \"decay_steps\": [5, 5]}}", "decay_steps[1]"},
        {"{\"schedule\": {\"kind\": \"cosine\", \"decay_steps\": [5]}}", "decay_steps"},
        {"{\"schedule\": {\"kind\": \"step\", \"decay_steps\": [5],"
         " \"weight_decay_after\": [0, 0]}}",
         "weight_decay_after"},
        {"{\"schedule\": {\"kind\": \"cosine\", \"warmup_steps\": -1}}", "warmup_steps"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct optimizer_options options;
        struct error error = {0};
        char text[512];
        snprintf(text, sizeof text, "{\"optimizer\": %s}", cases[i].object);
        CU_ASSERT_FALSE(read_text(text, &options, &error));
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        if (strstr(error.message, cases[i].part) == NULL)
            printf("\n  %s: %s\n", cases[i].object, error.message);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, cases[i].part));
    }
}

/* The tree holds afterwards what was used. */
static void test_resolved(void)
{
    struct error error;
    struct json_file *file = json_file_parse("o.json", "{\"optimizer\": \"adam\"}", &error);
    struct json_at root = json_root(file), at;
    struct optimizer_options options;
    CU_ASSERT_TRUE_FATAL(json_member(&root, "optimizer", &at, &error));
    CU_ASSERT_TRUE(optimizer_read(&at, &options, &error));
    char *text = cJSON_PrintUnformatted(json_file_tree(file));
    CU_ASSERT_STRING_EQUAL(text,
                           "{\"optimizer\":{\"kind\":\"adam\",\"learning_rate\":0.001,"
                           "\"beta1\":0.9,\"beta2\":0.999,\"epsilon\":1e-08,"
                           "\"weight_decay\":0,\"clip_norm\":0}}");
    cJSON_free(text);
    json_file_free(file);
}

static const struct check checks[] = {
    {"sgd", test_sgd},
    {"adam and adamw", test_adam},
    {"lars", test_lars},
    {"lars from zero", test_lars_from_zero},
    {"state words and FLOPs", test_words_and_flops},
    {"schedules", test_schedules},
    {"weight decay that changes", test_weight_decay_changes},
    {"refusals", test_refusals},
    {"resolved defaults", test_resolved},
};
CHECK_MAIN("optimizer", checks)
