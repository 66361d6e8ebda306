/* Sliding windows over images, shared by convolution and pooling: one sample's input is
 * [channels, height, width]; a window of kernel x kernel moves by stride over the input
 * with `padding` on every side. */
#ifndef PODSIM_ENGINE_LAYERS_WINDOW_H
#define PODSIM_ENGINE_LAYERS_WINDOW_H

#include "engine/layer.h"

struct window {
    size_t channels, height, width;      /* of the input */
    size_t out_height, out_width;
    size_t kernel, stride, padding;
};

/* Checks rank and fit and gives the output extents: (in + 2 padding - kernel) / stride + 1
 * each, rounded down. */
bool window_describe(const struct layer *layer, uint64_t kernel, uint64_t stride,
                     uint64_t padding, struct window *window, struct error *error);

/* Pools: their options in this order, and what their descriptions share: shapes, and a
 * padding of no more than half the window. */
enum { POOL_KERNEL, POOL_STRIDE, POOL_PADDING };
bool window_describe_pool(struct layer *layer, struct window *window, struct error *error);
/* Of a pool that has been described. */
struct window window_of_pool(const struct layer *layer);

/* The first and one past the last output column whose window has its column j inside the
 * image. */
void window_inside(const struct window *window, size_t j, size_t *first, size_t *end);

/* The columns of one sample's `channels` channels: columns[c * k * k + i * k + j][oy * ow +
 * ox], zero where the window hangs over the edge. */
void window_columns(const struct window *window, size_t channels, const scalar *image,
                    scalar *columns);
/* The transpose: adds every column entry to the pixel that it came from. */
void window_columns_back(const struct window *window, size_t channels,
                         const scalar *columns, scalar *image);

#endif
