/* Codistillation: what its file and that of its edges share. */
#ifndef PODSIM_SIM_METHODS_CODISTILLATION_H
#define PODSIM_SIM_METHODS_CODISTILLATION_H

#include "sim/method.h"

enum exchange { EXCHANGE_PREDICTIONS, EXCHANGE_CHECKPOINTS };
enum codistillation_topology { TOPOLOGY_ALL, TOPOLOGY_RING, TOPOLOGY_HIERARCHICAL };

struct codistillation {
    uint64_t models;
    struct method *inner;
    enum exchange exchange;
    uint64_t period; /* steps from one exchange to the next */
    enum codistillation_topology topology;
    uint64_t group; /* models of a group, where hierarchical */
    struct teaching teaching;
    bool own_data;
    bool same_initialization;
    struct optimizer_options decays; /* only its weight decay schedule */
    uint64_t queue_capacity;
};

/* Ties two copies of the model together: what the one computes pulls the other. */
bool codistillation_link(const struct codistillation *codistillation, struct plan *plan,
                         uint32_t teacher, uint32_t pupil, struct error *error);

#endif
