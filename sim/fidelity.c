#include "sim/fidelity.h"

#include "base/checked.h"
#include "sim/collective.h"

#include <math.h>
#include <stdlib.h>

const char *const fidelity_names[FIDELITY_COUNT] = {"auto", "message", "closed_form"};

enum { NOBODY = UINT32_MAX, MANY = UINT32_MAX - 1 };

struct usage {
    const struct plan *plan;
    struct platform *platform;
    uint32_t *user;  /* a link: an edge, NOBODY or MANY */
    uint32_t *other; /* a link that MANY use: a second one of them */
};

static bool limits(const struct link *link)
{
    return link->sharing == LINK_SHARED && !isinf(link->bandwidth_bytes_per_s);
}

static bool note_edge(struct usage *u, uint32_t index, struct error *error)
{
    const struct edge *edge = &u->plan->edges[index];
    struct route route;
    if (edge->from_processor == edge->to_processor)
        return true;
    if (!platform_route(u->platform, edge->from_processor, edge->to_processor, &route, error))
        return false;
    for (size_t i = 0; i < route.link_count; i++) {
        uint32_t *user = &u->user[route.links[i]];
        if (*user == NOBODY) {
            *user = index;
        } else if (*user != MANY && *user != index) {
            /* also of another collective of the same two: the last message of one may
             * still be under way when the next begins */
            u->other[route.links[i]] = index;
            *user = MANY;
        }
    }
    return true;
}

/* The first link of the edge that it shares; UINT32_MAX: none. */
static uint32_t shared_link(struct usage *u, uint32_t index)
{
    const struct edge *edge = &u->plan->edges[index];
    struct route route;
    struct error ignored; /* note_edge has found the route */
    if (edge->from_processor == edge->to_processor ||
        !platform_route(u->platform, edge->from_processor, edge->to_processor, &route,
                        &ignored))
        return UINT32_MAX;
    for (size_t i = 0; i < route.link_count; i++)
        if (u->user[route.links[i]] == MANY &&
            limits(platform_link(u->platform, route.links[i])))
            return route.links[i];
    return UINT32_MAX;
}

static bool refuse(const struct usage *u, uint32_t link, struct error *error)
{
    const struct edge *other = &u->plan->edges[u->other[link]];
    return error_set(error, STATUS_BAD_INPUT,
                     "fidelity: \"closed_form\" is not possible: link %s is shared (by %s from "
                     "%s to %s); \"auto\" simulates what is shared",
                     platform_link(u->platform, link)->name, payload_name(other->payload),
                     platform_processor(u->platform, other->from_processor)->name,
                     platform_processor(u->platform, other->to_processor)->name);
}

static bool judge(struct usage *u, enum fidelity fidelity, struct fidelity_map *map,
                  struct error *error)
{
    const struct plan *plan = u->plan;
    for (uint32_t e = 0; e < plan->edge_count; e++) {
        map->edge_alone[e] = shared_link(u, e) == UINT32_MAX;
        map->edges_alone += map->edge_alone[e];
    }
    for (size_t c = 0; c < plan->collective_count; c++) {
        const struct collective *collective = &plan->collectives[c];
        size_t slots = collective_slots(collective);
        bool alone = true;
        for (size_t i = 0; alone && i < slots; i++) {
            uint32_t edge = collective->edges[i];
            if (edge == PLAN_NONE || map->edge_alone[edge])
                continue;
            alone = false;
            if (fidelity == FIDELITY_CLOSED_FORM)
                return refuse(u, shared_link(u, edge), error);
        }
        map->collective_alone[c] = alone;
        map->collectives_alone += alone;
    }
    return true;
}

static bool find_users(struct usage *u, enum fidelity fidelity, struct fidelity_map *map,
                       struct error *error)
{
    size_t links = platform_link_count(u->platform);
    for (size_t i = 0; i < links; i++)
        u->user[i] = NOBODY;
    for (uint32_t e = 0; e < u->plan->edge_count; e++)
        if (!note_edge(u, e, error))
            return false;
    return judge(u, fidelity, map, error);
}

bool fidelity_map_make(const struct plan *plan, struct platform *platform,
                       enum fidelity fidelity, struct fidelity_map *map, struct error *error)
{
    size_t links = platform_link_count(platform);
    struct usage u = {plan, platform, checked_calloc(links, sizeof *u.user),
                      checked_calloc(links, sizeof *u.other)};
    *map = (struct fidelity_map){
        .edge_alone = checked_calloc(plan->edge_count, sizeof *map->edge_alone),
        .collective_alone =
            checked_calloc(plan->collective_count, sizeof *map->collective_alone)};
    bool made = u.user != NULL && u.other != NULL && map->edge_alone != NULL &&
                map->collective_alone != NULL;
    if (!made)
        error_memory(error, "fidelity");
    else if (fidelity != FIDELITY_MESSAGE)
        made = find_users(&u, fidelity, map, error);
    free(u.user);
    free(u.other);
    return made;
}

void fidelity_map_free(struct fidelity_map *map)
{
    free(map->edge_alone);
    free(map->collective_alone);
}
