#include "base/random.h"
#include "base/checked.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The known answers published with Random123 (file kat_vectors, philox4x32 10). */
static void philox_known_answers(void)
{
    static const struct {
        uint32_t counter[4], key[2], bits[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t bits[4];
        random_philox(cases[i].counter, cases[i].key, bits);
        CU_ASSERT(memcmp(bits, cases[i].bits, sizeof(bits)) == 0);
    }
}

static const struct random_key base_key = {42, RANDOM_TEST, 3, 9};

/* A change of any field, in its lowest or highest bit, gives other numbers. */
static void every_field_matters(void)
{
    struct random_key keys[9];
    for (size_t i = 0; i < 9; i++)
        keys[i] = base_key;
    keys[1].seed ^= 1;
    keys[2].seed ^= UINT64_C(1) << 63;
    keys[3].purpose = RANDOM_DATA;
    keys[4].a ^= 1;
    keys[5].a ^= UINT32_C(1) << 31;
    keys[6].b ^= 1;
    keys[7].b ^= UINT64_C(1) << 32;
    keys[8].b ^= UINT64_C(1) << 63;
    static const uint64_t indices[] = {0, 1, UINT64_C(1) << 32, UINT64_MAX};
    uint64_t seen[9 * 4];
    size_t count = 0;
    for (size_t i = 0; i < 9; i++)
        for (size_t k = 0; k < 4; k++)
            seen[count++] = random_u64(keys[i], indices[k]);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            CU_ASSERT(seen[i] != seen[k]);
}

static void streams_agree_with_keys(void)
{
    struct random_stream stream = random_stream(base_key);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t index = i * i * UINT64_C(77777777777);
        uint32_t one[4], other[4];
        random_bits(base_key, index, one);
        random_stream_bits(&stream, index, other);
        CU_ASSERT(memcmp(one, other, sizeof(one)) == 0);
        CU_ASSERT(random_u64(base_key, index) == ((uint64_t)one[1] << 32 | one[0]));
        CU_ASSERT(random_uniform(base_key, index) == random_stream_uniform(&stream, index));
        CU_ASSERT(random_normal(base_key, index) == random_stream_normal(&stream, index));
    }
}

/* Each tolerance is five standard errors of the estimate. */
static void uniform_moments(void)
{
    enum { DRAWS = 200000, BINS = 64 };
    struct random_stream stream = random_stream(base_key);
    double sum = 0, square = 0, chi = 0;
    size_t bins[BINS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double u = random_stream_uniform(&stream, i);
        CU_ASSERT_FATAL(u >= 0 && u < 1);
        sum += u;
        square += u * u;
        bins[(size_t)(u * BINS)]++;
    }
    CU_ASSERT(fabs(sum / DRAWS - 0.5) < 5 * sqrt(1.0 / 12 / DRAWS));
    CU_ASSERT(fabs(square / DRAWS - 1.0 / 3) < 5 * sqrt(4.0 / 45 / DRAWS));
    double expected = (double)DRAWS / BINS;
    for (size_t i = 0; i < BINS; i++)
        chi += ((double)bins[i] - expected) * ((double)bins[i] - expected) / expected;
    CU_ASSERT(fabs(chi - (BINS - 1)) < 5 * sqrt(2.0 * (BINS - 1)));
}

static void normal_moments(void)
{
    enum { DRAWS = 200000 };
    struct random_stream stream = random_stream(base_key);
    double power[5] = {0}, beyond = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = random_stream_normal(&stream, i);
        CU_ASSERT_FATAL(isfinite(x));
        for (int p = 1; p <= 4; p++)
            power[p] += pow(x, p) / DRAWS;
        beyond += fabs(x) > 1.959963984540054;
    }
    CU_ASSERT(fabs(power[1]) < 5 * sqrt(1.0 / DRAWS));
    CU_ASSERT(fabs(power[2] - 1) < 5 * sqrt(2.0 / DRAWS));
    CU_ASSERT(fabs(power[3]) < 5 * sqrt(15.0 / DRAWS));
    CU_ASSERT(fabs(power[4] - 3) < 5 * sqrt(96.0 / DRAWS));
    CU_ASSERT(fabs(beyond / DRAWS - 0.05) < 5 * sqrt(0.05 * 0.95 / DRAWS));
}

