/* The kernels that OpenBLAS is made to use. */
#include "engine/blas.h"
#include "engine/scalar.h"
#include "tests/check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 97 };

static float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST], again[MOST * MOST];

static void the_processor_is_not_underrated(void)
{
    if (getenv("OPENBLAS_CORETYPE") != NULL)
        return; /* somebody's choice stands */
    blas_prepare();
    CU_ASSERT(getenv("OPENBLAS_CORETYPE") == NULL);
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        CU_ASSERT(strcmp(openblas_get_corename(), "Haswell") != 0);
        CU_ASSERT(strcmp(openblas_get_corename(), "Zen") != 0);
    }
#endif
    char core[64];
    snprintf(core, sizeof core, "%s", openblas_get_corename());
    blas_prepare();
    CU_ASSERT(strcmp(openblas_get_corename(), core) == 0);
    CU_ASSERT(openblas_get_num_threads() == 1);
}

/* a is [rows, inner] or its transpose, b likewise; the largest error against double. */
static double error_of(int rows, int columns, int inner, bool ta, bool tb)
{
    double worst = 0;
    int lda = ta ? rows : inner, ldb = tb ? inner : columns;
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
                tb ? CblasTrans : CblasNoTrans, rows, columns, inner, 1, a, lda, b, ldb, 0,
                c, columns);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double sum = 0;
            for (int k = 0; k < inner; k++)
                sum += (double)a[ta ? k * lda + i : i * lda + k] *
                       (double)b[tb ? j * ldb + k : k * ldb + j];
            worst = fmax(worst, fabs(sum - (double)c[i * columns + j]));
        }
    return worst;
}

static void products_of_all_edges(void)
{
    static const int sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 48, 64, 65, MOST};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    double worst = 0;
    blas_prepare();
    for (int i = 0; i < MOST * MOST; i++) {
        a[i] = (float)((i * 37) % 101 - 50) / 50;
        b[i] = (float)((i * 53) % 103 - 51) / 51;
    }
    for (size_t m = 0; m < COUNT; m++)
        for (size_t n = 0; n < COUNT; n++)
            for (size_t k = 0; k < COUNT; k++)
                for (int t = 0; t < 4; t++)
                    worst = fmax(worst, error_of(sizes[m], sizes[n], sizes[k], (t & 1) != 0,
                                                 (t & 2) != 0));
    CU_ASSERT(worst < 2e-5);
}

/* A recomputation may lie elsewhere in memory. */
static void places_do_not_matter(void)
{
    enum { ROWS = 33, COLUMNS = 24, INNER = 65, LINE = 16 };
    static float moved[MOST * MOST + LINE];
    blas_prepare();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, ROWS, COLUMNS, INNER, 1, a, INNER,
                b, INNER, 0, c, COLUMNS);
    for (size_t place = 0; place < LINE; place++) {
        memcpy(moved + place, a, sizeof a);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, ROWS, COLUMNS, INNER, 1,
                    moved + place, INNER, b, INNER, 0, again + (LINE - place), COLUMNS);
        CU_ASSERT(memcmp(again + (LINE - place), c, ROWS * COLUMNS * sizeof *c) == 0);
    }
}

static const struct check checks[] = {
    {"the processor is not underrated", the_processor_is_not_underrated},
    {"products of all edges", products_of_all_edges},
    {"places do not matter", places_do_not_matter},
};
CHECK_MAIN("blas", checks)
