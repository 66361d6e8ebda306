/* What a head's loss is made of: the task's, and distillation against other models. */
#include "sim/trainer_internal.h"

#include "engine/loss.h"

#include <string.h>

/* Adds alpha / teachers * D(own, other) for every teacher that has spoken to the logits'
 * gradient. */
static void distil(const struct trainer *t, uint32_t part, const scalar *logits,
                   size_t rows, size_t classes, uint64_t step, double scale,
                   scalar *gradient)
{
    const struct part *p = &t->plan->parts[part];
    const struct trainer_part *own = &t->parts[part];
    for (size_t i = 0; i < p->teacher_count; i++) {
        bool present = own->present[i];
        own->present[i] = false;
        double weight =
            scale * teaching_alpha(&p->teaching, step) / (double)p->teacher_count;
        if (!present || weight == 0)
            continue;
        if (p->teaching.kl)
            loss_kl(logits, own->teachers[i], rows, classes, p->teaching.temperature,
                    weight, gradient);
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
    const struct loss_kind *kind = p->loss != NULL ? p->loss : loss_kind_get(0);
    uint64_t samples = t->plan->batch / t->plan->updates; /* of one update */
    double batch = (double)samples / (double)(copy->apart ? copy->shards : 1);
    double scale = t->plan->precision.loss_scale / (batch * (double)t->data->labels);
    scalar *logits = network_value(own->network, slot, p->logits_value);
    scalar *gradient = network_gradient(own->network, slot, p->logits_value);
    trainer_read_samples(t, part, micro_batch, NULL, own->labels);
    memset(gradient, 0, rows * classes * sizeof *gradient);
    own->loss_sum += kind->compute(logits, own->labels, rows, classes,
                                   t->plan->label_smoothing, scale, gradient, NULL);
    distil(t, part, logits, rows, classes, micro_batch / t->plan->micro_batches, scale,
           gradient);
}
