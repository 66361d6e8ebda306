/* For tests of local methods: what a chunk's first update should be, computed directly
 * from whole networks, without plans, processors or messages. */
#ifndef PODSIM_TESTS_LOCAL_REFERENCE_H
#define PODSIM_TESTS_LOCAL_REFERENCE_H

#include "engine/loss.h"
#include "tests/simulate.h"

struct reference {
    const struct experiment *experiment;
    const struct plan *plan;
    struct network *whole; /* its forward has been run on step 0's samples */
    int32_t *labels;
    size_t batch;
};

static inline struct network *reference_network(const struct reference *r, size_t first,
                                                size_t end)
{
    struct error error = {0};
    const struct network_options options = {.model = r->plan->model,
                                            .first_layer = first,
                                            .end_layer = end,
                                            .batch = r->batch,
                                            .slots = 1,
                                            .training = true,
                                            .seed = r->experiment->seed};
    struct network *network = network_create(&options, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(network);
    return network;
}

static inline void reference_open(struct reference *r, const struct experiment *e,
                                  const struct plan *plan)
{
    struct error error = {0};
    struct dataset *dataset = experiment_open_data(e, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dataset);
    *r = (struct reference){e, plan, NULL, NULL, (size_t)plan->batch};
    size_t size = (size_t)shape_count(&plan->model->input_shape);
    r->whole = reference_network(r, 0, plan->model->layer_count);
    r->labels = calloc(r->batch, sizeof *r->labels);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r->labels);
    for (size_t i = 0; i < r->batch; i++)
        dataset_sample(dataset, DATASET_TRAIN, dataset_order(dataset, e->seed, i),
                       network_value(r->whole, 0, 0) + i * size, r->labels + i);
    network_forward(r->whole, 0, 0, 0);
    dataset_free(dataset);
}

static inline void reference_close(struct reference *r)
{
    network_free(r->whole);
    free(r->labels);
}

/* Backward of the loss at a head, through all of the network that it reaches. */
static inline void reference_backward(const struct reference *r, struct network *network,
                                      size_t logits_value)
{
    const struct shape *shape = model_value_shape(r->plan->model, logits_value);
    size_t classes = (size_t)shape->extent[0];
    scalar *gradient = network_gradient(network, 0, logits_value);
    memset(gradient, 0, r->batch * classes * sizeof *gradient);
    loss_cross_entropy(network_value(network, 0, logits_value), r->labels, r->batch,
                       classes, r->experiment->setting.label_smoothing,
                       1.0 / (double)r->batch, gradient, NULL);
    network_backward(network, 0, BACKWARD_ALL, &logits_value, 1);
}

/* A chunk's weights after one update by its own head's loss and, when `overlapping`, by
 * the next chunk's, with all that is below the chunk constant. The caller frees. */
static inline scalar *reference_update(const struct reference *r, uint32_t part,
                                       bool overlapping, size_t *count)
{
    const struct plan *plan = r->plan;
    const struct part *own = &plan->parts[part];
    bool next = overlapping && part + 1 < plan->copies[own->copy].end_part;
    size_t end = next ? plan->parts[part + 1].end_layer : own->end_layer;
    struct network *network = reference_network(r, own->first_layer, end);
    size_t values[MODEL_MAX_CROSSING], all, tensors;
    size_t crossing = model_crossing(plan->model, own->first_layer, values);
    for (size_t i = 0; i < crossing; i++)
        memcpy(network_value(network, 0, values[i]), network_value(r->whole, 0, values[i]),
               (size_t)shape_count(model_value_shape(plan->model, values[i])) * r->batch *
                   sizeof(scalar));
    network_forward(network, 0, 0, 0);
    reference_backward(r, network, own->logits_value);
    if (next)
        reference_backward(r, network, plan->parts[part + 1].logits_value);
    scalar *parameters = network_parameters(network, &all);
    const struct network_tensor *list = network_tensors(network, &tensors);
    scalar *state = calloc(2 * all, sizeof *state);
    CU_ASSERT_PTR_NOT_NULL_FATAL(state);
    optimizer_update(&r->experiment->setting.optimizer, 0, r->experiment->steps, list,
                     tensors, parameters, network_parameter_gradients(network), state);
    *count = (size_t)plan_part_parameters(plan, own);
    scalar *result = calloc(*count, sizeof *result);
    CU_ASSERT_PTR_NOT_NULL_FATAL(result);
    memcpy(result, parameters, *count * sizeof *result);
    free(state);
    network_free(network);
    return result;
}

#endif
