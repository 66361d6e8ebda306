/* Arithmetic on sizes that says when it would not fit, and allocation by it. */
#ifndef PODSIM_BASE_CHECKED_H
#define PODSIM_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* Zeroed memory for count items; NULL when it does not fit. A count of 0 gives
 * a pointer that may be freed. The caller owns it and calls free(). */
void *checked_calloc(size_t count, size_t item_bytes);

/* As above, aligned to 64 bytes, for arrays that the kernels walk; free() it. */
void *checked_calloc_aligned(size_t count, size_t item_bytes);

/* Grows *array (of *capacity items) so that `needed` items fit, at least doubling;
 * new items are zero. False when there is no memory; the array is then unchanged. `array`
 * is the address of any object pointer, cast to void **. */
bool checked_grow(void **array, size_t *capacity, size_t needed, size_t item_bytes);

#endif
