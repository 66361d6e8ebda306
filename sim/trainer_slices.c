/* Between a whole model and the ranks that each hold a slice of it. */
#include "sim/trainer_internal.h"

#include <string.h>

bool trainer_make_whole(struct trainer *t, uint64_t seed, struct error *error)
{
    const struct network_options options = {.model = t->options.model,
                                            .end_layer = t->options.model->layer_count,
                                            .batch = 1,
                                            .slots = 1,
                                            .seed = seed};
    if (t->whole != NULL && t->whole_seed == seed)
        return true;
    network_free(t->whole);
    t->whole = network_create(&options, error);
    t->whole_seed = seed;
    return t->whole != NULL;
}

static const struct network_tensor *find_tensor(const struct network *network, size_t layer,
                                                size_t tensor)
{
    size_t count;
    const struct network_tensor *tensors = network_tensors(network, &count);
    for (size_t i = 0; i < count; i++)
        if (tensors[i].layer == layer && tensors[i].tensor == tensor)
            return &tensors[i];
    return NULL;
}

/* Of one tensor of the part, from or to its place in the whole one. */
static void copy_slice(struct trainer *t, uint32_t part, const struct model_slice *slice,
                       struct network *whole, bool give)
{
    struct network *network = t->parts[part].network;
    const struct network_tensor *own = find_tensor(network, slice->layer, slice->tensor);
    const struct network_tensor *all =
        find_tensor(whole, slice->whole_layer, slice->whole_tensor);
    if (own == NULL || all == NULL)
        return;
    size_t inner = (size_t)slice->inner, rank = t->plan->parts[part].rank;
    size_t stride = slice->replicated ? inner : inner * t->plan->slice_ranks;
    scalar *mine = network_parameters(network, NULL) + own->offset;
    scalar *theirs = network_parameters(whole, NULL) + all->offset +
                     (slice->replicated ? 0 : rank * inner);
    for (size_t i = 0; i < slice->outer; i++, mine += inner, theirs += stride)
        memcpy(give ? theirs : mine, give ? mine : theirs, inner * sizeof *mine);
}

static void copy_slices(struct trainer *t, uint32_t part, struct network *whole, bool give)
{
    for (size_t i = 0; i < t->plan->slice_count; i++)
        copy_slice(t, part, &t->plan->slices[i], whole, give);
}

void trainer_take_slices(struct trainer *t, uint32_t part)
{
    network_copy_weights(t->parts[part].network, t->whole);
    copy_slices(t, part, t->whole, false);
}

void trainer_give_slices(struct trainer *t, uint32_t part)
{
    network_copy_weights(t->evaluation, t->parts[part].network);
    copy_slices(t, part, t->evaluation, true);
}
