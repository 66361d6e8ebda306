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

/* Scores become probabilities; row r sees the first first_seen + r * more_seen keys, the
 * others get zero. */
VECTOR_CLONES
static void softmax_rows(scalar *restrict p, size_t rows, size_t keys, size_t stride,
                         size_t first_seen, size_t more_seen)
{
    for (size_t r = 0; r < rows; r++) {
        scalar *restrict x = p + r * stride;
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
                                  size_t stride, scalar *restrict d)
{
    for (size_t r = 0; r < rows; r++) {
        const scalar *restrict x = p + r * stride;
        scalar *restrict dx = d + r * stride;
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

/* Causal heads are computed in blocks of so many queries, each with the keys that its last
 * query sees: that spares nearly half of the work, and what lies beyond is never read. */
enum { CAUSAL_BLOCK = 64 };

/* A block of queries of one head of one sample, and where it lies. */
struct block {
    size_t first, queries, keys;
    size_t q, kv, context, p;
};

/* The block that ends before query `end`. */
static struct block block_of(const struct attention_size *size,
                             const struct attention_values *values, size_t head, size_t end)
{
    size_t sample = head / size->heads;
    size_t column = head % size->heads * (size->width / size->heads);
    size_t first = size->causal ? (end - 1) / CAUSAL_BLOCK * CAUSAL_BLOCK : 0;
    size_t row = sample * size->queries + first;
    return (struct block){.first = first,
                          .queries = end - first,
                          .keys = size->causal ? end : size->keys,
                          .q = row * values->q_stride + column,
                          .kv = sample * size->keys * values->kv_stride + column,
                          .context = row * size->width + column,
                          .p = (head * size->queries + first) * size->keys};
}

/* c = factor a b + c or = factor a b, with whichever transposed. */
static void multiply(CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b,
                     const size_t sizes[3], scalar factor, const scalar *a, size_t a_stride,
                     const scalar *b, size_t b_stride, bool add, scalar *c, size_t c_stride)
{
    scalar_gemm(CblasRowMajor, transpose_a, transpose_b, (blasint)sizes[0],
                (blasint)sizes[1], (blasint)sizes[2], factor, a, (blasint)a_stride, b,
                (blasint)b_stride, add ? 1 : 0, c, (blasint)c_stride);
}

static scalar score_scale(const struct attention_size *size)
{
    return 1 / scalar_sqrt((scalar)(size->width / size->heads));
}

static void forward_block(const struct attention_size *size,
                          const struct attention_values *values, const struct block *at,
                          scalar *p, scalar *context)
{
    const size_t head_width = size->width / size->heads;
    const size_t scores[] = {at->queries, at->keys, head_width};
    const size_t contexts[] = {at->queries, head_width, at->keys};
    p += at->p;
    multiply(CblasNoTrans, CblasTrans, scores, score_scale(size), values->q + at->q,
             values->q_stride, values->k + at->kv, values->kv_stride, false, p, size->keys);
    softmax_rows(p, at->queries, at->keys, size->keys,
                 size->causal ? at->first + 1 : size->keys, size->causal);
    multiply(CblasNoTrans, CblasNoTrans, contexts, 1, p, size->keys, values->v + at->kv,
             values->kv_stride, false, context + at->context, size->width);
}

void attention_forward(const struct attention_size *size,
                       const struct attention_values *values, scalar *p, scalar *context)
{
    assert(!size->causal || size->queries == size->keys);
    for (size_t head = 0; head < size->batch * size->heads; head++)
        for (size_t end = size->queries; end > 0;) {
            struct block at = block_of(size, values, head, end);
            forward_block(size, values, &at, p, context);
            end = at.first;
        }
}

/* `add`: to the gradients of keys and values. */
static void backward_block(const struct attention_size *size,
                           const struct attention_values *values, const struct block *at,
                           const scalar *p, const scalar *d_context, bool add,
                           const struct attention_gradients *d, scalar *scores)
{
    const size_t head_width = size->width / size->heads;
    const size_t score[] = {at->queries, at->keys, head_width};
    const size_t query[] = {at->queries, head_width, at->keys};
    const size_t key[] = {at->keys, head_width, at->queries};
    p += at->p;
    d_context += at->context;
    multiply(CblasTrans, CblasNoTrans, key, 1, p, size->keys, d_context, size->width, add,
             d->v + at->kv, values->kv_stride);
    multiply(CblasNoTrans, CblasTrans, score, 1, d_context, size->width, values->v + at->kv,
             values->kv_stride, false, scores, size->keys);
    softmax_rows_backward(p, at->queries, at->keys, size->keys, scores);
    multiply(CblasNoTrans, CblasNoTrans, query, score_scale(size), scores, size->keys,
             values->k + at->kv, values->kv_stride, false, d->q + at->q, values->q_stride);
    multiply(CblasTrans, CblasNoTrans, key, score_scale(size), scores, size->keys,
             values->q + at->q, values->q_stride, add, d->k + at->kv, values->kv_stride);
}

void attention_backward(const struct attention_size *size,
                        const struct attention_values *values, const scalar *p,
                        const scalar *d_context, const struct attention_gradients *d,
                        scalar *scores)
{
    for (size_t head = 0; head < size->batch * size->heads; head++)
        for (size_t end = size->queries; end > 0;) {
            struct block at = block_of(size, values, head, end);
            backward_block(size, values, &at, p, d_context, end < size->queries, d, scores);
            end = at.first;
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
