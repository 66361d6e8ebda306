/* Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019):
 *   m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
 *   p -= rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
 * Adam: g' = g + decay p. AdamW: g' = g, and before it p -= rate decay p. */
#include "engine/optimizers/kinds.h"

#include <math.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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
    return 13u + (options->weight_decay != 0 || options->weight_decay_changes ? 2u : 0u);
}

/* The numbers of a block stay in the nearest cache between its three loops. */
enum { BLOCK = 64 };

struct factors {
    scalar scale, coupled, apart, epsilon, b1, c1, b2, c2, rate, spread;
};

/* The library's square root sets errno, which keeps its loop from being vectorised. */
static void square_roots(scalar x[BLOCK])
{
#if defined(__SSE2__) && defined(PODSIM_DOUBLE)
    for (size_t i = 0; i < BLOCK; i += 2)
        _mm_storeu_pd(x + i, _mm_sqrt_pd(_mm_loadu_pd(x + i)));
#elif defined(__SSE2__)
    for (size_t i = 0; i < BLOCK; i += 4)
        _mm_storeu_ps(x + i, _mm_sqrt_ps(_mm_loadu_ps(x + i)));
#else
    for (size_t i = 0; i < BLOCK; i++)
        x[i] = scalar_sqrt(x[i]);
#endif
}

static void block(const struct factors *f, size_t count, scalar *restrict p,
                  scalar *restrict m, scalar *restrict v, const scalar *restrict g)
{
    scalar root[BLOCK] = {0};
    for (size_t i = 0; i < count; i++) {
        scalar gradient = f->scale * g[i] + f->coupled * p[i];
        m[i] = f->b1 * m[i] + f->c1 * gradient;
        v[i] = f->b2 * v[i] + f->c2 * gradient * gradient;
        root[i] = v[i];
    }
    square_roots(root);
    for (size_t i = 0; i < count; i++)
        p[i] = f->apart * p[i] - f->rate * m[i] / (root[i] * f->spread + f->epsilon);
}

/* `coupled` decay goes into the gradient, `apart` scales the parameter. */
static void step(const struct optimizer_options *options, const struct optimizer_span *span,
                 double coupled, double apart)
{
    const double t = (double)(span->step + 1);
    const struct factors f = {
        .scale = (scalar)span->gradient_scale,
        .coupled = (scalar)coupled,
        .apart = (scalar)apart,
        .epsilon = (scalar)options->epsilon,
        .b1 = (scalar)options->beta1,
        .c1 = (scalar)(1 - options->beta1),
        .b2 = (scalar)options->beta2,
        .c2 = (scalar)(1 - options->beta2),
        .rate = (scalar)(span->learning_rate / (1 - pow(options->beta1, t))),
        .spread = (scalar)(1 / sqrt(1 - pow(options->beta2, t)))};
    for (size_t i = 0; i < span->count; i += BLOCK) {
        size_t count = span->count - i < BLOCK ? span->count - i : BLOCK;
        block(&f, count, span->parameters + i, span->state[0] + i, span->state[1] + i,
              span->gradients + i);
    }
}

static void update_adam(const struct optimizer_options *options,
                        const struct optimizer_span *span)
{
    step(options, span, span->weight_decay, 1);
}

static void update_adamw(const struct optimizer_options *options,
                         const struct optimizer_span *span)
{
    step(options, span, 0, 1 - span->learning_rate * span->weight_decay);
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
