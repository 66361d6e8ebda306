/* Residual networks (He et al. 2016; Xie et al. 2017 for ResNeXt) with the strides of
 * their later form: the stride of a bottleneck is on its 3 x 3 convolution. A residual
 * block is a block of the model; the stem belongs to the first, the pooling and the
 * classifier to the last, so that lists of block counts such as [3, 4, 6, 3] name the
 * stages of the papers. */
#include "engine/models/presets.h"

#include <stdio.h>
#include <string.h>

struct plan {
    const char *name;
    uint64_t blocks[4];
    bool bottleneck;
    uint64_t groups, group_width; /* of the 3 x 3 convolution, at width 64 */
};

struct settings {
    struct shape input;
    uint64_t classes, width;
    size_t stem, norm;
};

enum { STEM_IMAGENET, STEM_CIFAR };
enum { NORM_BATCH, NORM_GROUP };
static const char *const stems[] = {"imagenet", "cifar"};
static const char *const norms[] = {"batch_norm", "group_norm"};

/* The model under construction and the prefix of the names of its layers. */
struct builder {
    struct model *model;
    const struct settings *settings;
    char block[LAYER_NAME_BYTES - 16];
    struct error *error;
};

static bool add(struct builder *b, const char *kind, const char *name,
                const struct option_value *options, const size_t *inputs, size_t input_count,
                size_t *value)
{
    char whole[LAYER_NAME_BYTES];
    snprintf(whole, sizeof whole, "%s.%s", b->block, name);
    return model_add(b->model, kind, whole, options, inputs, input_count, SIZE_MAX, value,
                     b->error);
}

/* 32 groups, or fewer where they would not divide the channels of a narrow network. */
static uint64_t norm_groups(uint64_t channels)
{
    uint64_t groups = 32;
    while (channels % groups != 0)
        groups--;
    return groups;
}

static bool add_norm(struct builder *b, const char *name, uint64_t channels, size_t *value)
{
    const struct option_value groups[] = {{"groups", (double)norm_groups(channels)}, {0}};
    size_t norm = b->settings->norm;
    return add(b, norms[norm], name, norm == NORM_GROUP ? groups : NULL, NULL, 0, value);
}

/* Convolution, normalisation and, when wanted, relu; `from` SIZE_MAX: the last value. */
static bool add_unit(struct builder *b, const char *suffix, uint64_t channels,
                     uint64_t kernel, uint64_t stride, uint64_t groups, size_t from,
                     bool relu, size_t *value)
{
    char name[16];
    const struct option_value options[] = {{"channels", (double)channels},
                                           {"kernel", (double)kernel},
                                           {"stride", (double)stride},
                                           {"padding", (double)(kernel / 2)},
                                           {"groups", (double)groups},
                                           {0}};
    snprintf(name, sizeof name, "conv%s", suffix);
    if (!add(b, "conv2d", name, options, &from, from == SIZE_MAX ? 0 : 1, value))
        return false;
    snprintf(name, sizeof name, "norm%s", suffix);
    if (!add_norm(b, name, channels, value))
        return false;
    snprintf(name, sizeof name, "relu%s", suffix);
    return !relu || add(b, "relu", name, NULL, NULL, 0, value);
}

static bool add_stem(struct builder *b)
{
    static const struct option_value pool[] = {{"kernel", 3}, {"stride", 2}, {"padding", 1},
                                               {0}};
    size_t value;
    snprintf(b->block, sizeof b->block, "stem");
    if (b->settings->stem == STEM_CIFAR)
        return add_unit(b, "", b->settings->width, 3, 1, 1, SIZE_MAX, true, &value);
    return add_unit(b, "", b->settings->width, 7, 2, 1, SIZE_MAX, true, &value) &&
           add(b, "max_pool", "pool", pool, NULL, 0, &value);
}

/* The residual branch; the last unit has no relu. */
static bool add_branch(struct builder *b, const struct plan *plan, uint64_t narrow,
                       uint64_t wide, uint64_t stride, size_t *value)
{
    if (!plan->bottleneck)
        return add_unit(b, "1", narrow, 3, stride, 1, SIZE_MAX, true, value) &&
               add_unit(b, "2", wide, 3, 1, 1, SIZE_MAX, false, value);
    uint64_t inner = narrow * plan->group_width * plan->groups / 64;
    return add_unit(b, "1", inner, 1, 1, 1, SIZE_MAX, true, value) &&
           add_unit(b, "2", inner, 3, stride, plan->groups, SIZE_MAX, true, value) &&
           add_unit(b, "3", wide, 1, 1, 1, SIZE_MAX, false, value);
}

