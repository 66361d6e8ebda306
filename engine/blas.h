/* OpenBLAS as the engine wants it. */
#ifndef PODSIM_ENGINE_BLAS_H
#define PODSIM_ENGINE_BLAS_H

/* One thread, since how a product is shared out would show in its last bits; and kernels
 * that use what the processor has. Call it before the first product, while no other thread
 * computes; further calls change nothing. */
void blas_prepare(void);

#endif
