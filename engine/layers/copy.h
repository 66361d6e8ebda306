/* What layers do that pass their input on as it is. */
#ifndef PODSIM_ENGINE_LAYERS_COPY_H
#define PODSIM_ENGINE_LAYERS_COPY_H

#include "engine/layer.h"

void copy_forward(const struct layer *layer, const struct layer_call *call);
void copy_backward(const struct layer *layer, const struct layer_call *call);

#endif
