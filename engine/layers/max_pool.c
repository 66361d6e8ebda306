/* Maximum over windows; padding never wins. Keeps, for every output, the place of its
 * maximum (the first of equals) as a scalar, exact up to 2^24. */
#include "engine/layers/window.h"

#include <math.h>
#include <string.h>

static bool describe(struct layer *layer, struct error *error)
{
    struct window w;
    if (!window_describe_pool(layer, &w, error))
        return false;
    if ((uint64_t)w.height * w.width > 1u << 24)
        return error_set(error, STATUS_BAD_INPUT, "images of more than 2^24 pixels");
    layer->stash_count = shape_count(&layer->output_shape);
    layer->backward_input_flops = layer->stash_count;
    return true;
}

/* The pixels that an output row's windows have at one column of theirs, from x on. */
static void compare_row(const scalar *restrict pixels, size_t count, size_t stride,
                        scalar place, scalar *restrict best, scalar *restrict places)
{
    for (size_t x = 0; x < count; x++) {
        scalar pixel = pixels[x * stride], here = place + (scalar)(int)(x * stride);
        bool better = (pixel > best[x]) | (pixel != pixel); /* a NaN goes through */
        best[x] = better ? pixel : best[x];
        places[x] = better ? here : places[x];
    }
}

static void output_row(const struct window *w, const scalar *pixels, size_t oy, scalar *best,
                       scalar *places)
{
    size_t low = oy * w->stride, top = low > w->padding ? low - w->padding : 0;
    for (size_t x = 0; x < w->out_width; x++) {
        size_t left = x * w->stride > w->padding ? x * w->stride - w->padding : 0;
        best[x] = -INFINITY;
        places[x] = (scalar)(top * w->width + left);
    }
    for (size_t i = 0; i < w->kernel; i++) {
        if (low + i < w->padding || low + i >= w->height + w->padding)
            continue;
        for (size_t j = 0; j < w->kernel; j++) {
            size_t first, end, row = (low + i - w->padding) * w->width;
            window_inside(w, j, &first, &end);
            if (first == end)
                continue;
            size_t place = row + first * w->stride + j - w->padding;
            compare_row(pixels + place, end - first, w->stride, (scalar)place, best + first,
                        places + first);
        }
    }
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct window w = window_of_pool(layer);
    scalar *best = call->output, *places = call->stash;
    for (size_t c = 0; c < call->batch * w.channels; c++)
        for (size_t y = 0; y < w.out_height; y++) {
            output_row(&w, call->input[0] + c * w.height * w.width, y, best, places);
            best += w.out_width;
            places += w.out_width;
        }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct window w = window_of_pool(layer);
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
