#include "sim/occupancy.h"

#include "base/checked.h"

#include <stdlib.h>

/* Lives on the waiting actor's stack, linked into the lists of its processors. */
struct request {
    enum usage usage;
    uint32_t processor[2];
    size_t processors; /* 1 or 2 */
    struct request *next[2];
    struct gate *gate;
    uint64_t number; /* order of asking */
};

struct seat {
    uint64_t users;   /* granted */
    enum usage usage; /* when users > 0 */
    struct request *waiting;
};

struct occupancy {
    struct seat *seats;
    uint64_t asked;
};

struct occupancy *occupancy_create(size_t processors, struct error *error)
{
    struct occupancy *occupancy = checked_calloc(1, sizeof *occupancy);
    if (occupancy != NULL)
        occupancy->seats = checked_calloc(processors, sizeof *occupancy->seats);
    if (occupancy == NULL || occupancy->seats == NULL) {
        free(occupancy);
        error_memory(error, "occupancy");
        return NULL;
    }
    return occupancy;
}

void occupancy_free(struct occupancy *occupancy)
{
    if (occupancy != NULL)
        free(occupancy->seats);
    free(occupancy);
}

static bool conflict(enum usage a, enum usage b)
{
    return a == USAGE_COMPUTE || b == USAGE_COMPUTE;
}

static struct request **link_of(struct request *request, uint32_t processor)
{
    return &request->next[request->processor[0] == processor ? 0 : 1];
}

/* No holder and no earlier waiter of any of its processors conflicts with it. */
static bool grantable(const struct occupancy *occupancy, const struct request *request)
{
    for (size_t i = 0; i < request->processors; i++) {
        const struct seat *seat = &occupancy->seats[request->processor[i]];
        if (seat->users > 0 && conflict(seat->usage, request->usage))
            return false;
        for (struct request *other = seat->waiting;
             other != NULL && other->number < request->number;
             other = *link_of(other, request->processor[i]))
            if (conflict(other->usage, request->usage))
                return false;
    }
    return true;
}

static void take(struct occupancy *occupancy, const struct request *request)
{
    for (size_t i = 0; i < request->processors; i++) {
        struct seat *seat = &occupancy->seats[request->processor[i]];
        seat->users++;
        seat->usage = request->usage;
    }
}

static void enlist(struct occupancy *occupancy, struct request *request)
{
    for (size_t i = 0; i < request->processors; i++) {
        struct request **end = &occupancy->seats[request->processor[i]].waiting;
        while (*end != NULL)
            end = link_of(*end, request->processor[i]);
        *end = request;
    }
}

static void delist(struct occupancy *occupancy, struct request *request)
{
    for (size_t i = 0; i < request->processors; i++) {
        struct request **place = &occupancy->seats[request->processor[i]].waiting;
        while (*place != request)
            place = link_of(*place, request->processor[i]);
        *place = request->next[i];
    }
}

static struct request request_of(enum usage usage, uint32_t first, uint32_t second)
{
    return (struct request){.usage = usage,
                            .processor = {first, second},
                            .processors = first == second ? 1 : 2};
}

void occupancy_acquire(struct occupancy *occupancy, enum usage usage, uint32_t first,
                       uint32_t second, struct gate *gate)
{
    struct request request = request_of(usage, first, second);
    request.number = occupancy->asked++;
    request.gate = gate;
    if (grantable(occupancy, &request)) {
        take(occupancy, &request);
        return;
    }
    enlist(occupancy, &request);
    gate_wait(gate); /* whoever opens it has taken the seats for us */
}

/* Grants what the processor's list now allows, and, as each grant shortens other lists,
 * what those allow in turn. */
static void settle(struct occupancy *occupancy, uint32_t processor)
{
    struct request *request = occupancy->seats[processor].waiting;
    while (request != NULL) {
        if (!grantable(occupancy, request)) {
            request = *link_of(request, processor);
            continue;
        }
        uint32_t other = request->processor[request->processor[0] == processor ? 1 : 0];
        delist(occupancy, request);
        take(occupancy, request);
        gate_open(request->gate);
        if (other != processor)
            settle(occupancy, other);
        request = occupancy->seats[processor].waiting;
    }
}

void occupancy_release(struct occupancy *occupancy, enum usage usage, uint32_t first,
                       uint32_t second)
{
    struct request request = request_of(usage, first, second);
    for (size_t i = 0; i < request.processors; i++)
        occupancy->seats[request.processor[i]].users--;
    for (size_t i = 0; i < request.processors; i++)
        settle(occupancy, request.processor[i]);
}
