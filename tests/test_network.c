/* Networks: however a model is cut, whatever else is in flight, and whichever way the
 * stash was made, the numbers are the same bits. */
#include "tests/network_chain.h"

#include <math.h>

static const char image_text[] =
    "{\"input\": [2, 7, 6], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"conv2d\", \"channels\": 8, \"padding\": "
    "1},"
    " {\"kind\": \"batch_norm\"}, {\"kind\": \"relu\"},"
    " {\"kind\": \"max_pool\", \"kernel\": 3, \"stride\": 2, \"padding\": 1}]},"
    "{\"name\": \"b\", \"layers\": [{\"kind\": \"conv2d\", \"channels\": 8, \"padding\": 1,"
    " \"groups\": 2}, {\"kind\": \"group_norm\", \"groups\": 2}, {\"kind\": \"gelu\"},"
    " {\"kind\": \"add\", \"inputs\": [\"previous\", \"block_input\"]}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"average_pool\", \"kernel\": 2,"
    " \"stride\": 1}, {\"kind\": \"global_average_pool\"},"
    " {\"kind\": \"linear\", \"out\": 3}]}]}";

static void cut_everywhere(const char *text)
{
    struct model *model = chain_model(text);
    struct chain whole;
    chain_open(&whole, model, NULL, 0, 1, false);
    double expected = chain_step(&whole, 3);
    CU_ASSERT(expected > 0);
    for (size_t cut = 0; cut <= model->layer_count; cut++) {
        struct chain parts;
        chain_open(&parts, model, &cut, 1, 1, false);
        CU_ASSERT(chain_equal(&parts, &whole, false));
        CU_ASSERT_EQUAL(chain_step(&parts, 3), expected);
        CU_ASSERT(chain_equal(&parts, &whole, true));
        chain_close(&parts);
    }
    chain_close(&whole);
    model_free(model);
}

static void test_two_networks(void)
{
    cut_everywhere(chain_residual_text);
    cut_everywhere(image_text);
}

static void test_many_networks(void)
{
    struct model *model = chain_model(chain_residual_text);
    struct chain whole, parts;
    chain_open(&whole, model, NULL, 0, 1, false);
    double expected = chain_step(&whole, 3);
    for (size_t a = 0; a <= model->layer_count; a++)
        for (size_t b = a; b <= model->layer_count; b++) {
            size_t ends[] = {a, b};
            chain_open(&parts, model, ends, 2, 1, false);
            CU_ASSERT_EQUAL(chain_step(&parts, 3), expected);
            CU_ASSERT(chain_equal(&parts, &whole, true));
            chain_close(&parts);
        }
    chain_close(&whole);
    model_free(model);
}

/* All forward, then all backward, in the order of the micro-batches. */
static void run_flush(struct chain *chain, bool split, bool recompute)
{
    for (size_t i = 0; i < 3; i++)
        chain_forward(chain, i, i);
    for (size_t i = 0; i < 3; i++) {
        if (recompute)
            for (size_t k = 0; k < chain->count; k++)
                network_recompute(chain->network[k], i, 9, i * CHAIN_BATCH);
        chain_loss(chain, i);
        chain_backward(chain, i, split ? BACKWARD_INPUT : BACKWARD_ALL);
    }
    for (size_t i = 0; i < 3 && split; i++)
        chain_backward(chain, i, BACKWARD_WEIGHT);
}

static void flush_variants(const char *text)
{
    struct model *model = chain_model(text);
    const size_t ends[] = {3, 8};
    struct chain whole, parts;
    chain_open(&whole, model, NULL, 0, 1, false);
    chain_step(&whole, 3);
    for (int variant = 0; variant < 4; variant++) {
        bool split = variant & 1, recompute = variant & 2;
        chain_open(&parts, model, ends, 2, 3, split);
        run_flush(&parts, split, recompute);
        CU_ASSERT(chain_equal(&parts, &whole, true));
        chain_close(&parts);
    }
    chain_close(&whole);
    model_free(model);
}

static void test_slots(void)
{
    flush_variants(chain_residual_text);
    flush_variants(image_text);
}

static void test_zero_gradients(void)
{
    struct model *model = chain_model(chain_residual_text);
    struct chain chain, once;
    chain_open(&chain, model, NULL, 0, 1, false);
    chain_open(&once, model, NULL, 0, 1, false);
    chain_step(&chain, 3);
    network_zero_gradients(chain.network[0]);
    chain_step(&chain, 1);
    chain_step(&once, 1);
    CU_ASSERT(chain_equal(&chain, &once, true));
    chain_close(&chain);
    chain_close(&once);
    model_free(model);
}

/* A cut at 8 is crossed by a.relu, b0.gelu and b1's values: without seeds nothing is
 * computed, and what goes back is zero. */
