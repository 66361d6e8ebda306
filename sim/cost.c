#include "sim/cost.h"

#include "base/checked.h"

/* a += b * c, sticky on overflow. */
static bool add_product(uint64_t *a, uint64_t b, uint64_t c)
{
    uint64_t product;
    return checked_multiply(b, c, &product) && checked_add(*a, product, a);
}

static bool too_large(const char *what, struct error *error)
{
    return error_set(error, STATUS_BAD_INPUT, "%s: work exceeds 2^64 FLOPs or bytes", what);
}

static uint64_t input_count(const struct layer *layer)
{
    uint64_t count = 0;
    for (size_t i = 0; i < layer->input_count; i++)
        count += shape_count(&layer->input_shape[i]);
    return count;
}

static uint64_t tensors_count(const struct layer *layer)
{
    uint64_t count = 0;
    for (size_t i = 0; i < layer->tensor_count; i++)
        count += layer->tensor[i].count;
    return count;
}

/* Bytes that the pass reads and writes: activations and their gradients per sample,
 * parameters (and their gradients, read and written) once. */
static bool pass_bytes(const struct layer *layer, bool forward, bool input, bool weight,
                       uint64_t micro_batch, const struct precision *precision,
                       uint64_t *bytes)
{
    uint64_t in = input_count(layer), out = shape_count(&layer->output_shape);
    uint64_t parameters = tensors_count(layer);
    uint64_t values = forward ? in + out : (input ? in + out : 0) + (weight ? in + out : 0);
    uint64_t scalars = 0;
    *bytes = 0;
    return add_product(&scalars, values, micro_batch) &&
           add_product(bytes, scalars, number_format_bytes(precision->activations)) &&
           (!(forward || input) ||
            add_product(bytes, parameters, number_format_bytes(precision->weights))) &&
           (!weight ||
            add_product(bytes, 2 * parameters, number_format_bytes(precision->gradients)));
}

static bool charge(const struct processor *processor, const struct work *work,
                   struct pass_cost *cost, struct error *error)
{
    cost->flops = work->flops;
    cost->empty = false;
    return processor_seconds(processor, work, &cost->seconds, error);
}

bool cost_layer(const struct layer *layer, enum pass pass, bool wants_input,
                uint64_t micro_batch, const struct precision *precision,
                const struct processor *processor, struct pass_cost *cost,
                struct error *error)
{
    static const char *const names[PASS_COUNT] = {"forward", "backward", "backward_input",
                                                  "backward_weight", "recompute"};
    bool forward = pass == PASS_FORWARD || pass == PASS_RECOMPUTE;
    bool input = wants_input && (pass == PASS_BACKWARD || pass == PASS_BACKWARD_INPUT);
    bool weight =
        layer->tensor_count > 0 && (pass == PASS_BACKWARD || pass == PASS_BACKWARD_WEIGHT);
    *cost = (struct pass_cost){.empty = true};
    if (!forward && !input && !weight)
        return true;
    uint64_t flops = forward ? layer->forward_flops
                             : (input ? layer->backward_input_flops : 0) +
                                   (weight ? layer->backward_weight_flops : 0);
    struct work work = {.operation = layer->operation,
                        .layer_kind = layer->kind->name,
                        .layer_name = layer->name,
                        .pass = names[pass],
                        .format = precision->activations};
    if (!add_product(&work.flops, flops, micro_batch) ||
        !pass_bytes(layer, forward, input, weight, micro_batch, precision, &work.bytes))
        return too_large(layer->name, error);
    return charge(processor, &work, cost, error);
}

bool cost_loss(uint64_t rows, uint64_t classes, uint64_t teachers,
               const struct precision *precision, const struct processor *processor,
               struct pass_cost *cost, struct error *error)
{
    /* Per logit: maximum, exponential, sum, division, subtraction; 3 more a teacher. */
    struct work work = {.operation = OPERATION_ELEMENTWISE,
                        .layer_kind = "loss",
                        .layer_name = "loss",
                        .pass = "loss",
                        .format = precision->activations};
    uint64_t logits = 0, words = 0;
    if (!add_product(&logits, rows, classes) ||
        !add_product(&work.flops, logits, 5 + 3 * teachers) ||
        !add_product(&words, logits, 2 + teachers) ||
        !add_product(&work.bytes, words, number_format_bytes(precision->activations)))
        return too_large("loss", error);
    return charge(processor, &work, cost, error);
}

bool cost_update(uint64_t parameters, uint64_t flops_per_parameter, uint64_t state_words,
                 const struct precision *precision, const struct processor *processor,
                 struct pass_cost *cost, struct error *error)
{
    *cost = (struct pass_cost){.empty = true};
    if (parameters == 0)
        return true;
    struct work work = {.operation = OPERATION_OPTIMIZER,
                        .layer_kind = "update",
                        .layer_name = "update",
                        .pass = "update",
                        .format = precision->weights};
    /* Weights and state are read and written, gradients read and cleared. */
    if (!add_product(&work.flops, parameters, flops_per_parameter) ||
        !add_product(&work.bytes, parameters, 2 * number_format_bytes(precision->weights)) ||
        !add_product(&work.bytes, parameters, 2 * number_format_bytes(precision->gradients)) ||
        !add_product(&work.bytes, parameters,
                     2 * state_words * number_format_bytes(precision->optimizer)))
        return too_large("update", error);
    return charge(processor, &work, cost, error);
}
