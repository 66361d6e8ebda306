#include "engine/optimizer.h"

#include "engine/json_name.h"
#include "engine/optimizers/kinds.h"

#include <math.h>

/* The table: one line a kind, whose file defines optimizer_NAME. sgd, the default, is
 * the first. */
#define OPTIMIZER_KINDS(X)                                                                 \
    X(sgd)                                                                                 \
    X(adam)                                                                                \
    X(adamw)                                                                               \
    X(lars)

#define DECLARE(name) extern const struct optimizer_kind optimizer_##name;
#define ENTRY(name) &optimizer_##name,
OPTIMIZER_KINDS(DECLARE)
static const struct optimizer_kind *const kinds[] = {OPTIMIZER_KINDS(ENTRY)};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

size_t optimizer_kind_count(void)
{
    return KIND_COUNT;
}

const char *optimizer_kind_name(size_t index)
{
    return index < KIND_COUNT ? kinds[index]->name : NULL;
}

void optimizer_defaults(struct optimizer_options *options)
{
    *options = (struct optimizer_options){.kind = 0,
                                          .learning_rate = kinds[0]->learning_rate,
                                          .momentum = 0.9,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .epsilon = 1e-8,
                                          .trust = 0.001,
                                          .decay_factor = 0.1};
}

static bool read_kind(const struct json_at *at, struct optimizer_options *options,
                      struct error *error)
{
    const char *names[KIND_COUNT];
    for (size_t i = 0; i < KIND_COUNT; i++)
        names[i] = kinds[i]->name;
    if (!json_read_choice(at, "kind", names, KIND_COUNT, &options->kind, error))
        return false;
    options->learning_rate = kinds[options->kind]->learning_rate;
    return true;
}

/* Keys of a schedule that stand beside it. */
static bool check_misplaced(const struct json_at *at, struct error *error)
{
    static const char *const keys[] = {"warmup_steps", "decay_steps", "decay_factor",
                                       "weight_decay_after"};
    struct json_at found;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_optional(at, keys[i], &found))
            return json_fail(at, error,
                             "\"%s\" belongs into \"schedule\", as in \"schedule\": "
                             "{\"kind\": \"%s\", \"%s\": ...}",
                             keys[i], i == 0 ? "cosine" : "step", keys[i]);
    return true;
}

static bool check_keys(const struct json_at *at, const struct optimizer_kind *kind,
                       struct error *error)
{
    const char *keys[16] = {"kind",      "learning_rate", "weight_decay",
                            "clip_norm", "schedule",      "weight_decay_schedule"};
    size_t count = 6;
    for (size_t i = 0; i < kind->key_count && count < 16; i++)
        keys[count++] = kind->keys[i];
    return check_misplaced(at, error) && json_keys(at, keys, count, error);
}

static bool read_weight_decays(const struct json_at *at, struct optimizer_options *options,
                               struct error *error)
{
    struct json_at list;
    if (!json_optional(at, "weight_decay_schedule", &list))
        return true;
    if (options->weight_decay_count > 0)
        return json_fail(&list, error,
                         "cannot be used beside the schedule's \"weight_decay_after\"");
    return optimizer_weight_decays_read(&list, options, error);
}

bool optimizer_read(const struct json_at *at, struct optimizer_options *options,
                    struct error *error)
{
    struct json_at schedule;
    optimizer_defaults(options);
    if (!json_name_expand(at, "kind", error) || !read_kind(at, options, error))
        return false;
    const struct optimizer_kind *kind = kinds[options->kind];
    return check_keys(at, kind, error) &&
           json_read_number(at, "learning_rate", 0, 1e6, &options->learning_rate, error) &&
           kind->read(at, options, error) &&
           json_read_number(at, "weight_decay", 0, 1, &options->weight_decay, error) &&
           json_read_number(at, "clip_norm", 0, INFINITY, &options->clip_norm, error) &&
           (!json_optional(at, "schedule", &schedule) ||
            optimizer_schedule_read(&schedule, options, error)) &&
           read_weight_decays(at, options, error);
}

const char *optimizer_name(const struct optimizer_options *options)
{
    return kinds[options->kind]->name;
}

uint64_t optimizer_state_words(const struct optimizer_options *options)
{
    return kinds[options->kind]->state_words(options);
}

uint64_t optimizer_flops(const struct optimizer_options *options)
{
    /* Clipping squares, adds and scales. */
    return kinds[options->kind]->flops(options) + (options->clip_norm > 0 ? 3u : 0u);
}

double optimizer_sum_of_squares(const scalar *values, size_t count)
{
    double lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            lane[k] += (double)values[i + k] * (double)values[i + k];
    for (size_t k = 0; i + k < count; k++)
        lane[k] += (double)values[i + k] * (double)values[i + k];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static double clip_scale(const struct optimizer_options *options,
                         const struct network_tensor *tensors, size_t tensor_count,
                         const scalar *gradients)
{
    if (options->clip_norm <= 0)
        return 1;
    double sum = 0;
    for (size_t i = 0; i < tensor_count; i++)
        sum += optimizer_sum_of_squares(gradients + tensors[i].offset, tensors[i].count);
    double norm = sqrt(sum);
    return norm > options->clip_norm ? options->clip_norm / norm : 1;
}

void optimizer_update(const struct optimizer_options *options, uint64_t step,
                      uint64_t total_steps, const struct network_tensor *tensors,
                      size_t tensor_count, scalar *parameters, const scalar *gradients,
                      scalar *state)
{
    if (tensor_count == 0)
        return;
    const struct optimizer_kind *kind = kinds[options->kind];
    size_t total = tensors[tensor_count - 1].offset + tensors[tensor_count - 1].count;
    size_t words = (size_t)kind->state_words(options);
    double scale = clip_scale(options, tensors, tensor_count, gradients);
    double decay = optimizer_weight_decay(options, step);
    for (size_t i = 0; i < tensor_count; i++) {
        size_t offset = tensors[i].offset;
        struct optimizer_span span = {
            .count = tensors[i].count,
            .parameters = parameters + offset,
            .gradients = gradients + offset,
            .decays = tensors[i].decays,
            .gradient_scale = scale,
            .learning_rate = optimizer_learning_rate(options, step, total_steps),
            .weight_decay = tensors[i].decays ? decay : 0,
            .step = step};
        for (size_t w = 0; w < words; w++)
            span.state[w] = state + w * total + offset;
        kind->update(options, &span);
    }
}
