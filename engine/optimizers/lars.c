/* LARS (You, Gitman and Ginsburg 2017): momentum whose rate is scaled, tensor by tensor,
 * by trust |p| / (|g| + decay |p|). Tensors that do not decay (biases, norms) and those
 * of norm zero have factor 1.
 *   v = momentum v + rate factor (g + decay p);  p -= v */
#include "engine/optimizers/kinds.h"

#include <math.h>

static const char *const keys[] = {"momentum", "trust"};

static bool read(const struct json_at *at, struct optimizer_options *options,
                 struct error *error)
{
    return json_read_number(at, "momentum", 0, 1, &options->momentum, error) &&
           json_read_number(at, "trust", 0, 1, &options->trust, error);
}

static uint64_t state_words(const struct optimizer_options *options)
{
    (void)options;
    return 1;
}

static uint64_t flops(const struct optimizer_options *options)
{
    /* 4 for the norms, 4 for the update. */
    return 8u + (options->weight_decay != 0 || options->weight_decay_count > 0 ? 2u : 0u);
}

static double local_factor(const struct optimizer_options *options,
                           const struct optimizer_span *span)
{
    if (!span->decays)
        return 1;
    double weight = sqrt(optimizer_sum_of_squares(span->parameters, span->count));
    double gradient =
        span->gradient_scale * sqrt(optimizer_sum_of_squares(span->gradients, span->count));
    if (weight == 0 || gradient == 0)
        return 1;
    return options->trust * weight / (gradient + span->weight_decay * weight);
}

static void update(const struct optimizer_options *options,
                   const struct optimizer_span *span)
{
    scalar *restrict p = span->parameters;
    scalar *restrict v = span->state[0];
    const scalar *restrict g = span->gradients;
    const scalar rate = (scalar)(span->learning_rate * local_factor(options, span));
    const scalar decay = (scalar)span->weight_decay, momentum = (scalar)options->momentum;
    const scalar scale = (scalar)span->gradient_scale;
    for (size_t i = 0; i < span->count; i++) {
        scalar velocity = momentum * v[i] + rate * (scale * g[i] + decay * p[i]);
        v[i] = velocity;
        p[i] -= velocity;
    }
}

const struct optimizer_kind optimizer_lars = {
    .name = "lars",
    .summary = "momentum with a rate per tensor, for large batches",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .learning_rate = 1,
    .read = read,
    .state_words = state_words,
    .flops = flops,
    .update = update,
};
