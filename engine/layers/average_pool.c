/* Mean over windows; padding counts as zeros. Keeps nothing. */
#include "engine/layers/window.h"

#include <string.h>

static bool describe(struct layer *layer, struct error *error)
{
    struct window w;
    if (!window_describe_pool(layer, &w, error))
        return false;
    layer->backward_input_flops = layer->forward_flops;
    return true;
}

/* The rows (or columns) [first, end) of the image under output row `o`. */
static void reach(size_t o, const struct window *w, size_t extent, size_t *first, size_t *end)
{
    size_t low = o * w->stride, high = low + w->kernel;
    *first = low > w->padding ? low - w->padding : 0;
    *end = high - w->padding < extent ? high - w->padding : extent;
}

static void forward(const struct layer *layer, const struct layer_call *call)
{
    struct window w = window_of_pool(layer);
    const scalar share = 1 / (scalar)(w.kernel * w.kernel);
    scalar *out = call->output;
    for (size_t c = 0; c < call->batch * w.channels; c++) {
        const scalar *pixels = call->input[0] + c * w.height * w.width;
        for (size_t oy = 0; oy < w.out_height; oy++)
            for (size_t ox = 0; ox < w.out_width; ox++) {
                size_t y0, y1, x0, x1;
                scalar sum = 0;
                reach(oy, &w, w.height, &y0, &y1);
                reach(ox, &w, w.width, &x0, &x1);
                for (size_t y = y0; y < y1; y++)
                    for (size_t x = x0; x < x1; x++)
                        sum += pixels[y * w.width + x];
                *out++ = sum * share;
            }
    }
}

static void backward(const struct layer *layer, const struct layer_call *call)
{
    struct window w = window_of_pool(layer);
    const scalar share = 1 / (scalar)(w.kernel * w.kernel);
    const scalar *dy = call->d_output;
    size_t image = w.height * w.width;
    if (call->d_input[0] == NULL)
        return;
    for (size_t c = 0; c < call->batch * w.channels; c++) {
        scalar *dx = call->d_input[0] + c * image;
        if (!call->accumulate[0])
            memset(dx, 0, image * sizeof *dx);
        for (size_t oy = 0; oy < w.out_height; oy++)
            for (size_t ox = 0; ox < w.out_width; ox++) {
                size_t y0, y1, x0, x1;
                scalar each = *dy++ * share;
                reach(oy, &w, w.height, &y0, &y1);
                reach(ox, &w, w.width, &x0, &x1);
                for (size_t y = y0; y < y1; y++)
                    for (size_t x = x0; x < x1; x++)
                        dx[y * w.width + x] += each;
            }
    }
}

const struct layer_kind layer_average_pool = {
    .name = "average_pool",
    .summary = "mean over windows",
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
