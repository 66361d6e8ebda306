#include "engine/layers/projection.h"

#include "engine/vector_math.h"

void projection_forward(const struct projection *size, const scalar *x,
                        const scalar *weight, const scalar *bias, scalar *y)
{
    for (size_t r = 0; r < size->rows && bias != NULL; r++)
        memcpy(y + r * size->out, bias, size->out * sizeof(scalar));
    scalar_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)size->rows,
                (blasint)size->out, (blasint)size->in, 1, x, (blasint)size->in, weight,
                (blasint)size->in, bias != NULL ? 1 : 0, y, (blasint)size->out);
}

void projection_backward_input(const struct projection *size, const scalar *dy,
                               const scalar *weight, bool accumulate, scalar *dx)
{
    scalar_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)size->rows,
                (blasint)size->in, (blasint)size->out, 1, dy, (blasint)size->out, weight,
                (blasint)size->in, accumulate ? 1 : 0, dx, (blasint)size->in);
}

/* Row after row, so that micro-batches add up to what one batch gives; four at a time, so
 * that the sums are read and written less often. */
VECTOR_CLONES
static void add_rows(const scalar *restrict dy, size_t rows, size_t width,
                     scalar *restrict sum)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const scalar *restrict row = dy + r * width;
        for (size_t j = 0; j < width; j++)
            sum[j] = (((sum[j] + row[j]) + row[width + j]) + row[2 * width + j]) +
                     row[3 * width + j];
    }
    for (; r < rows; r++)
        for (size_t j = 0; j < width; j++)
            sum[j] += dy[r * width + j];
}

void projection_backward_weight(const struct projection *size, const scalar *dy,
                                const scalar *x, scalar *d_weight, scalar *d_bias)
{
    scalar_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)size->out,
                (blasint)size->in, (blasint)size->rows, 1, dy, (blasint)size->out, x,
                (blasint)size->in, 1, d_weight, (blasint)size->in);
    if (d_bias != NULL)
        add_rows(dy, size->rows, size->out, d_bias);
}