static void permutation_is_a_bijection(void)
{
    static const uint64_t counts[] = {1,   2,   3,   4,    5,    6,    7,    8,    9,
                                      15,  16,  17,  31,   33,   63,   64,   65,   127,
                                      255, 256, 257, 1000, 4095, 4097, 8191, 60000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct random_key key = {i, RANDOM_ORDER, (uint32_t)i, 0};
        unsigned char *seen = checked_calloc(counts[i], 1);
        CU_ASSERT_PTR_NOT_NULL_FATAL(seen);
        for (uint64_t k = 0; k < counts[i]; k++) {
            uint64_t place = random_permutation(key, counts[i], k);
            CU_ASSERT_FATAL(place < counts[i]);
            CU_ASSERT(!seen[place]);
            seen[place] = 1;
        }
        free(seen);
    }
    CU_ASSERT(random_permutation(base_key, 0, 0) == 0);
}

static void permutation_of_huge_counts(void)
{
    static const uint64_t counts[] = {UINT64_C(5000000000), (UINT64_C(1) << 53) + 1,
                                      UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint64_t places[200];
        for (uint64_t k = 0; k < 200; k++) {
            places[k] = random_permutation(base_key, counts[i], counts[i] - 1 - k);
            CU_ASSERT(places[k] < counts[i]);
            for (uint64_t j = 0; j < k; j++)
                CU_ASSERT(places[j] != places[k]);
        }
    }
}

/* All orders of three come equally often; chi-square with 5 degrees of freedom. */
static void permutations_are_even(void)
{
    enum { DRAWS = 6000 };
    size_t times[27] = {0};
    double chi = 0;
    size_t orders = 0;
    for (uint32_t epoch = 0; epoch < DRAWS; epoch++) {
        struct random_key key = {1, RANDOM_ORDER, epoch, 0};
        size_t code = 0;
        for (uint64_t k = 0; k < 3; k++)
            code = code * 3 + (size_t)random_permutation(key, 3, k);
        times[code]++;
    }
    for (size_t i = 0; i < 27; i++) {
        if (times[i] == 0)
            continue;
        orders++;
        chi += ((double)times[i] - 1000) * ((double)times[i] - 1000) / 1000;
    }
    CU_ASSERT(orders == 6);
    CU_ASSERT(chi < 5 + 5 * sqrt(10));
}

/* Neighbours must not stay neighbours, nor a place keep its number, beyond chance. */
static void permutation_mixes(void)
{
    enum { COUNT = 60000 };
    size_t kept = 0, neighbours = 0;
    uint64_t last = COUNT;
    double correlation = 0;
    for (uint64_t k = 0; k < COUNT; k++) {
        uint64_t place = random_permutation(base_key, COUNT, k);
        kept += place == k;
        neighbours += place == last + 1;
        last = place;
        correlation += ((double)k / COUNT - 0.5) * ((double)place / COUNT - 0.5) * 12;
    }
    CU_ASSERT(kept < 10);
    CU_ASSERT(neighbours < 10);
    CU_ASSERT(fabs(correlation / COUNT) < 5 / sqrt(COUNT));
}

static const struct check checks[] = {
    {"Philox gives the published answers", philox_known_answers},
    {"every field of the key matters", every_field_matters},
    {"a stream gives what its key gives", streams_agree_with_keys},
    {"moments of uniform numbers", uniform_moments},
    {"moments of normal numbers", normal_moments},
    {"a permutation is a bijection", permutation_is_a_bijection},
    {"permutations of huge counts", permutation_of_huge_counts},
    {"all orders of three are equally likely", permutations_are_even},
    {"a permutation mixes", permutation_mixes},
};
CHECK_MAIN("base: random numbers", checks)
