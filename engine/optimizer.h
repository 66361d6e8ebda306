/* Optimisers: a kind is one file in engine/optimizers/ and one line in the table of
 * engine/optimizer.c (engine/optimizers/kinds.h says what it gives); a learning-rate
 * schedule is a function and a line in engine/schedule.c. */
#ifndef PODSIM_ENGINE_OPTIMIZER_H
#define PODSIM_ENGINE_OPTIMIZER_H

#include "base/json.h"
#include "engine/network.h"

enum { OPTIMIZER_MAX_DECAYS = 8 };

struct optimizer_options {
    size_t kind; /* index in the table */
    double learning_rate;
    double momentum;
    bool nesterov;
    double weight_decay;
    double beta1, beta2, epsilon;
    double trust; /* LARS */
    double clip_norm; /* 0: none; the norm is over the parameters of one call */
    /* learning-rate schedule */
    size_t schedule; /* index in the table of engine/schedule.c */
    uint64_t warmup_steps;
    uint64_t decay_steps[OPTIMIZER_MAX_DECAYS]; /* of schedule "step" */
    size_t decay_count;
    double decay_factor;
    /* Weight decay from step i of these on (Sodhani et al. 2020 lower it with the rate). */
    uint64_t weight_decay_steps[OPTIMIZER_MAX_DECAYS];
    double weight_decay_values[OPTIMIZER_MAX_DECAYS];
    size_t weight_decay_count;
};

/* Reads the "optimizer" object of an experiment, or a kind's name (defaults: sgd,
 * learning_rate 0.05, momentum 0.9). */
bool optimizer_read(const struct json_at *at, struct optimizer_options *options,
                    struct error *error);
void optimizer_defaults(struct optimizer_options *options);
const char *optimizer_name(const struct optimizer_options *options);
/* State words per parameter: 0, 1 (momentum) or 2 (Adam). */
uint64_t optimizer_state_words(const struct optimizer_options *options);
/* FLOPs per parameter of one update. */
uint64_t optimizer_flops(const struct optimizer_options *options);
size_t optimizer_kind_count(void);
const char *optimizer_kind_name(size_t index);
/* The learning rate of a step (0-based) out of total_steps. */
double optimizer_learning_rate(const struct optimizer_options *options, uint64_t step,
                               uint64_t total_steps);
double optimizer_weight_decay(const struct optimizer_options *options, uint64_t step);
/* A list of [step, weight decay] pairs, steps ascending. */
bool optimizer_weight_decays_read(const struct json_at *list, struct optimizer_options *options,
                                  struct error *error);
/* For several updates a step: from now on the options' schedules count updates, and go
 * through what they went through a step in as many. */
void optimizer_count_updates(struct optimizer_options *options, uint64_t updates_per_step);
/* One update, step counted from 0. state: optimizer_state_words * n scalars, zero before
 * step 0, laid out word-major ([word][n], n = end of the last tensor). tensors give
 * offsets into parameters and gradients. */
void optimizer_update(const struct optimizer_options *options, uint64_t step,
                      uint64_t total_steps, const struct network_tensor *tensors,
                      size_t tensor_count, scalar *parameters, const scalar *gradients,
                      scalar *state);

#endif
