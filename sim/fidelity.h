/* What may be worked out instead of being simulated message by message, because nothing
 * else can use the same links at the same time. Both give the same times. */
#ifndef PODSIM_SIM_FIDELITY_H
#define PODSIM_SIM_FIDELITY_H

#include "sim/plan.h"
#include "sim/platform.h"

enum fidelity { FIDELITY_AUTO, FIDELITY_MESSAGE, FIDELITY_CLOSED_FORM, FIDELITY_COUNT };
extern const char *const fidelity_names[FIDELITY_COUNT];

struct fidelity_map {
    bool *edge_alone;       /* an edge: its messages never share a link */
    bool *collective_alone; /* a collective: nor do those of its edges */
    size_t edges_alone, collectives_alone;
};

/* message: nothing is alone. closed_form: refuses a plan with a collective that is not,
 * naming the link and who shares it. */
bool fidelity_map_make(const struct plan *plan, struct platform *platform,
                       enum fidelity fidelity, struct fidelity_map *map,
                       struct error *error);
void fidelity_map_free(struct fidelity_map *map);

#endif
