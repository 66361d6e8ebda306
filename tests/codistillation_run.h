/* What the suites on codistillation share: two small models, and what runs told. */
#ifndef PODSIM_TESTS_CODISTILLATION_RUN_H
#define PODSIM_TESTS_CODISTILLATION_RUN_H

#include "tests/machine_text.h"
#include "tests/simulate.h"

static const struct text_link fast_link = {1e12, 0}, slow_link = {1e6, 1e-4};
/* A checkpoint takes less than a step; several steps. */
static const struct text_link quick_link = {1e9, 1e-7}, tardy_link = {6e6, 1e-5};

static const char model_text[] =
    "{\"input\": [12], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"linear\", \"out\": 40}, {\"kind\": "
    "\"relu\"}]},"
    "{\"name\": \"b\", \"layers\": [{\"kind\": \"linear\", \"out\": 16}, {\"kind\": "
    "\"gelu\"}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"linear\", \"out\": 4}]}]}";
static const char data_text[] =
    "{\"kind\": \"synthetic\", \"features\": 12, \"classes\": 4, "
    "\"separation\": 2, \"train_samples\": 50, \"test_samples\": 37}";
static const char sgd[] =
    "{\"learning_rate\": 0.05, \"momentum\": 0.9, \"weight_decay\": 0.001}";
enum { MODELS = 3, STEPS = 12 };
enum { PARAMETERS = 12 * 40 + 40 + 40 * 16 + 16 + 16 * 4 + 4, CLASSES = 4, BATCH = 6 };

static inline struct simulation *train_on(size_t processors, bool overlap,
                                          struct text_link link, const char *optimizer,
                                          uint64_t micro_batch, uint64_t steps,
                                          const char *methods)
{
    return simulate("{\"model\": %s, \"data\": %s, \"platform\": %s, \"optimizer\": %s, "
                    "\"batch\": %d, \"micro_batch\": %d, \"steps\": %d, \"seed\": 5, "
                    "\"evaluate_every\": 1, \"label_smoothing\": 0.1, \"methods\": [%s]}",
                    model_text, data_text,
                    roofline_machine(processors, "full", overlap, 1 << 24, link), optimizer,
                    BATCH, (int)micro_batch, (int)steps, methods);
}

static inline struct simulation *train(struct text_link link, uint64_t steps,
                                       const char *methods)
{
    return train_on(8, true, link, sgd, BATCH, steps, methods);
}

/* Weights of some parts, one after the other. */
static inline bool same_parts(const struct simulated *a, size_t first_a,
                              const struct simulated *b, size_t first_b, size_t parts)
{
    size_t from = a->weight_first[first_a], count = a->weight_first[first_a + parts] - from;
    size_t other = b->weight_first[first_b];
    return count > 0 && b->weight_first[first_b + parts] - other == count &&
           memcmp(a->weights + from, b->weights + other, count * sizeof *a->weights) == 0;
}

static inline size_t series(const struct simulated *s, const char *name, uint32_t processor,
                            double values[64])
{
    size_t count = 0;
    for (size_t i = 0; i < s->event_count && count < 64; i++)
        if (s->events[i].kind == EVENT_METRIC && s->events[i].processor == processor &&
            strcmp(s->events[i].name, name) == 0)
            values[count++] = s->events[i].value;
    return count;
}

/* Steps in which two runs of a processor have told the same loss, from the first on. */
static inline size_t same_steps(const struct simulated *a, const struct simulated *b,
                                uint32_t processor)
{
    double x[64], y[64];
    size_t n = series(a, "loss", processor, x), m = series(b, "loss", processor, y);
    size_t same = 0;
    while (same < n && same < m && x[same] == y[same])
        same++;
    return same;
}

#endif
