/* Stochastic gradient descent:
 *   g' = g + decay p;  v = momentum v + g';  p -= rate v
 * or with Nesterov's momentum p -= rate (g' + momentum v). */
#include "engine/optimizers/kinds.h"

static const char *const keys[] = {"momentum", "nesterov"};

static bool read(const struct json_at *at, struct optimizer_options *options,
                 struct error *error)
{
    struct json_at nesterov;
    if (!json_read_number(at, "momentum", 0, 1, &options->momentum, error) ||
        !json_read_boolean(at, "nesterov", &options->nesterov, error))
        return false;
    if (options->nesterov && options->momentum == 0 &&
        json_optional(at, "nesterov", &nesterov))
        return json_fail(&nesterov, error, "has no effect without momentum");
    return true;
}

static uint64_t state_words(const struct optimizer_options *options)
{
    return options->momentum != 0;
}

static uint64_t flops(const struct optimizer_options *options)
{
    return 2u + (options->momentum != 0 ? 2u : 0u) + (options->nesterov ? 2u : 0u) +
           (options->weight_decay != 0 || options->weight_decay_count > 0 ? 2u : 0u);
}

static void update_plain(const struct optimizer_span *span)
{
    scalar *restrict p = span->parameters;
    const scalar *restrict g = span->gradients;
    const scalar rate = (scalar)span->learning_rate, decay = (scalar)span->weight_decay;
    const scalar scale = (scalar)span->gradient_scale;
    for (size_t i = 0; i < span->count; i++)
        p[i] -= rate * (scale * g[i] + decay * p[i]);
}

static void update_momentum(const struct optimizer_span *span, scalar momentum)
{
    scalar *restrict p = span->parameters;
    scalar *restrict v = span->state[0];
    const scalar *restrict g = span->gradients;
    const scalar rate = (scalar)span->learning_rate, decay = (scalar)span->weight_decay;
    const scalar scale = (scalar)span->gradient_scale;
    for (size_t i = 0; i < span->count; i++) {
        scalar velocity = momentum * v[i] + (scale * g[i] + decay * p[i]);
        v[i] = velocity;
        p[i] -= rate * velocity;
    }
}

static void update_nesterov(const struct optimizer_span *span, scalar momentum)
{
    scalar *restrict p = span->parameters;
    scalar *restrict v = span->state[0];
    const scalar *restrict g = span->gradients;
    const scalar rate = (scalar)span->learning_rate, decay = (scalar)span->weight_decay;
    const scalar scale = (scalar)span->gradient_scale;
    for (size_t i = 0; i < span->count; i++) {
        scalar gradient = scale * g[i] + decay * p[i];
        scalar velocity = momentum * v[i] + gradient;
        v[i] = velocity;
        p[i] -= rate * (gradient + momentum * velocity);
    }
}

static void update(const struct optimizer_options *options,
                   const struct optimizer_span *span)
{
    if (options->momentum == 0)
        update_plain(span);
    else if (options->nesterov)
        update_nesterov(span, (scalar)options->momentum);
    else
        update_momentum(span, (scalar)options->momentum);
}

const struct optimizer_kind optimizer_sgd = {
    .name = "sgd",
    .summary = "gradient descent, with momentum (Nesterov's on request)",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .learning_rate = 0.05,
    .read = read,
    .state_words = state_words,
    .flops = flops,
    .update = update,
};
