/* What transformers are made of: sublayers with their residual connection and
 * normalisation, before the sublayer (Xiong et al. 2020) or after the sum (Vaswani et al.
 * 2017). */
#ifndef PODSIM_ENGINE_MODELS_TRANSFORMER_PARTS_H
#define PODSIM_ENGINE_MODELS_TRANSFORMER_PARTS_H

#include "engine/models/presets.h"

enum transformer_activation { ACTIVATION_GELU, ACTIVATION_RELU, ACTIVATION_COUNT };
extern const char *const transformer_activation_names[ACTIVATION_COUNT];

enum transformer_positions { POSITIONS_LEARNED, POSITIONS_SINUSOIDAL, POSITIONS_COUNT };
extern const char *const transformer_positions_names[POSITIONS_COUNT];

struct transformer {
    struct model *model;
    const char *block; /* the one being made; its layers are named after it */
    uint64_t vocabulary, width, heads, feed_forward;
    double dropout;
    bool norm_first;
    size_t activation, positions;
    double gain;      /* of the weights that end a sublayer */
    size_t embedding; /* index of the first embedding layer; SIZE_MAX before it */
};

bool transformer_begin_block(struct transformer *t, const char *name, struct error *error);
/* Adds the layer "<block>.<name>" after `value` (and `other`, unless SIZE_MAX); the
 * output's number comes back in *value. */
bool transformer_add(struct transformer *t, const char *kind, const char *name,
                     const struct option_value *options, size_t other, size_t *value,
                     struct error *error);
/* Token numbers to rows with positions. `scaled` as in Vaswani et al. 2017; tied: the
 * table is the first embedding's. */
bool transformer_embed(struct transformer *t, bool scaled, bool tied, size_t *value,
                       struct error *error);
bool transformer_self_attention(struct transformer *t, bool causal, size_t *value,
                                struct error *error);
bool transformer_cross_attention(struct transformer *t, size_t memory, size_t *value,
                                 struct error *error);
bool transformer_feed_forward(struct transformer *t, size_t *value, struct error *error);
/* Logits of every place; tied: without a bias, the weights are the embedding's. */
bool transformer_project(struct transformer *t, bool tied, size_t *value,
                         struct error *error);

/* What build() returns: the model, if all was made; else NULL, and the message names the
 * place in the file. */
struct model *transformer_take(struct transformer *t, const struct json_at *at, bool made,
                               struct error *error);

#endif
