/* One layer with arrays of its own, called directly. */
#ifndef PODSIM_TESTS_LAYER_BENCH_H
#define PODSIM_TESTS_LAYER_BENCH_H

#include "tests/check.h"

#include "base/checked.h"
#include "base/random.h"
#include "engine/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct layer_case {
    const char *kind;
    struct option_value options[LAYER_MAX_OPTIONS + 1];
    size_t batch;
    size_t input_count;
    struct shape inputs[LAYER_MAX_INPUTS];
    uint64_t vocabulary; /* > 0: the first input is token numbers and has no gradient */
};

/* All arrays begin random but the state. */
struct bench {
    const struct layer_case *from;
    struct layer layer;
    size_t input_size[LAYER_MAX_INPUTS], output_size, stash_size;
    scalar *input[LAYER_MAX_INPUTS], *d_input[LAYER_MAX_INPUTS];
    scalar *parameter[LAYER_MAX_TENSORS], *d_parameter[LAYER_MAX_TENSORS];
    scalar *output, *d_output, *state, *stash, *work;
    void *prepared;
};

static scalar *bench_array(size_t count)
{
    scalar *a = checked_calloc_aligned(count, sizeof *a);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    return a;
}

static void bench_fill(scalar *values, size_t count, uint32_t a, double centre)
{
    struct random_key key = {1, RANDOM_TEST, a, 0};
    for (size_t i = 0; i < count; i++)
        values[i] = (scalar)(centre + 2 * random_uniform(key, i) - 1);
}

static void bench_open_arrays(struct bench *b)
{
    struct layer *layer = &b->layer;
    for (size_t i = 0; i < layer->input_count; i++) {
        b->input_size[i] = b->from->batch * shape_count(&layer->input_shape[i]);
        b->input[i] = bench_array(b->input_size[i]);
        b->d_input[i] = bench_array(b->input_size[i]);
        bench_fill(b->input[i], b->input_size[i], (uint32_t)i, 0);
        for (size_t k = 0; i == 0 && b->from->vocabulary > 0 && k < b->input_size[i]; k++)
            b->input[i][k] = (scalar)floor(((double)b->input[i][k] + 1) / 2 *
                                           (double)b->from->vocabulary);
    }
    for (size_t i = 0; i < layer->tensor_count; i++) {
        b->parameter[i] = bench_array(layer->tensor[i].count);
        b->d_parameter[i] = bench_array(layer->tensor[i].count);
        bench_fill(b->parameter[i], layer->tensor[i].count, (uint32_t)(10 + i), 0.25);
    }
    b->output_size = b->from->batch * shape_count(&layer->output_shape);
    b->stash_size = b->from->batch * layer->stash_count + layer->stash_fixed_count;
    b->output = bench_array(b->output_size);
    b->d_output = bench_array(b->output_size);
    bench_fill(b->d_output, b->output_size, 20, 0);
    b->state = bench_array(layer->state_count);
    b->stash = bench_array(b->stash_size);
    b->work = bench_array(
        layer->kind->work_count ? layer->kind->work_count(layer, b->from->batch) : 0);
    if (layer->kind->init_state != NULL)
        layer->kind->init_state(layer, b->state);
}

static void bench_options(struct layer *layer, const struct option_value *given)
{
    const struct layer_option *known = layer->kind->options;
    for (size_t i = 0; known[i].name != NULL; i++)
        layer->option[i] = known[i].fallback;
    for (; given->name != NULL; given++) {
        size_t i = 0;
        while (known[i].name != NULL && strcmp(known[i].name, given->name) != 0)
            i++;
        CU_ASSERT_PTR_NOT_NULL_FATAL(known[i].name);
        layer->option[i] = given->value;
    }
}

static bool bench_open(struct bench *b, const struct layer_case *from)
{
    struct error error;
    *b = (struct bench){.from = from};
    struct layer *layer = &b->layer;
    *layer = (struct layer){.kind = layer_kind_find(from->kind),
                            .name = "tried",
                            .identity = 7,
                            .tied_to = SIZE_MAX,
                            .input_count = from->input_count};
    CU_ASSERT_PTR_NOT_NULL_FATAL(layer->kind);
    for (size_t i = 0; i < from->input_count; i++)
        layer->input_shape[i] = from->inputs[i];
    bench_options(layer, from->options);
    bool good = layer_describe(layer, &error);
    if (!good)
        printf("\n  %s: %s\n", from->kind, error.message);
    CU_ASSERT_TRUE_FATAL(good);
    bench_open_arrays(b);
    return layer->kind->prepare == NULL ||
           layer->kind->prepare(layer, from->batch, &b->prepared, &error);
}

static void bench_close(struct bench *b)
{
    for (size_t i = 0; i < LAYER_MAX_INPUTS; i++) {
        free(b->input[i]);
        free(b->d_input[i]);
    }
    for (size_t i = 0; i < LAYER_MAX_TENSORS; i++) {
        free(b->parameter[i]);
        free(b->d_parameter[i]);
    }
    free(b->output);
    free(b->d_output);
    free(b->state);
    free(b->stash);
    free(b->work);
    if (b->prepared != NULL)
        b->layer.kind->release(b->prepared);
}

static struct layer_call bench_call_of(const struct bench *b)
{
    struct layer_call call = {.batch = b->from->batch,
                              .training = true,
                              .stash = b->stash,
                              .work = b->work,
                              .prepared = b->prepared,
                              .seed = 3,
                              .step = 5,
                              .first_sample = 8,
                              .identity = b->layer.identity};
    for (size_t i = 0; i < b->layer.tensor_count; i++)
        call.parameter[i] = b->parameter[i];
    return call;
}

static void bench_forward(struct bench *b)
{
    struct layer_call call = bench_call_of(b);
    for (size_t i = 0; i < b->layer.input_count; i++)
        call.input[i] = b->input[i];
    call.output = b->output;
    call.state = b->layer.state_count > 0 ? b->state : NULL;
    b->layer.kind->forward(&b->layer, &call);
}

static bool bench_has_gradient(const struct bench *b, size_t input)
{
    return input > 0 || b->from->vocabulary == 0;
}

/* What the layer did not say that it keeps is not given to it. */
static void bench_backward(struct bench *b, bool inputs, bool weights, bool accumulate)
{
    struct layer_call call = bench_call_of(b);
    call.d_output = b->d_output;
    if (b->layer.keeps_output)
        call.output = b->output;
    for (size_t i = 0; i < b->layer.input_count; i++) {
        if (b->layer.keeps_input[i])
            call.input[i] = b->input[i];
        call.d_input[i] = inputs && bench_has_gradient(b, i) ? b->d_input[i] : NULL;
        call.accumulate[i] = accumulate;
    }
    for (size_t i = 0; i < b->layer.tensor_count && weights; i++)
        call.d_parameter[i] = b->d_parameter[i];
    b->layer.kind->backward(&b->layer, &call);
}

#endif
