/* The numeric side of a plan: one network a part, real weights and real messages. The
 * executor calls it at the simulated moments at which things happen; it knows no clock. */
#ifndef PODSIM_SIM_TRAINER_H
#define PODSIM_SIM_TRAINER_H

#include "engine/dataset.h"
#include "sim/plan.h"

struct trainer;

struct trainer_options {
    const struct plan *plan;          /* borrowed */
    const struct model *model;        /* without heads, for evaluation; borrowed */
    const struct dataset *dataset;    /* borrowed */
    uint64_t steps, seed;
};

struct evaluation {
    double accuracy, loss; /* over the test set, loss a mean over labels */
};

struct trainer *trainer_create(const struct trainer_options *options, struct error *error);
void trainer_free(struct trainer *trainer);

/* micro_batch counts over the whole run: step x micro-batches + number in the step. */
void trainer_load(struct trainer *trainer, uint32_t part, uint64_t micro_batch);
/* Layers [first, end) of the part. again: recomputation, which leaves running statistics
 * alone. */
void trainer_forward(struct trainer *trainer, uint32_t part, uint64_t micro_batch,
                     size_t first, size_t end, bool again);
void trainer_loss(struct trainer *trainer, uint32_t part, uint64_t micro_batch);
void trainer_backward(struct trainer *trainer, uint32_t part, uint64_t micro_batch,
                      size_t first, size_t end, enum backward_pass pass);
/* Of what came in over the part's gradient_from, weights only; after the own backward. */
void trainer_backward_received(struct trainer *trainer, uint32_t part, uint64_t micro_batch,
                               size_t first, size_t end);
/* update counts over the whole run: step x updates + number in the step. */
void trainer_update(struct trainer *trainer, uint32_t part, uint64_t update);
/* A message: the edge's message_count scalars. A prediction that is not unpacked before
 * the loss of its micro-batch takes no part in it. */
void trainer_pack(struct trainer *trainer, uint32_t edge, uint64_t micro_batch,
                  scalar *message);
void trainer_unpack(struct trainer *trainer, uint32_t edge, uint64_t micro_batch,
                    const scalar *message);

/* Before a collective: the micro-batch whose values a part brings to it. */
void trainer_join(struct trainer *trainer, uint32_t part, uint64_t micro_batch);
/* A stretch of a rank's array to and from a message. */
void trainer_pack_piece(struct trainer *trainer, const struct collective *collective,
                        uint32_t rank, uint64_t first, uint64_t count, scalar *message);
void trainer_unpack_piece(struct trainer *trainer, const struct collective *collective,
                          uint32_t rank, uint64_t first, uint64_t count, bool add,
                          const scalar *message);
/* Of the parts tied to the rank's: before the collective their numbers are added to its
 * array, after it they are its result. */
void trainer_gather_tied(struct trainer *trainer, const struct collective *collective,
                         uint32_t rank);
void trainer_share_tied(struct trainer *trainer, const struct collective *collective,
                        uint32_t rank);
/* Divides the rank's array by the number of ranks. */
void trainer_average(struct trainer *trainer, const struct collective *collective,
                     uint32_t rank);

/* Zeroes all of the rank's stretch but its own piece. */
void trainer_clear(struct trainer *trainer, const struct collective *collective,
                   uint32_t rank);

/* The mean task loss, over the samples of a step, that the part's head saw in the step it
 * finished last (trainer_update). */
double trainer_step_loss(const struct trainer *trainer, uint32_t part);
/* The copy's weights as they are now, on the test set. */
void trainer_evaluate(struct trainer *trainer, uint32_t copy, struct evaluation *evaluation);
/* For tests: the part's network. */
struct network *trainer_network(struct trainer *trainer, uint32_t part);

#endif