static void test_no_seeds(void)
{
    struct model *model = chain_model(chain_residual_text);
    const size_t end = 8;
    size_t values[MODEL_MAX_CROSSING], parameters;
    struct chain chain;
    chain_open(&chain, model, &end, 1, 1, false);
    chain_step(&chain, 1);
    struct network *last = chain.network[1];
    network_zero_gradients(last);
    network_backward(last, 0, BACKWARD_ALL, NULL, 0);
    size_t count = model_crossing(model, end, values);
    CU_ASSERT_EQUAL(count, 4);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < chain_value_bytes(&chain, values[i]) / sizeof(scalar); k++)
            CU_ASSERT_EQUAL(network_gradient(last, 0, values[i])[k], 0);
    network_parameters(last, &parameters);
    for (size_t i = 0; i < parameters; i++)
        CU_ASSERT_EQUAL(network_parameter_gradients(last)[i], 0);
    chain_close(&chain);
    model_free(model);
}

/* Gradients exist where model_gradient_values says, and not for the model's input. */
static void test_unwanted_gradients(void)
{
    struct model *model = chain_model(chain_residual_text);
    struct chain chain;
    struct value_set wants;
    chain_open(&chain, model, NULL, 0, 1, false);
    model_gradient_values(model, 0, model->layer_count, false, &wants);
    CU_ASSERT_PTR_NULL(network_gradient(chain.network[0], 0, 0));
    for (size_t v = 0; v <= model->layer_count; v++)
        CU_ASSERT_EQUAL(network_gradient(chain.network[0], 0, v) != NULL,
                        value_set_has(&wants, v));
    CU_ASSERT_FALSE(model_backward_wants_input(model, 0, model->layer_count, 0, false));
    CU_ASSERT_TRUE(model_backward_wants_input(model, 0, model->layer_count, 0, true));
    CU_ASSERT_TRUE(model_backward_wants_input(model, 0, model->layer_count, 1, false));
    /* From relu on: it has nothing trainable behind it. */
    CU_ASSERT_FALSE(model_backward_wants_input(model, 1, model->layer_count, 1, false));
    chain_close(&chain);
    model_free(model);
}

static const char tied_text[] =
    "{\"input\": [5], \"blocks\": ["
    "{\"name\": \"a\", \"layers\": [{\"kind\": \"linear\", \"out\": 5}, {\"kind\": "
    "\"gelu\"}]},"
    "{\"name\": \"b\", \"layers\": [{\"kind\": \"linear\", \"out\": 5, \"bias\": false,"
    " \"tied_to\": \"a.linear\"}, {\"kind\": \"gelu\"}]},"
    "{\"name\": \"c\", \"layers\": [{\"kind\": \"linear\", \"out\": 5,"
    " \"tied_to\": \"b.linear\"}]}]}";

static void test_tied(void)
{
    struct model *model = chain_model(tied_text);
    struct chain whole, parts;
    size_t count, cut = 2, whole_count, part_count;
    CU_ASSERT_EQUAL(model_parameter_count(model), 30);
    CU_ASSERT_EQUAL(model_run_parameter_count(model, 2, 5), 30);
    CU_ASSERT_EQUAL(layer_parameter_count(&model->layers[4]), 0);
    chain_open(&whole, model, NULL, 0, 1, false);
    chain_open(&parts, model, &cut, 1, 1, false);
    const scalar *all = network_parameters(whole.network[0], &whole_count);
    const scalar *copy = network_parameters(parts.network[1], &part_count);
    CU_ASSERT_EQUAL(whole_count, 30);
    CU_ASSERT_EQUAL(part_count, 30);
    CU_ASSERT_EQUAL(memcmp(all, copy, 30 * sizeof(scalar)), 0);
    network_tensors(parts.network[1], &count);
    CU_ASSERT_EQUAL(count, 2);
    CU_ASSERT_EQUAL(chain_step(&whole, 2), chain_step(&parts, 2));
    const scalar *together = network_parameter_gradients(whole.network[0]);
    const scalar *first = network_parameter_gradients(parts.network[0]);
    const scalar *second = network_parameter_gradients(parts.network[1]);
    for (size_t i = 0; i < 30; i++)
        CU_ASSERT(fabs((double)together[i] - (double)first[i] - (double)second[i]) < 1e-6);
    chain_close(&whole);
    chain_close(&parts);
    model_free(model);
}

static const char plain_text[] =
    "{\"input\": [4], \"blocks\": [{\"name\": \"a\", \"layers\": ["
    "{\"kind\": \"linear\", \"out\": 9}, {\"kind\": \"relu\"},"
    "{\"kind\": \"linear\", \"out\": 3, \"name\": \"last\"}]}]}";

