/* A model cut into networks that hand values and gradients on, as processors would. */
#ifndef PODSIM_TESTS_NETWORK_CHAIN_H
#define PODSIM_TESTS_NETWORK_CHAIN_H

#include "tests/check.h"

#include "base/checked.h"
#include "base/random.h"
#include "engine/loss.h"
#include "engine/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN_MAX = 8, CHAIN_BATCH = 3 };

/* Values that are used far away, twice by one layer, and by several layers. */
static const char chain_residual_text[] =
    "{\"input\": [6], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"linear\", \"out\": 8}, {\"kind\": "
    "\"relu\"}]},"
    "{\"name\": \"b\", \"repeat\": 2, \"layers\": ["
    "  {\"kind\": \"linear\", \"out\": 8}, {\"kind\": \"gelu\"},"
    "  {\"kind\": \"dropout\", \"rate\": 0.3},"
    "  {\"kind\": \"add\", \"inputs\": [\"previous\", \"block_input\"]}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"layer_norm\"},"
    "  {\"kind\": \"add\", \"inputs\": [\"previous\", \"a.relu\", \"b0.gelu\"]},"
    "  {\"kind\": \"add\", \"name\": \"twice\", \"inputs\": [\"previous\", \"previous\"]},"
    "  {\"kind\": \"linear\", \"out\": 8}, {\"kind\": \"relu\"}]},"
    "{\"name\": \"d\", \"layers\": [{\"kind\": \"linear\", \"out\": 3}]}]}";

struct chain {
    const struct model *model;
    size_t count;
    size_t end[CHAIN_MAX]; /* layer after network i */
    struct network *network[CHAIN_MAX];
};

static struct model *chain_model(const char *text)
{
    struct error error = {0};
    struct json_file *file = json_file_parse("model.json", text, &error);
    struct json_at root = json_root(file);
    struct model *model = file == NULL ? NULL : model_read(&root, &error);
    if (model == NULL)
        printf("\n  %s\n", error.message);
    json_file_free(file);
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    return model;
}

/* ends: of all but the last network. */
static void chain_open(struct chain *chain, const struct model *model, const size_t *ends,
                       size_t end_count, size_t slots, bool split)
{
    struct error error = {0};
    *chain = (struct chain){.model = model, .count = end_count + 1};
    for (size_t i = 0; i <= end_count; i++) {
        chain->end[i] = i < end_count ? ends[i] : model->layer_count;
        struct network_options options = {.model = model,
                                          .first_layer = i == 0 ? 0 : ends[i - 1],
                                          .end_layer = chain->end[i],
                                          .batch = CHAIN_BATCH,
                                          .slots = slots,
                                          .input_gradient = i > 0,
                                          .training = true,
                                          .split_backward = split,
                                          .seed = 42};
        chain->network[i] = network_create(&options, &error);
        if (chain->network[i] == NULL)
            printf("\n  %s\n", error.message);
        CU_ASSERT_PTR_NOT_NULL_FATAL(chain->network[i]);
    }
}

static void chain_close(struct chain *chain)
{
    for (size_t i = 0; i < chain->count; i++)
        network_free(chain->network[i]);
}

static size_t chain_value_bytes(const struct chain *chain, size_t value)
{
    return CHAIN_BATCH * (size_t)shape_count(model_value_shape(chain->model, value)) *
           sizeof(scalar);
}

static void chain_input(struct chain *chain, size_t slot, uint64_t micro_batch)
{
    struct random_key key = {5, RANDOM_TEST, 1, micro_batch};
    scalar *input = network_value(chain->network[0], slot, 0);
    for (size_t i = 0; i < chain_value_bytes(chain, 0) / sizeof(scalar); i++)
        input[i] = chain->model->vocabulary > 0
                       ? (scalar)(random_u64(key, i) % chain->model->vocabulary)
                       : (scalar)random_normal(key, i);
}

