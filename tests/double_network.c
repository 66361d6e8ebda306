/* A whole network with residual connections, dropout and two micro-batches against
 * central differences, in double. */
#include "tests/network_chain.h"

#include <math.h>

static const double tolerance = 1e-6;

static double loss_of(struct chain *chain)
{
    double loss = 0;
    for (size_t i = 0; i < 2; i++) {
        chain_forward(chain, 0, i);
        loss += 0.25 * chain_loss(chain, 0);
    }
    return loss;
}

static double difference(struct chain *chain, scalar *x)
{
    const double h = 1e-5, before = *x;
    *x = before + h;
    double above = loss_of(chain);
    *x = before - h;
    double below = loss_of(chain);
    *x = before;
    return (above - below) / (2 * h);
}

static void check_parameters(struct chain *chain)
{
    chain_step(chain, 2);
    for (size_t n = 0; n < chain->count; n++) {
        size_t count, nonzero = 0;
        scalar *parameters = network_parameters(chain->network[n], &count);
        const scalar *gradients = network_parameter_gradients(chain->network[n]);
        for (size_t i = 0; i < count; i++) {
            CU_ASSERT(fabs(difference(chain, &parameters[i]) - gradients[i]) < tolerance);
            nonzero += fabs(gradients[i]) > 1e-4;
        }
        CU_ASSERT(2 * nonzero >= count);
    }
}

static void test_whole(void)
{
    struct model *model = chain_model(chain_residual_text);
    struct chain chain;
    chain_open(&chain, model, NULL, 0, 1, false);
    check_parameters(&chain);
    chain_close(&chain);
    model_free(model);
}

static void test_parts(void)
{
    struct model *model = chain_model(chain_residual_text);
    const size_t ends[] = {4, 5, 11};
    struct chain chain;
    chain_open(&chain, model, ends, 3, 1, false);
    check_parameters(&chain);
    chain_close(&chain);
    model_free(model);
}

/* The second network, to which everything crosses in, computes the input's gradient. It
 * is the same when the input is written as the first network's value. */
static void test_input(void)
{
    struct model *model = chain_model(chain_residual_text);
    const size_t end = 0, output = model_output_value(model);
    struct chain chain;
    chain_open(&chain, model, &end, 1, 1, false);
    chain_forward(&chain, 0, 0);
    struct network *network = chain.network[1];
    scalar *input = network_value(network, 0, 0);
    for (size_t i = 0; i < CHAIN_BATCH * 6; i++) {
        const double h = 1e-5, before = input[i];
        double loss[2];
        for (int side = 0; side < 2; side++) {
            input[i] = before + (side == 0 ? h : -h);
            network_forward(network, 0, 9, 0);
            loss[side] = 0.25 * chain_loss(&chain, 0);
        }
        input[i] = before;
        network_forward(network, 0, 9, 0);
        chain_loss(&chain, 0);
        network_backward(network, 0, BACKWARD_ALL, &output, 1);
        CU_ASSERT(fabs((loss[0] - loss[1]) / (2 * h) - network_gradient(network, 0, 0)[i]) <
                  tolerance);
    }
    chain_close(&chain);
    model_free(model);
}

static const struct check checks[] = {
    {"whole", test_whole},
    {"in four parts", test_parts},
    {"the input's gradient", test_input},
};
CHECK_MAIN("network gradients", checks)
