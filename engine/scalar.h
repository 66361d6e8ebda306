/* The engine's scalar type: one typedef, so that the same source compiles in double
 * (-DPODSIM_DOUBLE) for gradient checks. Matrix products go through here only. */
#ifndef PODSIM_ENGINE_SCALAR_H
#define PODSIM_ENGINE_SCALAR_H

#include <cblas.h>

#ifdef PODSIM_DOUBLE
typedef double scalar;
#define scalar_gemm cblas_dgemm
#define scalar_axpy cblas_daxpy
#define scalar_exp exp
#define scalar_log log
#define scalar_sqrt sqrt
#define scalar_tanh tanh
#define scalar_erf erf
#define scalar_fmax fmax
#else
typedef float scalar;
#define scalar_gemm cblas_sgemm
#define scalar_axpy cblas_saxpy
#define scalar_exp expf
#define scalar_log logf
#define scalar_sqrt sqrtf
#define scalar_tanh tanhf
#define scalar_erf erff
#define scalar_fmax fmaxf
#endif

#endif
