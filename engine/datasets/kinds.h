/* What a kind of data set provides, and what kinds share. Inside the engine only. */
#ifndef PODSIM_ENGINE_DATASETS_KINDS_H
#define PODSIM_ENGINE_DATASETS_KINDS_H

#include "base/random.h"
#include "engine/dataset.h"

struct dataset_kind;

struct dataset {
    const struct dataset_kind *kind;
    struct dataset_description description;
    uint64_t wanted[DATASET_SPLITS]; /* samples asked for; UINT64_MAX: all */
    bool flip;
    uint64_t crop_padding;
    bool shift;
    void *data; /* the kind's own, freed by its close */
};

struct dataset_kind {
    const char *name;
    const char *summary;
    const char *const *keys; /* its own keys in JSON; NULL ends the list */
    bool images;             /* the shape may be [channels, height, width] */
    bool generated;          /* any number of samples can be had */
    /* Reads the keys and fills the description with all samples there are. */
    bool (*describe)(const struct json_at *at, struct dataset *dataset,
                     struct error *error);
    /* Optional. Loads and checks; corrects the counts of the description. */
    bool (*open)(struct dataset *dataset, struct error *error);
    void (*sample)(const struct dataset *dataset, enum dataset_split split, uint64_t index,
                   scalar *input, int32_t *labels);
    /* Optional. A training sample that begins at any place of a text: sample k's is
     * k * labels. */
    void (*passage)(const struct dataset *dataset, uint64_t first, scalar *input,
                    int32_t *labels);
    /* Frees dataset->data, which is not NULL, whether opened or not. */
    void (*close)(struct dataset *dataset);
    /* Optional. What stands outside an image's border; 0 when there is no function. */
    scalar (*border)(const struct dataset *dataset, uint64_t channel);
};

extern const struct dataset_kind dataset_fashion_mnist, dataset_idx, dataset_cifar10,
    dataset_cifar100, dataset_text, dataset_synthetic, dataset_synthetic_images,
    dataset_synthetic_sequence, dataset_synthetic_translation, dataset_teacher_student;

/* The random numbers of one generated sample, and of what all samples share. */
struct random_stream dataset_sample_stream(uint64_t seed, enum dataset_split split,
                                           uint64_t index);
struct random_stream dataset_shared_stream(uint64_t seed, uint64_t what);

/* An even choice among `count` by one random number. */
uint64_t dataset_choose(const struct random_stream *stream, uint64_t draw, uint64_t count);
/* Draws whether to replace a class, with probability `noise`, by another one, all others
 * alike. Uses draws `draw` and `draw` + 1. */
uint64_t dataset_flip_class(const struct random_stream *stream, uint64_t draw,
                            uint64_t class, uint64_t classes, double noise);
/* Reads "noise", at most (classes - 1) / classes: beyond it another class would be the
 * likelier one. */
bool dataset_read_noise(const struct json_at *at, uint64_t classes, double *noise,
                        struct error *error);

#endif
