#include "base/random.h"

#include <math.h>

void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t bits[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53U * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    bits[0] = c0;
    bits[1] = c1;
    bits[2] = c2;
    bits[3] = c3;
}

/* The key's 192 bits and the index's 64 are more than one call takes: a first call turns
 * the key into the second call's key and the upper half of its counter. */
struct random_stream random_stream(struct random_key key)
{
    const uint32_t counter[4] = {key.purpose, key.a, (uint32_t)key.b,
                                 (uint32_t)(key.b >> 32)};
    const uint32_t seed[2] = {(uint32_t)key.seed, (uint32_t)(key.seed >> 32)};
    struct random_stream stream;
    random_philox(counter, seed, stream.word);
    return stream;
}

void random_stream_bits(const struct random_stream *stream, uint64_t index,
                        uint32_t bits[4])
{
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), stream->word[2],
                                 stream->word[3]};
    random_philox(counter, stream->word, bits);
}

static uint64_t join(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* In [0, 1), from the upper 53 bits. */
static double unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double random_stream_uniform(const struct random_stream *stream, uint64_t index)
{
    uint32_t bits[4];
    random_stream_bits(stream, index, bits);
    return unit(join(bits[0], bits[1]));
}

double random_stream_normal(const struct random_stream *stream, uint64_t index)
{
    const double two_pi = 6.283185307179586476925286766559;
    uint32_t bits[4];
    random_stream_bits(stream, index, bits);
    double radius = 1.0 - unit(join(bits[0], bits[1])); /* in (0, 1]: has a logarithm */
    double angle = two_pi * unit(join(bits[2], bits[3]));
    return sqrt(-2.0 * log(radius)) * cos(angle);
}

void random_bits(struct random_key key, uint64_t index, uint32_t bits[4])
{
    struct random_stream stream = random_stream(key);
    random_stream_bits(&stream, index, bits);
}

uint64_t random_u64(struct random_key key, uint64_t index)
{
    uint32_t bits[4];
    random_bits(key, index, bits);
    return join(bits[0], bits[1]);
}

double random_uniform(struct random_key key, uint64_t index)
{
    struct random_stream stream = random_stream(key);
    return random_stream_uniform(&stream, index);
}

double random_normal(struct random_key key, uint64_t index)
{
    struct random_stream stream = random_stream(key);
    return random_stream_normal(&stream, index);
}

/* One pass of the network over `bits` bits, the halves taking turns; they may differ by
 * one bit. Each round can be undone, so the pass is a permutation. */
static uint64_t feistel(const struct random_stream *stream, unsigned bits, uint64_t value)
{
    enum { ROUNDS = 8 };
    unsigned low_bits = bits / 2, high_bits = bits - low_bits;
    uint32_t low = (uint32_t)(value & ((UINT64_C(1) << low_bits) - 1));
    uint32_t high = (uint32_t)(value >> low_bits);
    uint32_t low_mask = (uint32_t)((UINT64_C(1) << low_bits) - 1);
    uint32_t high_mask = (uint32_t)((UINT64_C(1) << high_bits) - 1);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t mixed[4];
        random_stream_bits(stream, join(round % 2 == 0 ? low : high, round), mixed);
        if (round % 2 == 0)
            high ^= mixed[0] & high_mask;
        else
            low ^= mixed[0] & low_mask;
    }
    return (uint64_t)high << low_bits | low;
}

uint64_t random_permutation(struct random_key key, uint64_t count, uint64_t index)
{
    if (count < 2)
        return 0;
    struct random_stream stream = random_stream(key);
    unsigned bits = 64U - (unsigned)__builtin_clzll(count - 1);
    uint64_t value = index;
    do
        value = feistel(&stream, bits, value);
    while (value >= count);
    return value;
}
