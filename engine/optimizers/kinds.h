/* An optimiser kind: what it reads, what it keeps per parameter, and its update. */
#ifndef PODSIM_ENGINE_OPTIMIZERS_KINDS_H
#define PODSIM_ENGINE_OPTIMIZERS_KINDS_H

#include "engine/optimizer.h"

enum { OPTIMIZER_MAX_WORDS = 2 };

/* One tensor of one update. The arrays do not overlap. */
struct optimizer_span {
    size_t count;
    scalar *parameters;
    const scalar *gradients;
    scalar *state[OPTIMIZER_MAX_WORDS];
    bool decays;
    double gradient_scale; /* from clipping; 1: none */
    double learning_rate;
    double weight_decay; /* 0 when the tensor does not decay */
    uint64_t step;       /* from 0 */
};

struct optimizer_kind {
    const char *name;
    const char *summary;
    const char *const *keys; /* its own, besides the common ones */
    size_t key_count;
    double learning_rate; /* default */
    bool (*read)(const struct json_at *at, struct optimizer_options *options,
                 struct error *error);
    uint64_t (*state_words)(const struct optimizer_options *options);
    uint64_t (*flops)(const struct optimizer_options *options); /* without clipping */
    /* One pass over memory, each parameter read and written once. */
    void (*update)(const struct optimizer_options *options,
                   const struct optimizer_span *span);
};

/* In double, in an order that does not depend on the vector width. */
double optimizer_sum_of_squares(const scalar *values, size_t count);

/* The "schedule" member (engine/schedule.c). */
bool optimizer_schedule_read(const struct json_at *at, struct optimizer_options *options,
                             struct error *error);

#endif
