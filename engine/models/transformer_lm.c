/* A language model: a decoder alone (Radford et al. 2019 in its defaults). A block per
 * layer of attention and feed-forward; the embedding belongs to the first, the last norm
 * and the projection to the last. */
#include "engine/models/transformer_parts.h"

#include <math.h>
#include <stdio.h>

struct options {
    uint64_t length, depth;
    bool tied;
};

static bool add_layers(struct transformer *t, const struct options *options,
                       struct error *error)
{
    size_t value = 0;
    char name[LAYER_NAME_BYTES];
    for (uint64_t i = 0; i < options->depth; i++) {
        snprintf(name, sizeof name, "layer%llu", (unsigned long long)i);
        if (!transformer_begin_block(t, name, error) ||
            (i == 0 && !transformer_embed(t, t->positions == POSITIONS_SINUSOIDAL, false,
                                          &value, error)) ||
            !transformer_self_attention(t, true, &value, error) ||
            !transformer_feed_forward(t, &value, error))
            return false;
    }
    return transformer_project(t, options->tied, &value, error) &&
           model_finish(t->model, error);
}

static bool read(const struct json_at *at, struct transformer *t, struct options *options,
                 struct error *error)
{
    const uint64_t most = 1 << 24;
    if (!json_read_u64(at, "vocabulary", 1, most, &t->vocabulary, error) ||
        !json_read_u64(at, "length", 1, most, &options->length, error) ||
        !json_read_u64(at, "width", 1, most, &t->width, error) ||
        !json_read_u64(at, "depth", 1, 4000, &options->depth, error) ||
        !json_read_u64(at, "heads", 1, most, &t->heads, error))
        return false;
    t->feed_forward = 4 * t->width;
    return json_read_u64(at, "feed_forward", 1, 4 * most, &t->feed_forward, error) &&
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
    struct options options = {.length = 128, .depth = 4, .tied = true};
    struct transformer t = {.vocabulary = 256,
                            .width = 256,
                            .heads = 4,
                            .norm_first = true,
                            .activation = ACTIVATION_GELU,
                            .positions = POSITIONS_LEARNED,
                            .embedding = SIZE_MAX};
    if (!read(at, &t, &options, error))
        return NULL;
    struct shape input = {1, {options.length}};
    /* Sublayers start small beside what they are added to, the more of them the smaller. */
    t.gain = t.norm_first ? 0.05 / sqrt(2 * (double)options.depth) : 1;
    t.model = model_create("transformer_lm", &input, t.vocabulary, error);
    return transformer_take(&t, at, t.model != NULL && add_layers(&t, &options, error),
                            error);
}

static const char *const keys[] = {"vocabulary", "length",       "width",     "depth",
                                   "heads",      "feed_forward", "dropout",   "norm_first",
                                   "tied",       "positions",    "activation"};

const struct model_preset model_preset_transformer_lm = {
    .name = "transformer_lm",
    .summary = "language model, a transformer's decoder alone; a block per layer",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .build = build,
};
