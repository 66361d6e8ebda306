#include "analysis/summary.h"

#include "base/checked.h"

#include <math.h>
#include <stdlib.h>

static bool add_waits(cJSON *item, const struct trace_totals *totals, size_t processor)
{
    cJSON *waits = cJSON_AddObjectToObject(item, "waiting_s");
    for (size_t w = 0; waits != NULL && w < totals->wait_count; w++) {
        double wait_s = totals->waits[w].wait_s[processor];
        if (wait_s > 0 && !summary_add_number(waits, totals->waits[w].name, wait_s))
            return false;
    }
    return waits != NULL;
}

static cJSON *add_processor(cJSON *list, const struct trace_header *header,
                            const struct trace_totals *totals, size_t processor)
{
    const struct trace_processor_total *total = &totals->processors[processor];
    cJSON *item = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, item) ||
        !cJSON_AddStringToObject(item, "processor", header->processors[processor].name) ||
        !summary_add_number(item, "computing_s", total->busy_s) ||
        !summary_add_number(item, "communicating_s", total->exchange_s) ||
        !add_waits(item, totals, processor) ||
        !summary_add_number(item, "idle_s", total->idle_s) ||
        !summary_add_number(item, "sending_s", total->transfer_s) ||
        !summary_add_u64(item, "flops", total->flops) ||
        cJSON_AddArrayToObject(item, "parts") == NULL)
        return NULL;
    return item;
}

static bool add_part(cJSON *processor, const struct plan *plan,
                     const struct trace_header *header, const struct part *part)
{
    const struct copy *copy = &plan->copies[part->copy];
    cJSON *item = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(processor, "parts"), item) ||
        !summary_add_u64(item, "model", copy->model) ||
        !summary_add_u64(item, "replica", copy->shard) ||
        !summary_add_u64(item, "stage", part->stage) ||
        !summary_add_u64(item, "rank", part->rank) ||
        !cJSON_AddBoolToObject(item, "teacher", part->teacher))
        return false;
    return part->first_layer >= part->end_layer ||
           (cJSON_AddStringToObject(item, "first_layer",
                                    header->layer_names[part->first_layer]) != NULL &&
            cJSON_AddStringToObject(item, "last_layer",
                                    header->layer_names[part->end_layer - 1]) != NULL);
}

bool summary_add_processors(cJSON *object, const struct plan *plan,
                            const struct trace_header *header,
                            const struct trace_totals *totals)
{
    cJSON *list = cJSON_AddArrayToObject(object, "processor_time");
    cJSON **items = checked_calloc(header->processor_count, sizeof *items);
    bool added = list != NULL && items != NULL;
    for (size_t i = 0; added && i < header->processor_count; i++)
        if (plan->main_stream[i] != PLAN_NONE)
            added = (items[i] = add_processor(list, header, totals, i)) != NULL;
    for (size_t p = 0; added && p < plan->part_count; p++) {
        cJSON *item = items[plan->parts[p].processor];
        added = item == NULL || add_part(item, plan, header, &plan->parts[p]);
    }
    free(items);
    return added;
}

/* What went over a link: all bytes of every edge whose route it is part of, as in
 * links.csv. The sum over all edges is known to fit, and no route has a link twice. */
static void add_up_links(const struct trace_header *header,
                         const struct trace_totals *totals, struct trace_edge_total *links)
{
    for (size_t e = 0; e < header->edge_count; e++)
        for (size_t i = 0; i < header->edges[e].link_count; i++) {
            struct trace_edge_total *link = &links[header->edges[e].links[i]];
            link->bytes += totals->edges[e].bytes;
            link->messages += totals->edges[e].messages;
        }
}

static bool add_link(cJSON *list, const struct trace_link *link,
                     const struct trace_edge_total *total, double time_s)
{
    double could = link->bandwidth_bytes_per_s * time_s;
    double utilisation = could > 0 && isfinite(could) ? (double)total->bytes / could : 0;
    cJSON *item = cJSON_CreateObject();
    return cJSON_AddItemToArray(list, item) &&
           cJSON_AddStringToObject(item, "link", link->name) != NULL &&
           summary_add_u64(item, "bytes", total->bytes) &&
           summary_add_u64(item, "messages", total->messages) &&
           summary_add_number(item, "utilisation", utilisation);
}

bool summary_add_links(cJSON *object, const struct trace_header *header,
                       const struct trace_totals *totals)
{
    struct trace_edge_total *links = checked_calloc(header->link_count, sizeof *links);
    cJSON *list = cJSON_AddArrayToObject(object, "links");
    bool added = links != NULL && list != NULL;
    if (added)
        add_up_links(header, totals, links);
    for (size_t i = 0; added && i < header->link_count; i++)
        if (links[i].messages > 0)
            added = add_link(list, &header->links[i], &links[i], totals->time_s);
    free(links);
    return added;
}
