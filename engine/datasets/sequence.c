/* Token sequences from a noisy rule: a token is a fixed permutation of the token `lag`
 * places before it, but with probability `noise` any of the others. The first `lag`
 * tokens are even draws. What cannot be predicted is therefore known exactly. With a lag
 * of 1 the sequence is a Markov chain; with more, a model must look back. */
#include "base/checked.h"
#include "engine/datasets/kinds.h"

#include <math.h>
#include <stdlib.h>

struct rule {
    uint64_t seed, length, vocabulary, lag;
    double noise;
    int32_t *successor;
};

/* Per label: `lag` - 1 of the labels are even draws, the others follow the rule. */
static void state_limits(const struct rule *rule, struct dataset_description *description)
{
    double v = (double)rule->vocabulary, noise = rule->noise;
    double entropy = noise > 0 ? noise * log((v - 1) / noise) : 0;
    if (noise < 1)
        entropy -= (1 - noise) * log1p(-noise);
    double free_share = (double)(rule->lag - 1) / (double)rule->length;
    description->bayes_error = free_share * (1 - 1 / v) + (1 - free_share) * noise;
    description->bayes_loss = free_share * log(v) + (1 - free_share) * entropy;
}

static bool describe_sequence(const struct json_at *at, struct dataset *dataset,
                              struct error *error)
{
    struct rule *rule = dataset->data = checked_calloc(1, sizeof(*rule));
    if (rule == NULL)
        return error_memory(error, "data set");
    struct dataset_description *description = &dataset->description;
    rule->seed = 1;
    rule->length = 32;
    rule->vocabulary = 16;
    rule->lag = 1;
    if (!json_read_u64(at, "length", 1, 1 << 20, &rule->length, error) ||
        !json_read_u64(at, "vocabulary", 2, 1 << 20, &rule->vocabulary, error) ||
        !json_read_u64(at, "lag", 1, rule->length, &rule->lag, error) ||
        !dataset_read_noise(at, rule->vocabulary, &rule->noise, error) ||
        !json_read_u64(at, "seed", 0, UINT64_MAX, &rule->seed, error))
        return false;
    description->input_shape = (struct shape){1, {rule->length}};
    description->vocabulary = rule->vocabulary;
    description->classes = rule->vocabulary;
    description->labels = rule->length;
    state_limits(rule, description);
    return true;
}

static bool open_sequence(struct dataset *dataset, struct error *error)
{
    struct rule *rule = dataset->data;
    rule->successor = checked_calloc(rule->vocabulary, sizeof(*rule->successor));
    if (rule->successor == NULL)
        return error_memory(error, "token rule");
    struct random_key key = {rule->seed, RANDOM_DATA, DATASET_SPLITS, 0};
    for (uint64_t i = 0; i < rule->vocabulary; i++)
        rule->successor[i] = (int32_t)random_permutation(key, rule->vocabulary, i);
    return true;
}

static void sample_sequence(const struct dataset *dataset, enum dataset_split split,
                            uint64_t index, scalar *input, int32_t *labels)
{
    const struct rule *rule = dataset->data;
    struct random_stream stream = dataset_sample_stream(rule->seed, split, index);
    /* labels[i] is token i + 1; the first token is in the input only. */
    int32_t first = (int32_t)dataset_choose(&stream, 0, rule->vocabulary);
    for (uint64_t token = 1; token <= rule->length; token++) {
        uint64_t draw = 2 * token;
        if (token < rule->lag) {
            labels[token - 1] = (int32_t)dataset_choose(&stream, draw, rule->vocabulary);
            continue;
        }
        int32_t back = token == rule->lag ? first : labels[token - rule->lag - 1];
        labels[token - 1] = (int32_t)dataset_flip_class(
            &stream, draw, (uint64_t)rule->successor[back], rule->vocabulary, rule->noise);
    }
    input[0] = (scalar)first;
    for (uint64_t i = 1; i < rule->length; i++)
        input[i] = (scalar)labels[i - 1];
}

static void close_sequence(struct dataset *dataset)
{
    struct rule *rule = dataset->data;
    free(rule->successor);
    free(rule);
}

const struct dataset_kind dataset_synthetic_sequence = {
    .name = "synthetic_sequence",
    .summary = "tokens that follow a noisy rule; lowest reachable loss and error are known",
    .keys = (const char *const[]){"length", "vocabulary", "lag", "noise", "seed", NULL},
    .generated = true,
    .describe = describe_sequence,
    .open = open_sequence,
    .sample = sample_sequence,
    .close = close_sequence,
};
