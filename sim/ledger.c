#include "sim/ledger.h"

#include "base/checked.h"

#include <stdlib.h>

struct account {
    uint64_t bytes[MEMORY_CATEGORIES];
    uint64_t total;
};

struct ledger {
    const struct trace_header *header;
    struct account *accounts;
    struct shortage shortage;
};

struct ledger *ledger_create(const struct trace_header *header, struct error *error)
{
    struct ledger *ledger = checked_calloc(1, sizeof *ledger);
    if (ledger != NULL) {
        ledger->header = header;
        ledger->accounts = checked_calloc(header->processor_count, sizeof *ledger->accounts);
    }
    if (ledger == NULL || ledger->accounts == NULL) {
        free(ledger);
        error_memory(error, "memory ledger");
        return NULL;
    }
    return ledger;
}

void ledger_free(struct ledger *ledger)
{
    if (ledger != NULL)
        free(ledger->accounts);
    free(ledger);
}

static void tell(const struct ledger *ledger, uint32_t processor,
                 enum memory_category category, double now_s, struct event *event)
{
    const struct account *account = &ledger->accounts[processor];
    *event = (struct event){.kind = EVENT_MEMORY,
                            .name = memory_category_name(category),
                            .processor = processor,
                            .layer = EVENT_NONE,
                            .edge = EVENT_NONE,
                            .start_s = now_s,
                            .end_s = now_s,
                            .bytes = account->bytes[category],
                            .memory_after_bytes = account->total,
                            .category = category};
}

bool ledger_add(struct ledger *ledger, uint32_t processor, enum memory_category category,
                uint64_t bytes, double now_s, struct event *event)
{
    struct account *account = &ledger->accounts[processor];
    if (!checked_add(account->total, bytes, &account->total))
        return false;
    account->bytes[category] += bytes;
    uint64_t capacity = ledger->header->processors[processor].memory_capacity_bytes;
    if (account->total > capacity && !ledger->shortage.happened)
        ledger->shortage = (struct shortage){true, processor, category, now_s};
    tell(ledger, processor, category, now_s, event);
    return true;
}

bool ledger_remove(struct ledger *ledger, uint32_t processor, enum memory_category category,
                   uint64_t bytes, double now_s, struct event *event)
{
    struct account *account = &ledger->accounts[processor];
    if (account->bytes[category] < bytes)
        return false;
    account->bytes[category] -= bytes;
    account->total -= bytes;
    tell(ledger, processor, category, now_s, event);
    return true;
}

uint64_t ledger_total(const struct ledger *ledger, uint32_t processor)
{
    return ledger->accounts[processor].total;
}

const struct shortage *ledger_shortage(const struct ledger *ledger)
{
    return &ledger->shortage;
}