static void test_evaluation_and_copy(void)
{
    struct model *model = chain_model(plain_text);
    struct error error;
    const size_t cut = 2;
    struct chain chain;
    chain_open(&chain, model, &cut, 1, 1, false);
    struct network_options options = {.model = model,
                                      .end_layer = model->layer_count,
                                      .batch = CHAIN_BATCH,
                                      .slots = 1,
                                      .seed = 777};
    struct network *evaluation = network_create(&options, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(evaluation);
    CU_ASSERT_PTR_NULL(network_parameter_gradients(evaluation));
    chain_forward(&chain, 0, 0);
    size_t output = model_output_value(model), bytes = chain_value_bytes(&chain, output);
    const scalar *expected = network_value(chain.network[1], 0, output);
    memcpy(network_value(evaluation, 0, 0), network_value(chain.network[0], 0, 0),
           chain_value_bytes(&chain, 0));
    network_forward(evaluation, 0, 0, 0);
    CU_ASSERT_NOT_EQUAL(memcmp(network_value(evaluation, 0, output), expected, bytes), 0);
    for (size_t i = 0; i < chain.count; i++)
        network_copy_weights(evaluation, chain.network[i]);
    network_forward(evaluation, 0, 0, 0);
    CU_ASSERT_EQUAL(memcmp(network_value(evaluation, 0, output), expected, bytes), 0);
    network_free(evaluation);
    chain_close(&chain);
    model_free(model);
}

static struct network *dropout_network(const struct model *model, size_t batch,
                                       bool training)
{
    struct error error;
    struct network_options options = {.model = model,
                                      .end_layer = model->layer_count,
                                      .batch = batch,
                                      .slots = 1,
                                      .training = training,
                                      .seed = 3};
    struct network *network = network_create(&options, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(network);
    scalar *input = network_value(network, 0, 0);
    for (size_t i = 0; i < batch * 1001; i++)
        input[i] = 1;
    return network;
}

/* The mask goes with the sample, not with the micro-batch that it came in. */
static void test_dropout(void)
{
    struct model *model =
        chain_model("{\"input\": [1001], \"blocks\": [{\"name\": \"a\", \"layers\": ["
                    "{\"kind\": \"dropout\", \"rate\": 0.25}]}]}");
    struct network *four = dropout_network(model, 4, true);
    struct network *one = dropout_network(model, 1, true);
    struct network *evaluation = dropout_network(model, 1, false);
    network_forward(four, 0, 6, 0);
    network_forward(evaluation, 0, 6, 0);
    const scalar *all = network_value(four, 0, 1);
    double sum = 0;
    for (size_t i = 0; i < 4; i++) {
        network_forward(one, 0, 6, i);
        CU_ASSERT_EQUAL(
            memcmp(network_value(one, 0, 1), all + i * 1001, 1001 * sizeof(scalar)), 0);
        network_forward(one, 0, 7, i);
        CU_ASSERT_NOT_EQUAL(
            memcmp(network_value(one, 0, 1), all + i * 1001, 1001 * sizeof(scalar)), 0);
    }
    CU_ASSERT_NOT_EQUAL(memcmp(all, all + 1001, 1001 * sizeof(scalar)), 0);
    for (size_t i = 0; i < 4004; i++) {
        sum += (double)all[i];
        CU_ASSERT(all[i] == 0 || fabs((double)all[i] - 4. / 3) < 1e-6);
    }
    /* Four standard deviations: sqrt(4004 * 0.25 * 0.75) * 4 / 3 each. */
    CU_ASSERT(fabs(sum - 4004) < 4 * 36.6);
    for (size_t i = 0; i < 1001; i++)
        CU_ASSERT_EQUAL(network_value(evaluation, 0, 1)[i], 1);
    network_free(four);
    network_free(one);
    network_free(evaluation);
    model_free(model);
}

/* What is too large for this computer's libraries is refused, not wrapped. */
static void test_too_large(void)
{
    struct model *model =
        chain_model("{\"input\": [1073741824], \"blocks\": [{\"name\": \"a\", \"layers\": ["
                    "{\"kind\": \"relu\"}, {\"kind\": \"linear\", \"out\": 1000}]}]}");
    struct error error = {0};
    struct network_options options = {
        .model = model, .end_layer = 1, .batch = 2, .slots = 1, .training = true};
    CU_ASSERT_EQUAL(model_parameter_count(model), UINT64_C(1073741824000) + 1000);
    CU_ASSERT_PTR_NULL(network_create(&options, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_HOST);
    options.first_layer = 1;
    options.end_layer = 2;
    options.batch = 1;
    CU_ASSERT_PTR_NULL(network_create(&options, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_HOST);
    options.end_layer = 1;
    options.slots = SIZE_MAX / 2;
    options.batch = UINT32_MAX;
    CU_ASSERT_PTR_NULL(network_create(&options, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_HOST);
    model_free(model);
}

/* A kind with everything that is optional: state that counts the passes, scratch, stash of
 * both sorts, and a prepared object. */
static size_t prepared_count;

static bool counting_describe(struct layer *layer, struct error *error)
{
    (void)error;
    layer->output_shape = layer->input_shape[0];
    layer->state_count = 1;
    layer->stash_count = 2;
    layer->stash_fixed_count = 1;
    return true;
}

static uint64_t counting_work(const struct layer *layer, size_t batch)
{
    return batch * shape_count(&layer->output_shape);
}

static bool counting_prepare(const struct layer *layer, size_t batch, void **prepared,
                             struct error *error)
{
    (void)batch;
    if (strcmp(layer->name, "a.relu_2") == 0)
        return error_set(error, STATUS_HOST, "no more objects");
    *prepared = checked_calloc(1, 1);
    prepared_count++;
    return true;
}

static void counting_release(void *prepared)
{
    free(prepared);
    prepared_count--;
}

static void counting_init(const struct layer *layer, scalar *state)
{
    (void)layer;
    *state = 5;
}

static void counting_forward(const struct layer *layer, const struct layer_call *call)
{
    uint64_t count = counting_work(layer, call->batch);
    CU_ASSERT_PTR_NOT_NULL(call->prepared);
    for (size_t i = 0; i < count; i++)
        call->output[i] = call->work[i] = call->input[0][i];
    for (size_t i = 0; i < call->batch * 2 + 1; i++)
        call->stash[i] = (scalar)call->first_sample;
    if (call->state != NULL)
        *call->state += 1;
}

static const struct layer_kind counting = {.name = "counting",
                                           .describe = counting_describe,
                                           .work_count = counting_work,
                                           .prepare = counting_prepare,
                                           .release = counting_release,
                                           .init_state = counting_init,
                                           .forward = counting_forward};

static struct model *counting_model(const char *text)
{
    struct model *model = chain_model(text);
    for (size_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind == layer_kind_find("relu")) {
            model->layers[i].kind = &counting;
            model->layers[i].keeps_output = false;
            counting_describe(&model->layers[i], NULL);
        }
    return model;
}

/* Running statistics count a micro-batch once, though its forward is done twice. */
static void test_state(void)
{
    struct model *model = counting_model(plain_text);
    struct chain chain, other;
    CU_ASSERT_EQUAL(model_state_count(model), 1);
    CU_ASSERT_EQUAL(model_stash(model, 1, 2).count, 2);
    CU_ASSERT_EQUAL(model_stash(model, 1, 2).fixed_count, 1);
    chain_open(&chain, model, NULL, 0, 2, false);
    chain_open(&other, model, NULL, 0, 1, false);
    size_t count;
    const scalar *state = network_state(chain.network[0], &count);
    CU_ASSERT_EQUAL(count, 1);
    CU_ASSERT_EQUAL(*state, 5);
    chain_forward(&chain, 0, 0);
    chain_forward(&chain, 1, 1);
    CU_ASSERT_EQUAL(*state, 7);
    network_recompute(chain.network[0], 0, 9, 0);
    CU_ASSERT_EQUAL(*state, 7);
    network_copy_weights(other.network[0], chain.network[0]);
    CU_ASSERT_EQUAL(*network_state(other.network[0], NULL), 7);
    CU_ASSERT_EQUAL(prepared_count, 2);
    chain_close(&chain);
    chain_close(&other);
    CU_ASSERT_EQUAL(prepared_count, 0);
    model_free(model);
}

static void test_prepare_fails(void)
{
    struct model *model =
        counting_model("{\"input\": [4], \"blocks\": [{\"name\": \"a\", \"layers\": ["
                       "{\"kind\": \"relu\"}, {\"kind\": \"relu\"}]}]}");
    struct error error = {0};
    struct network_options options = {
        .model = model, .end_layer = 2, .batch = 2, .slots = 1, .training = true};
    CU_ASSERT_PTR_NULL(network_create(&options, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_HOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "a.relu_2"));
    CU_ASSERT_EQUAL(prepared_count, 0);
    model_free(model);
}

static const struct check checks[] = {
    {"two networks give the bits of one", test_two_networks},
    {"three networks give the bits of one", test_many_networks},
    {"slots, split backward, recomputation", test_slots},
    {"gradients start again from zero", test_zero_gradients},
    {"without seeds", test_no_seeds},
    {"gradients that nobody wants", test_unwanted_gradients},
    {"tied layers", test_tied},
    {"evaluation, and weights copied from parts", test_evaluation_and_copy},
    {"dropout", test_dropout},
    {"too large", test_too_large},
    {"running state", test_state},
    {"an object that cannot be prepared", test_prepare_fails},
};
CHECK_MAIN("network", checks)
