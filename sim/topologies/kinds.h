/* The topology kinds, one a file. */
#ifndef PODSIM_SIM_TOPOLOGIES_KINDS_H
#define PODSIM_SIM_TOPOLOGIES_KINDS_H

#include "sim/topology.h"

extern const struct topology_kind topology_line;
extern const struct topology_kind topology_ring;
extern const struct topology_kind topology_mesh;
extern const struct topology_kind topology_torus;
extern const struct topology_kind topology_full;
extern const struct topology_kind topology_ladder;
extern const struct topology_kind topology_switch;
extern const struct topology_kind topology_fat_tree;
extern const struct topology_kind topology_dragonfly;
extern const struct topology_kind topology_hierarchical;
extern const struct topology_kind topology_links;

#endif
