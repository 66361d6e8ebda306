/* Meshes and tori of any dimensions, for the kinds that are one: line, ring, mesh, torus.
 * Endpoints are numbered with the last dimension running fastest. */
#ifndef PODSIM_SIM_TOPOLOGIES_GRID_H
#define PODSIM_SIM_TOPOLOGIES_GRID_H

#include "sim/topology.h"

enum { GRID_MAX_RANK = 8 };

struct grid {
    size_t rank;
    uint64_t extent[GRID_MAX_RANK];
    size_t stride[GRID_MAX_RANK];
    bool wrap; /* the ends of each dimension are linked, when it has more than two */
};

/* Reads "dimensions", "link" or "links" (one for each dimension) and builds. */
bool grid_build(const struct json_at *at, struct platform *platform, struct fabric *fabric,
                bool wrap, struct error *error);
/* One dimension; reads "link". */
bool grid_build_chain(const struct json_at *at, struct platform *platform,
                      struct fabric *fabric, bool wrap, struct error *error);
/* Dimension after dimension, the first first; in a torus the shorter way round, upwards
 * when both are equal. */
bool grid_route(struct platform *platform, const struct fabric *fabric, size_t from,
                size_t to, struct path *path, struct error *error);
/* Halving d cuts the d-th dimension of even extent. */
bool grid_halve(const struct fabric *fabric, size_t halving, size_t endpoint, bool *upper);
void grid_place(const struct platform *platform, const struct fabric *fabric,
                struct box box, struct point *points);

#endif
