/* Convolutions by a library (oneDNN), in single precision and on one thread. Arrays are
 * plain: images [batch, channels, height, width], weights [out, in / groups, kernel,
 * kernel]; they are packed for the library, and unpacked, in the caller's work array.
 * Where the library is absent, or has nothing better than a plain loop, there is no such
 * object, and layers/conv2d.c computes by itself. */
#ifndef PODSIM_ENGINE_CONVOLUTION_H
#define PODSIM_ENGINE_CONVOLUTION_H

#include "base/error.h"
#include "engine/scalar.h"

#include <stddef.h>
#include <stdint.h>

struct convolution_size {
    size_t batch, groups;
    size_t in, height, width;      /* channels and extents of the input */
    size_t out, out_height, out_width;
    size_t kernel, stride, padding;
};

struct convolution;

/* *convolution is NULL when there is none; false only when memory is lacking. */
bool convolution_create(const struct convolution_size *size,
                        struct convolution **convolution, struct error *error);
void convolution_free(struct convolution *convolution);
/* Scalars of the work array, which is aligned to 64 bytes. */
uint64_t convolution_work_count(const struct convolution *convolution);

/* False: the library failed, and the result is still to be computed. */
bool convolution_forward(struct convolution *convolution, const scalar *x,
                         const scalar *weight, scalar *y, scalar *work);
bool convolution_backward_input(struct convolution *convolution, const scalar *dy,
                                const scalar *weight, bool add, scalar *dx, scalar *work);
/* Adds to dw. */
bool convolution_backward_weight(struct convolution *convolution, const scalar *x,
                                 const scalar *dy, scalar *dw, scalar *work);

/* From now on convolution_create() makes none: for tests of one against the other. */
void convolution_force_reference(bool force);

#endif
