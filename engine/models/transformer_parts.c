#include "engine/models/transformer_parts.h"

#include <stdio.h>

const char *const transformer_activation_names[ACTIVATION_COUNT] = {"gelu", "relu"};
const char *const transformer_positions_names[POSITIONS_COUNT] = {"learned", "sinusoidal"};

bool transformer_begin_block(struct transformer *t, const char *name, struct error *error)
{
    t->block = name;
    return model_begin_block(t->model, name, error);
}

static bool add_tied(struct transformer *t, const char *kind, const char *name,
                     const struct option_value *options, size_t other, size_t tied_to,
                     size_t *value, struct error *error)
{
    char full[LAYER_NAME_BYTES];
    const size_t inputs[] = {*value, other};
    int length = snprintf(full, sizeof full, "%s.%s", t->block, name);
    if (length < 0 || (size_t)length >= sizeof full)
        return error_set(error, STATUS_BAD_INPUT, "the name \"%.40s.%.40s\" is too long",
                         t->block, name);
    return model_add(t->model, kind, full, options, inputs, other == SIZE_MAX ? 1 : 2,
                     tied_to, value, error);
}

bool transformer_add(struct transformer *t, const char *kind, const char *name,
                     const struct option_value *options, size_t other, size_t *value,
                     struct error *error)
{
    return add_tied(t, kind, name, options, other, SIZE_MAX, value, error);
}

static bool add_dropout(struct transformer *t, const char *name, size_t *value,
                        struct error *error)
{
    const struct option_value rate[] = {{"rate", t->dropout}, {0}};
    return t->dropout == 0 ||
           transformer_add(t, "dropout", name, rate, SIZE_MAX, value, error);
}

bool transformer_embed(struct transformer *t, bool scaled, bool tied, size_t *value,
                       struct error *error)
{
    const struct option_value table[] = {{"vocabulary", (double)t->vocabulary},
                                         {"width", (double)t->width},
                                         {"scaled", scaled},
                                         {"gain", scaled ? 1 : 0.5},
                                         {0}};
    const struct option_value learned[] = {{"learned", t->positions == POSITIONS_LEARNED},
                                           {0}};
    if (!add_tied(t, "embedding", "embedding", table, SIZE_MAX,
                  tied ? t->embedding : SIZE_MAX, value, error))
        return false;
    if (t->embedding == SIZE_MAX)
        t->embedding = t->model->layer_count - 1;
    return transformer_add(t, "positions", "positions", learned, SIZE_MAX, value, error) &&
           add_dropout(t, "embedding_dropout", value, error);
}

/* A sublayer is begun by its norm if that comes first... */
static bool open_sublayer(struct transformer *t, const char *name, size_t *value,
                          struct error *error)
{
    char norm[LAYER_NAME_BYTES];
    snprintf(norm, sizeof norm, "%s_norm", name);
    return !t->norm_first ||
           transformer_add(t, "layer_norm", norm, NULL, SIZE_MAX, value, error);
}

/* ...and ended by dropout, the sum with what went in, and its norm if that comes last. */
static bool close_sublayer(struct transformer *t, const char *name, size_t residual,
                           size_t *value, struct error *error)
{
    char part[LAYER_NAME_BYTES];
    snprintf(part, sizeof part, "%s_dropout", name);
    if (!add_dropout(t, part, value, error))
        return false;
    snprintf(part, sizeof part, "%s_add", name);
    if (!transformer_add(t, "add", part, NULL, residual, value, error))
        return false;
    snprintf(part, sizeof part, "%s_norm", name);
    return t->norm_first ||
           transformer_add(t, "layer_norm", part, NULL, SIZE_MAX, value, error);
}

bool transformer_self_attention(struct transformer *t, bool causal, size_t *value,
                                struct error *error)
{
    const struct option_value options[] = {
        {"heads", (double)t->heads}, {"causal", causal}, {"gain", t->gain}, {0}};
    size_t residual = *value;
    return open_sublayer(t, "attention", value, error) &&
           transformer_add(t, "attention", "attention", options, SIZE_MAX, value, error) &&
           close_sublayer(t, "attention", residual, value, error);
}

bool transformer_cross_attention(struct transformer *t, size_t memory, size_t *value,
                                 struct error *error)
{
    const struct option_value options[] = {
        {"heads", (double)t->heads}, {"gain", t->gain}, {0}};
    size_t residual = *value;
    return open_sublayer(t, "cross", value, error) &&
           transformer_add(t, "cross_attention", "cross", options, memory, value, error) &&
           close_sublayer(t, "cross", residual, value, error);
}

bool transformer_feed_forward(struct transformer *t, size_t *value, struct error *error)
{
    const struct option_value up[] = {{"out", (double)t->feed_forward}, {"gain", 1}, {0}};
    const struct option_value down[] = {{"out", (double)t->width}, {"gain", t->gain}, {0}};
    const char *activation = transformer_activation_names[t->activation];
    size_t residual = *value;
    return open_sublayer(t, "feed", value, error) &&
           transformer_add(t, "linear", "feed_up", up, SIZE_MAX, value, error) &&
           transformer_add(t, activation, "feed_activation", NULL, SIZE_MAX, value,
                           error) &&
           transformer_add(t, "linear", "feed_down", down, SIZE_MAX, value, error) &&
           close_sublayer(t, "feed", residual, value, error);
}

bool transformer_project(struct transformer *t, bool tied, size_t *value,
                         struct error *error)
{
    const struct option_value options[] = {
        {"out", (double)t->vocabulary}, {"bias", !tied}, {"gain", 1}, {0}};
    return (!t->norm_first ||
            transformer_add(t, "layer_norm", "norm", NULL, SIZE_MAX, value, error)) &&
           add_tied(t, "linear", "projection", options, SIZE_MAX,
                    tied ? t->embedding : SIZE_MAX, value, error);
}

struct model *transformer_take(struct transformer *t, const struct json_at *at, bool made,
                               struct error *error)
{
    if (made)
        return t->model;
    struct error inner = *error;
    json_fail(at, error, "%s", inner.message);
    error->status = inner.status;
    model_free(t->model);
    return NULL;
}
