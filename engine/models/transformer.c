/* The encoder-decoder of Vaswani et al. 2017, in its sizes "base" and "big". A sample is
 * one sequence of tokens, the source's and then the target's; the output has the logits of
 * the target's places. A block per layer; the source's embedding belongs to the first, the
 * target's to the first of the decoder, the projection to the last. The tables of both
 * embeddings and of the projection are one (section 3.4) unless "tied" is false. */
#include "engine/models/transformer_parts.h"

#include <stdio.h>

struct size {
    const char *name;
    uint64_t width, heads, feed_forward;
    double dropout;
};

/* Table 3 of the paper. */
static const struct size sizes[] = {{"base", 512, 8, 2048, 0.1},
                                    {"big", 1024, 16, 4096, 0.3}};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };

struct options {
    uint64_t source_length, target_length, depth;
    bool tied;
};

/* One side's tokens, embedded. They are taken from the model's input, which every cut
 * before the decoder therefore hands on: it is small, and has no gradient. */
static bool embed(struct transformer *t, const char *name, uint64_t first, uint64_t count,
                  bool tied, size_t *value, struct error *error)
{
    const struct option_value range[] = {
        {"first", (double)first}, {"count", (double)count}, {0}};
    *value = 0;
    return transformer_add(t, "slice", name, range, SIZE_MAX, value, error) &&
           transformer_embed(t, true, tied, value, error);
}

static bool add_encoder(struct transformer *t, const struct options *options, size_t *value,
                        struct error *error)
{
    char name[LAYER_NAME_BYTES];
    for (uint64_t i = 0; i < options->depth; i++) {
        snprintf(name, sizeof name, "encoder%llu", (unsigned long long)i);
        if (!transformer_begin_block(t, name, error) ||
            (i == 0 &&
             !embed(t, "source", 0, options->source_length, false, value, error)) ||
            !transformer_self_attention(t, false, value, error) ||
            !transformer_feed_forward(t, value, error))
            return false;
    }
    return !t->norm_first ||
           transformer_add(t, "layer_norm", "norm", NULL, SIZE_MAX, value, error);
}

static bool add_decoder(struct transformer *t, const struct options *options, size_t memory,
                        struct error *error)
{
    size_t value = 0;
    char name[LAYER_NAME_BYTES];
    for (uint64_t i = 0; i < options->depth; i++) {
        snprintf(name, sizeof name, "decoder%llu", (unsigned long long)i);
        if (!transformer_begin_block(t, name, error) ||
            (i == 0 && !embed(t, "target", options->source_length, options->target_length,
                              options->tied, &value, error)) ||
            !transformer_self_attention(t, true, &value, error) ||
            !transformer_cross_attention(t, memory, &value, error) ||
            !transformer_feed_forward(t, &value, error))
            return false;
    }
    return transformer_project(t, options->tied, &value, error);
}

static bool add_layers(struct transformer *t, const struct options *options,
                       struct error *error)
{
    size_t memory = 0;
    return add_encoder(t, options, &memory, error) &&
           add_decoder(t, options, memory, error) && model_finish(t->model, error);
}

static bool read_size(const struct json_at *at, struct transformer *t, struct error *error)
{
    const char *names[SIZE_COUNT];
    size_t chosen = 0;
    for (size_t i = 0; i < SIZE_COUNT; i++)
        names[i] = sizes[i].name;
    if (!json_read_choice(at, "size", names, SIZE_COUNT, &chosen, error))
        return false;
    t->width = sizes[chosen].width;
    t->heads = sizes[chosen].heads;
    t->feed_forward = sizes[chosen].feed_forward;
    t->dropout = sizes[chosen].dropout;
    return true;
}

static bool read(const struct json_at *at, struct transformer *t, struct options *options,
                 struct error *error)
{
    const uint64_t most = 1 << 24;
    return read_size(at, t, error) &&
           json_read_u64(at, "vocabulary", 1, most, &t->vocabulary, error) &&
           json_read_u64(at, "source_length", 1, most, &options->source_length, error) &&
           json_read_u64(at, "target_length", 1, most, &options->target_length, error) &&
           json_read_u64(at, "width", 1, most, &t->width, error) &&
           json_read_u64(at, "depth", 1, 2000, &options->depth, error) &&
           json_read_u64(at, "heads", 1, most, &t->heads, error) &&
           json_read_u64(at, "feed_forward", 1, 4 * most, &t->feed_forward, error) &&
           json_read_number(at, "dropout", 0, 0.999, &t->dropout, error) &&
           json_read_boolean(at, "norm_first", &t->norm_first, error) &&
           json_read_boolean(at, "tied", &options->tied, error) &&
           json_read_choice(at, "positions", transformer_positions_names, POSITIONS_COUNT,
                            &t->positions, error) &&
           json_read_choice(at, "activation", transformer_activation_names,
                            ACTIVATION_COUNT, &t->activation, error);
}

static struct model *build(const struct json_at *at, struct error *error)
{
    struct options options = {
        .source_length = 128, .target_length = 128, .depth = 6, .tied = true};
    struct transformer t = {.vocabulary = 37000,
                            .activation = ACTIVATION_RELU,
                            .positions = POSITIONS_SINUSOIDAL,
                            .gain = 1,
                            .embedding = SIZE_MAX};
    if (!read(at, &t, &options, error))
        return NULL;
    struct shape input = {1, {options.source_length + options.target_length}};
    t.model = model_create("transformer", &input, t.vocabulary, error);
    return transformer_take(&t, at, t.model != NULL && add_layers(&t, &options, error),
                            error);
}

static const char *const keys[] = {
    "size",  "vocabulary", "source_length", "target_length", "width",
    "depth", "heads",      "feed_forward",  "dropout",       "norm_first",
    "tied",  "positions",  "activation"};

const struct model_preset model_preset_transformer = {
    .name = "transformer",
    .summary = "encoder-decoder of Vaswani et al. 2017, base or big; a block per layer",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .build = build,
};
