/* In training each element is zeroed with probability `rate` and the others are divided
 * by 1 - rate. The mask is drawn from the sample's key, so that backward, and a forward
 * pass that is done again, draw the same one: it need not be kept. */
#include "engine/layer.h"

#include "base/random.h"

#include <string.h>

enum { RATE };

static bool describe(struct layer *layer, struct error *error)
{
    (void)error;
    layer->output_shape = layer->input_shape[0];
    layer->operation = OPERATION_ELEMENTWISE;
    layer->forward_flops = shape_count(&layer->output_shape);
    layer->backward_input_flops = layer->forward_flops;
    return true;
}

static struct random_stream stream_of(const struct layer_call *call, size_t sample)
{
    /* A step's batch has fewer than 2^32 samples. */
    uint64_t number = call->first_sample + sample;
    return random_stream((struct random_key){.seed = call->seed,
                                             .purpose = RANDOM_DROPOUT,
                                             .a = call->identity,
                                             .b = call->step << 32 ^ number});
}

/* out = or += in * mask, for all samples. */
static void mask(const struct layer *layer, const struct layer_call *call,
                 const scalar *restrict in, scalar *restrict out, bool accumulate)
{
    size_t count = (size_t)shape_count(&layer->output_shape);
    double rate = layer->option[RATE];
    scalar keep = (scalar)(1 / (1 - rate));
    uint64_t threshold = (uint64_t)(rate * 0x1p32);
    for (size_t s = 0; s < call->batch; s++) {
        struct random_stream stream = stream_of(call, s);
        for (size_t i = 0; i < count; i += 4) {
            uint32_t bits[4];
            random_stream_bits(&stream, i / 4, bits);
            for (size_t k = 0; k < 4 && i + k < count; k++) {
                size_t at = s * count + i + k;
                scalar value = bits[k] >= threshold ? keep * in[at] : 0;
                out[at] = accumulate ? out[at] + value : value;
            }
        }
    }
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    size_t count = call->batch * (size_t)shape_count(&layer->output_shape);
    if (call->training)
        mask(layer, call, call->input[0], call->output, false);
    else
        memcpy(call->output, call->input[0], count * sizeof(scalar));
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    if (call->d_input[0] != NULL)
        mask(layer, call, call->d_output, call->d_input[0], call->accumulate[0]);
}

const struct layer_kind layer_dropout = {
    .name = "dropout",
    .summary = "zeroes elements at random in training",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"rate", true, false, 0, 0, 0.999}, {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
