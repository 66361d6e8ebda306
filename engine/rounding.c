#include "engine/rounding.h"

#include <math.h>
#include <string.h>

const struct rounding rounding_fp16 = {10, -14, 65504, false};
const struct rounding rounding_bf16 = {7, -126, 3.3895313892515355e38, false};
const struct rounding rounding_fp8 = {3, -6, 448, true};

/* The spacing of the format's numbers around a scalar that is not zero: by the bits of the
 * double, in which every float is a normal number. */
static double spacing(const struct rounding *format, double magnitude)
{
    uint64_t bits;
    double step;
    memcpy(&bits, &magnitude, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent < format->minimum_exponent)
        exponent = format->minimum_exponent;
    bits = (uint64_t)(exponent - format->mantissa_bits + 1023) << 52;
    memcpy(&step, &bits, sizeof step);
    return step;
}

/* Rounding may carry to the next power of two: only then can it pass the largest. */
static double limited(const struct rounding *format, double value)
{
    if (fabs(value) <= format->largest)
        return value;
    return copysign(format->saturates ? format->largest : (double)INFINITY, value);
}

/* Adding and taking away 1.5 x 2^52 spacings rounds to a multiple of the spacing, halves to
 * even, in one double's arithmetic. */
static double nearest(const struct rounding *format, double value)
{
    if (!(fabs(value) > 0) || isinf(value))
        return isinf(value) ? limited(format, value) : value;
    double shift = 0x1.8p52 * spacing(format, fabs(value));
    return copysign(limited(format, (value + shift) - shift), value);
}

void rounding_nearest(const struct rounding *format, scalar *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (scalar)nearest(format, (double)values[i]);
}

static double drawn(const struct rounding *format, double value, double uniform)
{
    if (!(fabs(value) > 0) || isinf(value))
        return nearest(format, value);
    double step = spacing(format, fabs(value));
    return limited(format, step * floor(value / step + uniform));
}

void rounding_stochastic(const struct rounding *format, scalar *values, size_t count,
                         struct random_key key, uint64_t first)
{
    struct random_stream stream = random_stream(key);
    for (size_t i = 0; i < count; i++)
        values[i] = (scalar)drawn(format, (double)values[i],
                                  random_stream_uniform(&stream, first + i));
}
