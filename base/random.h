/* Counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). A number depends only on its key and its
 * index, never on what was drawn before it, nor where. */
#ifndef PODSIM_BASE_RANDOM_H
#define PODSIM_BASE_RANDOM_H

#include <stdint.h>

enum random_purpose {
    RANDOM_INIT = 1,   /* initial weights: a = layer, b = parameter tensor */
    RANDOM_ORDER,      /* order of samples: a = epoch */
    RANDOM_DROPOUT,    /* a = layer and step, b = sample */
    RANDOM_DATA,       /* synthetic data: a = split, b = sample */
    RANDOM_AUGMENT,    /* a = step, b = sample */
    RANDOM_ROUNDING,   /* stochastic rounding: a = step, b = tensor */
    RANDOM_STRAGGLER,  /* a = processor, b = window */
    RANDOM_TEST
};

struct random_key {
    uint64_t seed;
    uint32_t purpose; /* enum random_purpose */
    uint32_t a;
    uint64_t b;
};

/* The bare generator: ten rounds. */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t bits[4]);

/* A key made ready, for many draws in a row: half the work of random_bits() each. */
struct random_stream {
    uint32_t word[4];
};
struct random_stream random_stream(struct random_key key);
/* What random_bits() gives for the key and index. */
void random_stream_bits(const struct random_stream *stream, uint64_t index, uint32_t bits[4]);
double random_stream_uniform(const struct random_stream *stream, uint64_t index);
double random_stream_normal(const struct random_stream *stream, uint64_t index);

/* 128 random bits for draw number `index` of the key. */
void random_bits(struct random_key key, uint64_t index, uint32_t bits[4]);

uint64_t random_u64(struct random_key key, uint64_t index);
/* In [0, 1), 53 bits. */
double random_uniform(struct random_key key, uint64_t index);
/* Mean 0, variance 1 (Box-Muller). */
double random_normal(struct random_key key, uint64_t index);
/* The place of `index` (< count) in a pseudo-random permutation of 0..count-1, by a
 * Feistel network with cycle walking: no table, any epoch, any place.
 * 0 when count is 0. */
uint64_t random_permutation(struct random_key key, uint64_t count, uint64_t index);

#endif