static bool add_residual(struct builder *b, const struct plan *plan, uint64_t narrow,
                         uint64_t stride)
{
    uint64_t wide = plan->bottleneck ? 4 * narrow : narrow;
    size_t input = model_output_value(b->model), sum[2];
    bool projects = stride != 1 || model_value_shape(b->model, input)->extent[0] != wide;
    sum[1] = input;
    if (!add_branch(b, plan, narrow, wide, stride, &sum[0]))
        return false;
    if (projects && !add_unit(b, "0", wide, 1, stride, 1, input, false, &sum[1]))
        return false;
    return add(b, "add", "add", NULL, sum, 2, NULL) &&
           add(b, "relu", "relu", NULL, NULL, 0, NULL);
}

static bool add_blocks(struct builder *b, const struct plan *plan)
{
    for (uint64_t stage = 0; stage < 4; stage++)
        for (uint64_t i = 0; i < plan->blocks[stage]; i++) {
            char name[LAYER_NAME_BYTES];
            snprintf(name, sizeof name, "conv%llu_%llu", (unsigned long long)stage + 2,
                     (unsigned long long)i + 1);
            if (!model_begin_block(b->model, name, b->error) ||
                (stage == 0 && i == 0 && !add_stem(b)))
                return false;
            snprintf(b->block, sizeof b->block, "%.30s", name);
            if (!add_residual(b, plan, b->settings->width << stage,
                              stage > 0 && i == 0 ? 2 : 1))
                return false;
        }
    return true;
}

static bool add_classifier(struct builder *b)
{
    const struct option_value options[] = {{"out", (double)b->settings->classes},
                                           {"gain", 1},
                                           {0}};
    snprintf(b->block, sizeof b->block, "classifier");
    return add(b, "global_average_pool", "pool", NULL, NULL, 0, NULL) &&
           add(b, "linear", "linear", options, NULL, 0, NULL);
}

static bool read_settings(const struct json_at *at, struct settings *s, struct error *error)
{
    *s = (struct settings){.input = {3, {3, 224, 224}}, .classes = 1000, .width = 64};
    return model_read_shape(at, "input", &s->input, error) &&
           json_read_u64(at, "classes", 1, 1 << 24, &s->classes, error) &&
           json_read_u64(at, "width", 1, 1 << 16, &s->width, error) &&
           json_read_choice(at, "stem", stems, 2, &s->stem, error) &&
           json_read_choice(at, "norm", norms, 2, &s->norm, error);
}

static struct model *build_plan(const struct plan *plan, const struct json_at *at,
                                struct error *error)
{
    struct settings settings;
    if (!read_settings(at, &settings, error))
        return NULL;
    struct builder b = {.settings = &settings, .error = error};
    b.model = model_create(plan->name, &settings.input, 0, error);
    if (b.model != NULL && !(add_blocks(&b, plan) && add_classifier(&b) &&
                             model_finish(b.model, error))) {
        model_free(b.model);
        return NULL;
    }
    return b.model;
}

static const char *const keys[] = {"input", "classes", "width", "stem", "norm"};

#define RESNET(id, text, ...)                                                            \
    static struct model *build_##id(const struct json_at *at, struct error *error)      \
    {                                                                                    \
        static const struct plan plan = {#id, __VA_ARGS__};                              \
        return build_plan(&plan, at, error);                                             \
    }                                                                                    \
    const struct model_preset model_preset_##id = {                                      \
        .name = #id,                                                                     \
        .summary = text,                                                                 \
        .keys = keys,                                                                    \
        .key_count = sizeof keys / sizeof keys[0],                                       \
        .build = build_##id,                                                             \
    };

RESNET(resnet18, "residual network of 18 layers; a block per residual block",
       {2, 2, 2, 2}, false, 1, 64)
RESNET(resnet34, "residual network of 34 layers; a block per residual block",
       {3, 4, 6, 3}, false, 1, 64)
RESNET(resnet50, "residual network of 50 layers, bottlenecks", {3, 4, 6, 3}, true, 1, 64)
RESNET(resnet101, "residual network of 101 layers, bottlenecks", {3, 4, 23, 3}, true, 1, 64)
RESNET(resnext101_32x8d, "ResNeXt of 101 layers, 32 groups of width 8", {3, 4, 23, 3}, true,
       32, 8)
