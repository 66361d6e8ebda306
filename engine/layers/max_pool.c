/* Maximum over windows; padding never wins. Keeps, for every output, the place of its
 * maximum (the first of equals) as a scalar, exact up to 2^24. */
#include "engine/layers/window.h"

#include <string.h>

enum { KERNEL, STRIDE, PADDING };

static bool describe(struct layer *layer, struct error *error)
{
    struct window w;
    uint64_t kernel = layer_size(layer, KERNEL), padding = layer_size(layer, PADDING);
    if (!window_describe(layer, kernel, layer_size(layer, STRIDE), padding, &w, error))
        return false;
    if (2 * padding > kernel)
        return error_set(error, STATUS_BAD_INPUT,
                         "padding %llu is more than half of the window of %llu",
                         (unsigned long long)padding, (unsigned long long)kernel);
    if ((uint64_t)w.height * w.width > 1u << 24)
        return error_set(error, STATUS_BAD_INPUT, "images of more than 2^24 pixels");
    layer->output_shape = (struct shape){3, {w.channels, w.out_height, w.out_width}};
    layer->operation = OPERATION_MEMORY;
    uint64_t count = shape_count(&layer->output_shape);
    layer->stash_count = count;
    layer->forward_flops = layer_multiply(count, kernel * kernel);
    layer->backward_input_flops = count;
    return true;
}

/* The place of the window's largest pixel in its channel. */
static size_t largest(const struct window *w, const scalar *pixels, size_t oy, size_t ox)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < w->kernel; i++)
        for (size_t j = 0; j < w->kernel; j++) {
            size_t y = oy * w->stride + i - w->padding, x = ox * w->stride + j - w->padding;
            if (y >= w->height || x >= w->width) /* also below 0, which wraps */
                continue;
            size_t place = y * w->width + x;
            if (best == SIZE_MAX || pixels[place] > pixels[best])
                best = place;
        }
    return best;
}

static struct window window_of(const struct layer *layer)
{
    struct window window = {0};
    struct error ignored; /* describe has checked it */
    window_describe(layer, layer_size(layer, KERNEL), layer_size(layer, STRIDE),
                    layer_size(layer, PADDING), &window, &ignored);
    return window;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct window w = window_of(layer);
    size_t at = 0;
    for (size_t c = 0; c < call->batch * w.channels; c++) {
        const scalar *pixels = call->input[0] + c * w.height * w.width;
        for (size_t y = 0; y < w.out_height; y++)
            for (size_t x = 0; x < w.out_width; x++, at++) {
                size_t place = largest(&w, pixels, y, x);
                call->output[at] = pixels[place];
                call->stash[at] = (scalar)place;
            }
    }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct window w = window_of(layer);
    size_t image = w.height * w.width, area = w.out_height * w.out_width;
    if (call->d_input[0] == NULL)
        return;
    for (size_t c = 0; c < call->batch * w.channels; c++) {
        scalar *dx = call->d_input[0] + c * image;
        if (!call->accumulate[0])
            memset(dx, 0, image * sizeof *dx);
        for (size_t p = 0; p < area; p++)
            dx[(size_t)call->stash[c * area + p]] += call->d_output[c * area + p];
    }
}

const struct layer_kind layer_max_pool = {
    .name = "max_pool",
    .summary = "maximum over windows",
    .min_inputs = 1,
    .max_inputs = 1,
    .options = {{"kernel", true, true, 0, 1, 1024},
                {"stride", true, true, 0, 1, 1024},
                {"padding", false, true, 0, 0, 1024},
                {0}},
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
