/* Labelled samples. A kind is described by one entry in engine/datasets/ and one table
 * line in engine/dataset.c. Samples are read by number, so that any processor can take
 * any. All functions on an open data set may be called from several threads at once.
 *
 * The "data" object of an experiment has "kind", "train_samples" and "test_samples"
 * (how many of the samples are used; default all), for images "flip" (mirrored with
 * probability 1/2) and "crop_padding" (shifted by up to so many pixels each way), for text
 * "shift" (begins at any byte), and the kind's own keys. The kind's name alone stands for an object with nothing else. */
#ifndef PODSIM_ENGINE_DATASET_H
#define PODSIM_ENGINE_DATASET_H

#include "base/json.h"
#include "engine/layer.h"

enum dataset_split { DATASET_TRAIN, DATASET_TEST, DATASET_SPLITS };

struct dataset;

struct dataset_description {
    char name[LAYER_NAME_BYTES];
    struct shape input_shape;
    uint64_t vocabulary;      /* > 0: inputs are token numbers */
    uint64_t classes;
    uint64_t labels;          /* per sample: 1, or the sequence length */
    uint64_t samples[DATASET_SPLITS];
    double bayes_error;       /* lowest reachable error where known, else -1 */
    double bayes_loss;        /* lowest reachable mean cross-entropy, in nats, else -1 */
};

/* What the "data" object of an experiment describes, without reading the data: sizes
 * are the published ones (fashion_mnist, cifar), or from file headers (idx) or file
 * sizes (text). */
bool dataset_describe(const struct json_at *at, struct dataset_description *description,
                      struct error *error);
/* Opens and checks the data wholly (sizes, label range); the caller frees. The
 * description's sample counts are those found. */
struct dataset *dataset_open(const struct json_at *at, struct error *error);
void dataset_free(struct dataset *dataset);
const struct dataset_description *dataset_get_description(const struct dataset *dataset);

/* One sample: input_shape scalars and `labels` labels. */
void dataset_sample(const struct dataset *dataset, enum dataset_split split, uint64_t index,
                    scalar *input, int32_t *labels);
/* A training sample as training sees it: mirrored and shifted as the options say, keyed by
 * seed, step and sample. What dataset_sample() gives when there are no such options. */
void dataset_training_sample(const struct dataset *dataset, uint64_t seed, uint64_t step,
                             uint64_t index, scalar *input, int32_t *labels);
/* The number of the training sample at place `position` (counted over all epochs) in the
 * seeded order; every epoch is a permutation of its own. */
uint64_t dataset_order(const struct dataset *dataset, uint64_t seed, uint64_t position);

/* The table of kinds, for help texts; NULL past the end. */
const char *dataset_kind_name(size_t index);
const char *dataset_kind_summary(size_t index);

#endif
