/* Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019):
 *   m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
 *   p -= rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
 * Adam: g' = g + decay p. AdamW: g' = g, and before it p -= rate decay p. */
#include "engine/optimizers/kinds.h"

#include <math.h>

static const char *const keys[] = {"beta1", "beta2", "epsilon"};

static bool read(const struct json_at *at, struct optimizer_options *options,
                 struct error *error)
{
    const double below_one = 1 - 0x1p-53;
    return json_read_number(at, "beta1", 0, below_one, &options->beta1, error) &&
           json_read_number(at, "beta2", 0, below_one, &options->beta2, error) &&
           json_read_number(at, "epsilon", 0, 1, &options->epsilon, error);
}

static uint64_t state_words(const struct optimizer_options *options)
{
    (void)options;
    return 2;
}

static uint64_t flops(const struct optimizer_options *options)
{
    /* 3 for m, 4 for v, 6 for p. */
    return 13u + (options->weight_decay != 0 || options->weight_decay_count > 0 ? 2u : 0u);
}

/* `coupled` decay goes into the gradient, `apart` scales the parameter. */
static void step(const struct optimizer_options *options, const struct optimizer_span *span,
                 scalar coupled, scalar apart)
{
    scalar *restrict p = span->parameters;
    scalar *restrict m = span->state[0];
    scalar *restrict v = span->state[1];
    const scalar *restrict g = span->gradients;
    const double t = (double)(span->step + 1);
    const scalar scale = (scalar)span->gradient_scale, epsilon = (scalar)options->epsilon;
    const scalar b1 = (scalar)options->beta1, c1 = (scalar)(1 - options->beta1);
    const scalar b2 = (scalar)options->beta2, c2 = (scalar)(1 - options->beta2);
    const scalar rate = (scalar)(span->learning_rate / (1 - pow(options->beta1, t)));
    const scalar spread = (scalar)(1 / sqrt(1 - pow(options->beta2, t)));
    for (size_t i = 0; i < span->count; i++) {
        scalar gradient = scale * g[i] + coupled * p[i];
        scalar mean = b1 * m[i] + c1 * gradient;
        scalar square = b2 * v[i] + c2 * gradient * gradient;
        m[i] = mean;
        v[i] = square;
        p[i] = apart * p[i] - rate * mean / (scalar_sqrt(square) * spread + epsilon);
    }
}

static void update_adam(const struct optimizer_options *options,
                        const struct optimizer_span *span)
{
    step(options, span, (scalar)span->weight_decay, 1);
}

static void update_adamw(const struct optimizer_options *options,
                         const struct optimizer_span *span)
{
    step(options, span, 0, (scalar)(1 - span->learning_rate * span->weight_decay));
}

const struct optimizer_kind optimizer_adam = {
    .name = "adam",
    .summary = "Adam; weight decay is part of the gradient",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .learning_rate = 0.001,
    .read = read,
    .state_words = state_words,
    .flops = flops,
    .update = update_adam,
};

const struct optimizer_kind optimizer_adamw = {
    .name = "adamw",
    .summary = "Adam with weight decay apart from the gradient",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .learning_rate = 0.001,
    .read = read,
    .state_words = state_words,
    .flops = flops,
    .update = update_adamw,
};
