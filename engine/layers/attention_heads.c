#include "engine/layers/attention_heads.h"

#include "engine/vector_math.h"

#include <assert.h>

/* Sums and largest values are taken in 16 lanes: the same whatever the vector width. */
enum { LANES = 16 };

static inline scalar lanes_sum(const scalar lane[LANES])
{
    scalar sum[4];
    for (size_t k = 0; k < 4; k++)
        sum[k] = (lane[k] + lane[k + 4]) + (lane[k + 8] + lane[k + 12]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static inline scalar largest_of(const scalar *restrict x, size_t count)
{
    scalar lane[LANES], largest = x[0];
    size_t i = 0;
    for (size_t k = 0; k < LANES; k++)
        lane[k] = x[0];
    for (; i + LANES <= count; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (size_t k = 0; k < LANES; k++)
        largest = lane[k] > largest ? lane[k] : largest;
    for (; i < count; i++)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/* The first `seen` scores of each row become probabilities, the rest zero. */
VECTOR_CLONES
static void softmax_rows(scalar *restrict p, size_t rows, size_t keys, size_t first_seen,
                         size_t more_seen)
{
    for (size_t r = 0; r < rows; r++) {
        scalar *restrict x = p + r * keys;
        size_t seen = first_seen + r * more_seen, i = 0;
        scalar largest = largest_of(x, seen), lane[LANES] = {0};
        for (size_t j = 0; j < seen; j++)
            x[j] = vector_exp(x[j] - largest);
        for (; i + LANES <= seen; i += LANES)
            for (size_t k = 0; k < LANES; k++)
                lane[k] += x[i + k];
        for (size_t k = 0; i + k < seen; k++)
            lane[k] += x[i + k];
        scalar inverse = 1 / lanes_sum(lane);
        for (size_t j = 0; j < seen; j++)
            x[j] *= inverse;
        for (size_t j = seen; j < keys; j++)
            x[j] = 0;
    }
}

/* d holds the gradient of p, then that of the scores: p (d - sum(p d)). */
VECTOR_CLONES
static void softmax_rows_backward(const scalar *restrict p, size_t rows, size_t keys,
                                  scalar *restrict d)
{
    for (size_t r = 0; r < rows; r++) {
        const scalar *restrict x = p + r * keys;
        scalar *restrict dx = d + r * keys;
        scalar lane[LANES] = {0};
        size_t i = 0;
        for (; i + LANES <= keys; i += LANES)
            for (size_t k = 0; k < LANES; k++)
                lane[k] += x[i + k] * dx[i + k];
        for (size_t k = 0; i + k < keys; k++)
            lane[k] += x[i + k] * dx[i + k];
        scalar sum = lanes_sum(lane);
        for (size_t j = 0; j < keys; j++)
            dx[j] = x[j] * (dx[j] - sum);
    }
}

/* Where one head of one sample lies. */
struct place {
    size_t q, kv, context, p;
};

static struct place place_of(const struct attention_size *size,
                             const struct attention_values *values, size_t sample,
                             size_t head)
{
    size_t column = head * (size->width / size->heads);
    return (struct place){
        .q = sample * size->queries * values->q_stride + column,
        .kv = sample * size->keys * values->kv_stride + column,
        .context = sample * size->queries * size->width + column,
        .p = (sample * size->heads + head) * size->queries * size->keys};
}

static scalar score_scale(const struct attention_size *size)
{
    return 1 / scalar_sqrt((scalar)(size->width / size->heads));
}

void attention_forward(const struct attention_size *size,
                       const struct attention_values *values, scalar *p, scalar *context)
{
    const blasint queries = (blasint)size->queries, keys = (blasint)size->keys;
    const blasint head_width = (blasint)(size->width / size->heads);
    const blasint q_stride = (blasint)values->q_stride, kv_stride = (blasint)values->kv_stride;
    assert(!size->causal || size->queries == size->keys);
    for (size_t i = 0; i < size->batch * size->heads; i++) {
        struct place at = place_of(size, values, i / size->heads, i % size->heads);
        scalar_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, queries, keys, head_width,
                    score_scale(size), values->q + at.q, q_stride, values->k + at.kv,
                    kv_stride, 0, p + at.p, keys);
        softmax_rows(p + at.p, size->queries, size->keys, size->causal ? 1 : size->keys,
                     size->causal);
        scalar_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, queries, head_width, keys, 1,
                    p + at.p, keys, values->v + at.kv, kv_stride, 0, context + at.context,
                    (blasint)size->width);
    }
}

void attention_backward(const struct attention_size *size,
                        const struct attention_values *values, const scalar *p,
                        const scalar *d_context, const struct attention_gradients *d,
                        scalar *scores)
{
    const blasint queries = (blasint)size->queries, keys = (blasint)size->keys;
    const blasint width = (blasint)size->width, head_width = width / (blasint)size->heads;
    const blasint q_stride = (blasint)values->q_stride, kv_stride = (blasint)values->kv_stride;
    for (size_t i = 0; i < size->batch * size->heads; i++) {
        struct place at = place_of(size, values, i / size->heads, i % size->heads);
        scalar_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, keys, head_width, queries, 1,
                    p + at.p, keys, d_context + at.context, width, 0, d->v + at.kv,
                    kv_stride);
        scalar_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, queries, keys, head_width, 1,
                    d_context + at.context, width, values->v + at.kv, kv_stride, 0, scores,
                    keys);
        softmax_rows_backward(p + at.p, size->queries, size->keys, scores);
        scalar_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, queries, head_width, keys,
                    score_scale(size), scores, keys, values->k + at.kv, kv_stride, 0,
                    d->q + at.q, q_stride);
        scalar_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, keys, head_width, queries,
                    score_scale(size), scores, keys, values->q + at.q, q_stride, 0,
                    d->k + at.kv, kv_stride);
    }
}

uint64_t attention_macs(uint64_t queries, uint64_t keys, uint64_t width)
{
    return layer_multiply(2, layer_multiply(layer_multiply(queries, keys), width));
}

/* Softmax: largest, subtract, exp, sum, divide. */
uint64_t attention_forward_flops(uint64_t queries, uint64_t keys, uint64_t width,
                                 uint64_t heads)
{
    uint64_t scores = layer_multiply(layer_multiply(queries, keys), heads);
    return layer_sum(layer_multiply(2, attention_macs(queries, keys, width)),
                     layer_multiply(8, scores));
}

/* Twice the products; the softmax's gradient is a dot product, a difference, a product. */
uint64_t attention_backward_flops(uint64_t queries, uint64_t keys, uint64_t width,
                                  uint64_t heads)
{
    uint64_t scores = layer_multiply(layer_multiply(queries, keys), heads);
    return layer_sum(layer_multiply(4, attention_macs(queries, keys, width)),
                     layer_multiply(4, scores));
}
