#include "engine/blas.h"

#include <cblas.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)

/* Where OpenBLAS decides which kernels to use, at load time. Weak: another BLAS, or one
 * that was built for a single processor, has no such choice. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));

static const char choice[] = "OPENBLAS_CORETYPE";

/* OpenBLAS goes by the processor's model, and takes a newer one than itself for one of
 * 2013: without AVX-512, at half the speed. */
static bool is_underrated(void)
{
    if (gotoblas_dynamic_init == NULL || gotoblas_dynamic_quit == NULL ||
        getenv(choice) != NULL)
        return false;
    const char *core = openblas_get_corename();
    return (strcmp(core, "Haswell") == 0 || strcmp(core, "Zen") == 0) &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static void choose_kernels(void)
{
    if (!is_underrated() || setenv(choice, "SkylakeX", 0) != 0)
        return;
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv(choice);
}

#else

static void choose_kernels(void)
{
}

#endif

void blas_prepare(void)
{
    choose_kernels();
    openblas_set_num_threads(1);
}
