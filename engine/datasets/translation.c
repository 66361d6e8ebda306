/* Pairs of token sequences: the target is the source backwards, each token replaced by a
 * fixed permutation, but with probability `noise` by any of the others. A sample is the
 * source and then what a decoder sees, a start token (0, which no sequence has) and all of
 * the target but its last token; the labels are the target. A target may be shorter than
 * its source. */
#include "base/checked.h"
#include "engine/datasets/kinds.h"

#include <math.h>
#include <stdlib.h>

struct translation {
    uint64_t seed, source_length, target_length, words; /* the vocabulary but the start */
    double noise;
    int32_t *meaning; /* of word i + 1 */
};

static bool describe(const struct json_at *at, struct dataset *dataset, struct error *error)
{
    struct translation *t = dataset->data = checked_calloc(1, sizeof *t);
    struct dataset_description *description = &dataset->description;
    uint64_t vocabulary = 16;
    if (t == NULL)
        return error_memory(error, "data set");
    t->seed = 1;
    t->source_length = 16;
    if (!json_read_u64(at, "source_length", 1, 1 << 19, &t->source_length, error))
        return false;
    t->target_length = t->source_length;
    if (!json_read_u64(at, "target_length", 1, t->source_length, &t->target_length,
                       error) ||
        !json_read_u64(at, "vocabulary", 3, 1 << 20, &vocabulary, error) ||
        !dataset_read_noise(at, vocabulary - 1, &t->noise, error) ||
        !json_read_u64(at, "seed", 0, UINT64_MAX, &t->seed, error))
        return false;
    t->words = vocabulary - 1;
    description->input_shape = (struct shape){1, {t->source_length + t->target_length}};
    description->vocabulary = description->classes = vocabulary;
    description->labels = t->target_length;
    description->bayes_error = t->noise;
    description->bayes_loss =
        t->noise > 0 ? t->noise * log((double)(t->words - 1) / t->noise) : 0;
    description->bayes_loss -= (1 - t->noise) * log1p(-t->noise);
    return true;
}

static bool open_translation(struct dataset *dataset, struct error *error)
{
    struct translation *t = dataset->data;
    const struct random_key key = {t->seed, RANDOM_DATA, DATASET_SPLITS, 0};
    t->meaning = checked_calloc(t->words, sizeof *t->meaning);
    if (t->meaning == NULL)
        return error_memory(error, "token rule");
    for (uint64_t i = 0; i < t->words; i++)
        t->meaning[i] = (int32_t)random_permutation(key, t->words, i);
    return true;
}

static void sample(const struct dataset *dataset, enum dataset_split split, uint64_t index,
                   scalar *input, int32_t *labels)
{
    const struct translation *t = dataset->data;
    struct random_stream stream = dataset_sample_stream(t->seed, split, index);
    scalar *decoder = input + t->source_length;
    for (uint64_t i = 0; i < t->source_length; i++)
        input[i] = (scalar)(1 + dataset_choose(&stream, i, t->words));
    for (uint64_t i = 0; i < t->target_length; i++) {
        size_t word = (size_t)input[t->source_length - 1 - i] - 1;
        labels[i] =
            1 + (int32_t)dataset_flip_class(&stream, t->source_length + 2 * i,
                                            (uint64_t)t->meaning[word], t->words, t->noise);
        decoder[i] = i == 0 ? 0 : (scalar)labels[i - 1];
    }
}

static void close_translation(struct dataset *dataset)
{
    struct translation *t = dataset->data;
    free(t->meaning);
    free(t);
}

const struct dataset_kind dataset_synthetic_translation = {
    .name = "synthetic_translation",
    .summary = "pairs of sequences for encoder-decoders, by a noisy rule; the lowest "
               "reachable loss is known",
    .keys = (const char *const[]){"source_length", "target_length", "vocabulary", "noise",
                                  "seed", NULL},
    .generated = true,
    .describe = describe,
    .open = open_translation,
    .sample = sample,
    .close = close_translation,
};
