/* What a head's loss is made of: the task's, and distillation against other models. */
#include "sim/trainer_internal.h"

#include "engine/loss.h"

#include <string.h>

/* Adds alpha / (n - 1) * D(own, other) for every teacher to the logits' gradient. */
static void distil(const struct trainer *t, uint32_t part, const scalar *logits, size_t rows,
                   size_t classes, double scale, scalar *gradient)
{
    const struct part *p = &t->plan->parts[part];
    const struct trainer_part *own = &t->parts[part];
    for (size_t i = 0; i < p->teacher_count; i++) {
        double weight = scale * p->teaching.alpha / (double)p->teacher_count;
        if (p->teaching.kl)
            loss_kl(logits, own->teachers[i], rows, classes, p->teaching.temperature, weight,
                    gradient);
        else
            loss_mean_square(logits, own->teachers[i], rows, classes, weight, gradient);
    }
}

void trainer_loss(struct trainer *t, uint32_t part, uint64_t micro_batch)
{
    const struct part *p = &t->plan->parts[part];
    struct trainer_part *own = &t->parts[part];
    size_t slot = slot_of(t, part, micro_batch);
    size_t classes = classes_of(t->plan->model, p->logits_value);
    size_t rows = rows_of(t->plan->model, p->logits_value) * (size_t)t->plan->micro_batch;
    const struct copy *copy = &t->plan->copies[p->copy];
    double batch = (double)t->plan->batch / (double)(copy->apart ? copy->shards : 1);
    double scale = t->plan->precision.loss_scale / (batch * (double)t->data->labels);
    scalar *logits = network_value(own->network, slot, p->logits_value);
    scalar *gradient = network_gradient(own->network, slot, p->logits_value);
    trainer_read_samples(t, part, micro_batch, NULL, own->labels);
    memset(gradient, 0, rows * classes * sizeof *gradient);
    own->loss_sum +=
        loss_cross_entropy(logits, own->labels, rows, classes, 0, scale, gradient, NULL);
    if (micro_batch / t->plan->micro_batches >= p->teaching.burn_in_steps)
        distil(t, part, logits, rows, classes, scale, gradient);
}
