/* What leaves a part's network as a message and enters another's. */
#include "sim/trainer_internal.h"

#include "sim/collective.h"

#include <string.h>

static void copy_values(struct trainer *t, uint32_t part, size_t slot, const size_t *values,
                        size_t count, bool gradients, scalar *message, bool out)
{
    struct network *network = t->parts[part].network;
    for (size_t i = 0; i < count; i++) {
        size_t size = (size_t)(shape_count(model_value_shape(t->plan->model, values[i])) *
                               t->plan->micro_batch);
        scalar *own = gradients ? network_gradient(network, slot, values[i])
                                : network_value(network, slot, values[i]);
        memcpy(out ? message : own, out ? own : message, size * sizeof *own);
        message += size;
    }
}

/* What the edge carries, as the part at one of its ends sees it. */
static void copy_message(struct trainer *t, uint32_t edge, uint32_t part,
                         uint64_t micro_batch, scalar *message, bool out)
{
    const struct trainer_part *own = &t->parts[part];
    size_t slot = slot_of(t, part, micro_batch);
    enum payload payload = t->plan->edges[edge].payload;
    bool forward = payload == PAYLOAD_ACTIVATIONS;
    if (payload == PAYLOAD_PREDICTIONS)
        copy_values(t, part, slot, &t->plan->parts[part].logits_value, 1, false, message, out);
    else if (forward && out)
        copy_values(t, part, slot, own->crossing_out, own->crossing_out_count, false,
                    message, true);
    else if (forward)
        copy_values(t, part, slot, own->crossing_in, own->crossing_in_count, false, message,
                    false);
    else if (out)
        copy_values(t, part, slot, own->gradient_in, own->gradient_in_count, true, message,
                    true);
    else
        copy_values(t, part, slot, own->gradient_out, own->gradient_out_count, true, message,
                    false);
}

/* All parameters of the part at one end of the edge, to or from the message. */
static void copy_parameters(struct trainer *t, uint32_t part, scalar *message, bool out)
{
    size_t count;
    scalar *own = network_parameters(t->parts[part].network, &count);
    memcpy(out ? message : own, out ? own : message, count * sizeof *own);
}

void trainer_pack(struct trainer *t, uint32_t edge, uint64_t micro_batch, scalar *message)
{
    const struct edge *e = &t->plan->edges[edge];
    if (e->payload == PAYLOAD_SIGNAL)
        return;
    if (e->payload == PAYLOAD_PARAMETERS) {
        copy_parameters(t, e->from_part, message, true);
        return;
    }
    copy_message(t, edge, e->from_part, micro_batch, message, true);
    const struct rounding *format = emulated(t, t->plan->precision.activations);
    if (format != NULL)
        rounding_nearest(format, message, (size_t)e->message_count);
}

static void unpack_predictions(struct trainer *t, uint32_t edge, const scalar *message)
{
    uint32_t part = t->plan->edges[edge].to_part;
    const struct part *p = &t->plan->parts[part];
    for (size_t i = 0; i < p->teacher_count; i++)
        if (p->teacher_edges[i] == edge) {
            memcpy(t->parts[part].teachers[i], message,
                   (size_t)t->plan->edges[edge].message_count * sizeof *message);
            t->parts[part].present[i] = true;
        }
}

void trainer_unpack(struct trainer *t, uint32_t edge, uint64_t micro_batch,
                    const scalar *message)
{
    const struct edge *e = &t->plan->edges[edge];
    scalar *from = (scalar *)(uintptr_t)message; /* read, not written to */
    if (e->payload == PAYLOAD_SIGNAL)
        return;
    if (e->payload == PAYLOAD_PREDICTIONS)
        unpack_predictions(t, edge, message);
    else if (e->payload == PAYLOAD_PARAMETERS)
        copy_parameters(t, e->to_part, from, false);
    else
        copy_message(t, edge, e->to_part, micro_batch, from, false);
}

void trainer_join(struct trainer *t, uint32_t part, uint64_t micro_batch)
{
    t->parts[part].joined_slot = slot_of(t, part, micro_batch);
}

static scalar *collective_array(struct trainer *t, const struct collective *c, uint32_t rank)
{
    struct network *network = t->parts[c->parts[rank]].network;
    size_t slot = t->parts[c->parts[rank]].joined_slot;
    if (c->activations)
        return network_value(network, slot, c->value);
    if (c->activation_gradients)
        return network_gradient(network, slot, c->value);
    return c->parameters ? network_parameters(network, NULL)
                         : network_parameter_gradients(network);
}

void trainer_pack_piece(struct trainer *t, const struct collective *c, uint32_t rank,
                        uint64_t first, uint64_t count, scalar *message)
{
    /* Rounded in place, so that who sends and who receives hold the same. */
    scalar *own = collective_array(t, c, rank) + first;
    const struct rounding *format = emulated(t, collective_format(t->plan, c));
    if (format != NULL)
        rounding_nearest(format, own, (size_t)count);
    memcpy(message, own, (size_t)count * sizeof *message);
}

void trainer_unpack_piece(struct trainer *t, const struct collective *c, uint32_t rank,
                          uint64_t first, uint64_t count, bool add, const scalar *message)
{
    scalar *own = collective_array(t, c, rank) + first;
    if (!add) {
        memcpy(own, message, (size_t)count * sizeof *own);
        return;
    }
    for (size_t i = 0; i < count; i++)
        own[i] += message[i];
}

static scalar *tied_array(struct trainer *t, const struct tied_part *tied)
{
    return network_parameter_gradients(t->parts[tied->part].network) + tied->first;
}

void trainer_gather_tied(struct trainer *t, const struct collective *c, uint32_t rank)
{
    scalar *own = collective_array(t, c, rank) + collective_first(c, rank);
    for (size_t k = 0; k < c->tied_count; k++) {
        const scalar *other = tied_array(t, &c->tied[k]);
        for (size_t i = 0; c->tied[k].rank == rank && i < c->count; i++)
            own[i] += other[i];
    }
}

void trainer_share_tied(struct trainer *t, const struct collective *c, uint32_t rank)
{
    const scalar *own = collective_array(t, c, rank) + collective_first(c, rank);
    for (size_t k = 0; k < c->tied_count; k++)
        if (c->tied[k].rank == rank)
            memcpy(tied_array(t, &c->tied[k]), own, (size_t)c->count * sizeof *own);
}

void trainer_average(struct trainer *t, const struct collective *c, uint32_t rank)
{
    scalar *own = collective_array(t, c, rank) + collective_first(c, rank);
    for (size_t i = 0; i < c->count; i++)
        own[i] /= (scalar)c->ranks;
}

void trainer_clear(struct trainer *t, const struct collective *c, uint32_t rank)
{
    scalar *own = collective_array(t, c, rank) + collective_first(c, rank);
    uint64_t first, count;
    collective_piece(c->count, c->ranks, rank, &first, &count);
    memset(own, 0, (size_t)first * sizeof *own);
    memset(own + first + count, 0, (size_t)(c->count - first - count) * sizeof *own);
}
