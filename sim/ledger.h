/* Every byte of every simulated processor's memory, by category, with its capacity. */
#ifndef PODSIM_SIM_LEDGER_H
#define PODSIM_SIM_LEDGER_H

#include "traces/event.h"

struct ledger;

/* The first time a processor needed more than it has. */
struct shortage {
    bool happened;
    uint32_t processor;
    enum memory_category category; /* what was asked for then */
    double time_s;
};

struct ledger *ledger_create(const struct trace_header *header, struct error *error);
void ledger_free(struct ledger *ledger);

/* Adds to or takes from a category; false when it would go below zero or above 2^64,
 * which is a mistake of the executor's. The event that tells of it comes back. */
bool ledger_add(struct ledger *ledger, uint32_t processor, enum memory_category category,
                uint64_t bytes, double now_s, struct event *event);
bool ledger_remove(struct ledger *ledger, uint32_t processor, enum memory_category category,
                   uint64_t bytes, double now_s, struct event *event);

uint64_t ledger_total(const struct ledger *ledger, uint32_t processor);
const struct shortage *ledger_shortage(const struct ledger *ledger);

#endif
