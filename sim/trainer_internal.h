/* Shared by the trainer's files only. */
#ifndef PODSIM_SIM_TRAINER_INTERNAL_H
#define PODSIM_SIM_TRAINER_INTERNAL_H

#include "sim/trainer.h"

struct trainer_part {
    struct network *network;
    scalar *optimizer_state;
    struct network_tensor *tensors; /* that its optimiser updates */
    size_t tensor_count;
    int32_t *labels;      /* of one micro-batch */
    scalar **teachers;    /* logits of one micro-batch, one an incoming edge ... */
    bool *present;        /* ... and whether they have come */
    size_t crossing_in[MODEL_MAX_CROSSING], crossing_in_count;
    size_t crossing_out[MODEL_MAX_CROSSING], crossing_out_count;
    /* of these, those with a gradient */
    size_t gradient_in[MODEL_MAX_CROSSING], gradient_in_count;
    size_t gradient_out[MODEL_MAX_CROSSING], gradient_out_count;
    size_t seeds[MODEL_MAX_CROSSING + 1], seed_count;
    size_t received_seeds[MODEL_MAX_CROSSING + 1], received_seed_count;
    /* With weight stashing: former weights, version v at v % (versions - 1), and the
     * version that the forward of each slot's micro-batch has used. */
    scalar **versions;
    uint64_t *slot_version;
    uint64_t version; /* of the weights as they are now */
    size_t joined_slot; /* of the micro-batch in a collective of values */
    double loss_sum;      /* over rows, of the step under way */
    double step_loss;     /* mean, of the step finished last */
};

struct trainer {
    struct trainer_options options;
    const struct plan *plan;
    const struct dataset_description *data;
    struct trainer_part *parts;
    struct network *evaluation;
    /* While parts are made: the model that their slices are of, from this seed. */
    struct network *whole;
    uint64_t whole_seed;
    size_t evaluation_batch;
    int32_t *evaluation_labels;
    scalar *sample; /* one input, where only the labels are wanted */
};

/* Rows of logits a sample. */
static inline size_t rows_of(const struct model *model, size_t logits_value)
{
    const struct shape *shape = model_value_shape(model, logits_value);
    return (size_t)(shape_count(shape) / shape->extent[shape->rank - 1]);
}

static inline size_t classes_of(const struct model *model, size_t logits_value)
{
    const struct shape *shape = model_value_shape(model, logits_value);
    return (size_t)shape->extent[shape->rank - 1];
}

static inline size_t slot_of(const struct trainer *t, uint32_t part, uint64_t micro_batch)
{
    return (size_t)(micro_batch % t->plan->parts[part].slots);
}

/* trainer_slices.c, where the plan's model is a rank's shard. The weights that a copy of
 * the whole model starts from, and a part's slices of them; the evaluated network's from
 * those of the parts. */
bool trainer_make_whole(struct trainer *trainer, uint64_t seed, struct error *error);
void trainer_take_slices(struct trainer *trainer, uint32_t part);
void trainer_give_slices(struct trainer *trainer, uint32_t part);

/* trainer.c: the samples of a part's micro-batch; inputs NULL: only the labels. */
void trainer_read_samples(struct trainer *trainer, uint32_t part, uint64_t micro_batch,
                          scalar *inputs, int32_t *labels);

/* What values become in a format, where the experiment emulates them; NULL: nothing. */
static inline const struct rounding *emulated(const struct trainer *t,
                                              enum number_format format)
{
    return t->plan->precision.emulate ? number_format_rounding(format) : NULL;
}

#endif