static void chain_forward(struct chain *chain, size_t slot, uint64_t micro_batch)
{
    size_t values[MODEL_MAX_CROSSING];
    chain_input(chain, slot, micro_batch);
    for (size_t i = 0; i < chain->count; i++) {
        size_t count = i == 0 ? 0 : model_crossing(chain->model, chain->end[i - 1], values);
        for (size_t k = 0; k < count; k++)
            memcpy(network_value(chain->network[i], slot, values[k]),
                   network_value(chain->network[i - 1], slot, values[k]),
                   chain_value_bytes(chain, values[k]));
        network_forward(chain->network[i], slot, 9, micro_batch * CHAIN_BATCH);
    }
}

/* Fills the gradient of the output; the loss comes back. */
static double chain_loss(struct chain *chain, size_t slot)
{
    struct network *last = chain->network[chain->count - 1];
    size_t output = model_output_value(chain->model), classes = (size_t)chain->model->classes;
    size_t rows = chain_value_bytes(chain, output) / sizeof(scalar) / classes;
    scalar *gradient = network_gradient(last, slot, output);
    int32_t *labels = checked_calloc(rows, sizeof *labels);
    CU_ASSERT_PTR_NOT_NULL_FATAL(labels);
    for (size_t i = 0; i < rows; i++)
        labels[i] = (int32_t)((2 * i + 2) % 3 % classes);
    memset(gradient, 0, chain_value_bytes(chain, output));
    double loss = loss_cross_entropy(network_value(last, slot, output), labels, rows, classes,
                                     0, 0.25, gradient, NULL);
    free(labels);
    return loss;
}

static void chain_backward(struct chain *chain, size_t slot, enum backward_pass pass)
{
    size_t values[MODEL_MAX_CROSSING];
    for (size_t i = chain->count; i-- > 0;) {
        size_t count = model_crossing(chain->model, chain->end[i], values);
        for (size_t k = 0; k < count && i + 1 < chain->count && pass != BACKWARD_WEIGHT;
             k++) {
            scalar *to = network_gradient(chain->network[i], slot, values[k]);
            if (to != NULL)
                memcpy(to, network_gradient(chain->network[i + 1], slot, values[k]),
                       chain_value_bytes(chain, values[k]));
        }
        network_backward(chain->network[i], slot, pass, values, count);
    }
}

/* Forward, loss and backward of micro-batches in order; the sum of the losses. */
static double chain_step(struct chain *chain, size_t micro_batches)
{
    double loss = 0;
    for (size_t i = 0; i < micro_batches; i++) {
        chain_forward(chain, 0, i);
        loss += chain_loss(chain, 0);
        chain_backward(chain, 0, BACKWARD_ALL);
    }
    return loss;
}

/* All of one chain's tensors against another's, bit by bit: the parameters, or their
 * gradients. */
static inline bool chain_equal(struct chain *a, struct chain *b, bool gradients)
{
    size_t compared = 0;
    for (size_t i = 0; i < a->count; i++) {
        size_t count, other_count;
        const struct network_tensor *tensors = network_tensors(a->network[i], &count);
        const scalar *values = gradients ? network_parameter_gradients(a->network[i])
                                         : network_parameters(a->network[i], NULL);
        for (size_t t = 0; t < count; t++)
            for (size_t j = 0; j < b->count; j++) {
                const struct network_tensor *others =
                    network_tensors(b->network[j], &other_count);
                const scalar *other = gradients ? network_parameter_gradients(b->network[j])
                                                : network_parameters(b->network[j], NULL);
                for (size_t u = 0; u < other_count; u++) {
                    if (others[u].layer != tensors[t].layer ||
                        others[u].tensor != tensors[t].tensor)
                        continue;
                    compared++;
                    if (others[u].count != tensors[t].count ||
                        memcmp(values + tensors[t].offset, other + others[u].offset,
                               tensors[t].count * sizeof(scalar)) != 0)
                        return false;
                }
            }
    }
    return compared > 0;
}

#endif
