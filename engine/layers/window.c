#include "engine/layers/window.h"

bool window_describe(const struct layer *layer, uint64_t kernel, uint64_t stride,
                     uint64_t padding, struct window *window, struct error *error)
{
    const struct shape *in = &layer->input_shape[0];
    char text[64];
    shape_text(in, text);
    if (in->rank != 3)
        return error_set(error, STATUS_BAD_INPUT,
                         "takes images [channels, height, width], but its input is %s", text);
    uint64_t height = in->extent[1] + 2 * padding, width = in->extent[2] + 2 * padding;
    if (height < kernel || width < kernel)
        return error_set(error, STATUS_BAD_INPUT,
                         "a window of %llux%llu with padding %llu does not fit into %s",
                         (unsigned long long)kernel, (unsigned long long)kernel,
                         (unsigned long long)padding, text);
    *window = (struct window){.channels = (size_t)in->extent[0],
                              .height = (size_t)in->extent[1],
                              .width = (size_t)in->extent[2],
                              .out_height = (size_t)((height - kernel) / stride + 1),
                              .out_width = (size_t)((width - kernel) / stride + 1),
                              .kernel = (size_t)kernel,
                              .stride = (size_t)stride,
                              .padding = (size_t)padding};
    return true;
}

bool window_describe_pool(struct layer *layer, struct window *window, struct error *error)
{
    uint64_t kernel = layer_size(layer, POOL_KERNEL), padding = layer_size(layer, POOL_PADDING);
    if (!window_describe(layer, kernel, layer_size(layer, POOL_STRIDE), padding, window, error))
        return false;
    if (2 * padding > kernel)
        return error_set(error, STATUS_BAD_INPUT,
                         "padding %llu is more than half of the window of %llu",
                         (unsigned long long)padding, (unsigned long long)kernel);
    layer->output_shape =
        (struct shape){3, {window->channels, window->out_height, window->out_width}};
    layer->operation = OPERATION_MEMORY;
    layer->forward_flops =
        layer_multiply(shape_count(&layer->output_shape), kernel * kernel);
    return true;
}

struct window window_of_pool(const struct layer *layer)
{
    struct window window = {0};
    struct error ignored; /* its description has been checked */
    window_describe(layer, layer_size(layer, POOL_KERNEL), layer_size(layer, POOL_STRIDE),
                    layer_size(layer, POOL_PADDING), &window, &ignored);
    return window;
}

void window_inside(const struct window *w, size_t j, size_t *first, size_t *end)
{
    size_t low = w->padding > j ? w->padding - j : 0;
    *first = (low + w->stride - 1) / w->stride;
    size_t high = w->width + w->padding; /* ox * stride + j < high */
    *end = high > j ? (high - j + w->stride - 1) / w->stride : 0;
    if (*end > w->out_width)
        *end = w->out_width;
    if (*first > *end)
        *first = *end;
}

static void column_row(const struct window *w, const scalar *restrict pixels, size_t j,
                       scalar *restrict row)
{
    size_t first, end;
    window_inside(w, j, &first, &end);
    for (size_t x = 0; x < first; x++)
        row[x] = 0;
    const scalar *from = pixels + j; /* the pixel of ox is at ox * stride - padding */
    if (w->stride == 1)
        for (size_t x = first; x < end; x++)
            row[x] = from[x - w->padding];
    else
        for (size_t x = first; x < end; x++)
            row[x] = from[x * w->stride - w->padding];
    for (size_t x = end; x < w->out_width; x++)
        row[x] = 0;
}

void window_columns(const struct window *w, size_t channels, const scalar *image,
                    scalar *columns)
{
    size_t area = w->out_height * w->out_width;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < w->kernel; i++)
            for (size_t j = 0; j < w->kernel; j++) {
                scalar *out = columns + ((c * w->kernel + i) * w->kernel + j) * area;
                for (size_t y = 0; y < w->out_height; y++) {
                    size_t pixel = y * w->stride + i;
                    bool outside = pixel < w->padding || pixel >= w->height + w->padding;
                    if (outside)
                        for (size_t x = 0; x < w->out_width; x++)
                            out[y * w->out_width + x] = 0;
                    else
                        column_row(w,
                                   image + (c * w->height + pixel - w->padding) * w->width, j,
                                   out + y * w->out_width);
                }
            }
}

void window_columns_back(const struct window *w, size_t channels, const scalar *columns,
                         scalar *image)
{
    size_t area = w->out_height * w->out_width;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < w->kernel; i++)
            for (size_t j = 0; j < w->kernel; j++) {
                const scalar *in = columns + ((c * w->kernel + i) * w->kernel + j) * area;
                size_t first, end;
                window_inside(w, j, &first, &end);
                for (size_t y = 0; y < w->out_height; y++) {
                    size_t pixel = y * w->stride + i;
                    if (pixel < w->padding || pixel >= w->height + w->padding)
                        continue;
                    scalar *row = image + (c * w->height + pixel - w->padding) * w->width;
                    for (size_t x = first; x < end; x++)
                        row[x * w->stride + j - w->padding] += in[y * w->out_width + x];
                }
            }
}
