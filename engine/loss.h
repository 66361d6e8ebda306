/* Losses and their gradients on logits [rows, classes]. All return the sum over the rows
 * of the loss (not the mean) and ADD scale * d(loss)/d(logits) to d_logits, in row order,
 * so that micro-batches accumulate to what one batch gives. */
#ifndef PODSIM_ENGINE_LOSS_H
#define PODSIM_ENGINE_LOSS_H

#include "engine/scalar.h"

#include <stddef.h>
#include <stdint.h>

/* Softmax cross-entropy with label smoothing s: target (1 - s) one-hot + s / classes.
 * A label below 0 is a row to ignore. *correct (may be NULL) is increased by the number
 * of rows whose largest logit (the first of equals) is the label. d_logits may be NULL. */
double loss_cross_entropy(const scalar *logits, const int32_t *labels, size_t rows,
                          size_t classes, double smoothing, double scale, scalar *d_logits,
                          uint64_t *correct);
/* The losses on labels that a head may have, one line each in the table of engine/loss.c;
 * "cross_entropy" is the first. */
struct loss_kind {
    const char *name;
    double (*compute)(const scalar *logits, const int32_t *labels, size_t rows,
                      size_t classes, double smoothing, double scale, scalar *d_logits,
                      uint64_t *correct);
};
size_t loss_kind_count(void);
const struct loss_kind *loss_kind_get(size_t index);

/* Mean over classes of (a - b)^2; b is constant. */
double loss_mean_square(const scalar *a, const scalar *b, size_t rows, size_t classes,
                        double scale, scalar *d_a);
/* Kullback-Leibler divergence KL(softmax(b / T) || softmax(a / T)) * T^2; b is constant
 * (Hinton et al. 2015, section 2). */
double loss_kl(const scalar *a, const scalar *b, size_t rows, size_t classes,
               double temperature, double scale, scalar *d_a);

#endif
