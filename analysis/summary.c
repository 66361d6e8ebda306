#include "analysis/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool summary_add_u64(cJSON *object, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    return cJSON_AddRawToObject(object, key, digits) != NULL;
}

/* Raw items become numbers when a summary has been printed and parsed again; sizes above
 * 2^53 lose their last digits there, which only tables for people read. */
uint64_t summary_u64(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (cJSON_IsRaw(item))
        return strtoull(item->valuestring, NULL, 10);
    return cJSON_IsNumber(item) && item->valuedouble > 0 ? (uint64_t)item->valuedouble : 0;
}

double summary_number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

const char *summary_string(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

bool summary_add_number(cJSON *object, const char *key, double value)
{
    char digits[40];
    if (!isfinite(value))
        return cJSON_AddNullToObject(object, key) != NULL;
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    return cJSON_AddRawToObject(object, key, digits) != NULL;
}

static bool add_edges(cJSON *object, const struct plan *plan,
                      const struct trace_header *header, const struct trace_totals *totals)
{
    cJSON *list = cJSON_AddArrayToObject(object, "edges");
    for (size_t i = 0; list != NULL && i < header->edge_count; i++) {
        const struct trace_edge *edge = &header->edges[i];
        if (edge->from == edge->to)
            continue; /* inside a processor nothing is moved */
        cJSON *item = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(list, item) ||
            !cJSON_AddStringToObject(item, "from", header->processors[edge->from].name) ||
            !cJSON_AddStringToObject(item, "to", header->processors[edge->to].name) ||
            !cJSON_AddStringToObject(item, "payload",
                                     payload_name(plan->edges[i].payload)) ||
            !summary_add_u64(item, "bytes", totals->edges[i].bytes) ||
            !summary_add_u64(item, "messages", totals->edges[i].messages) ||
            !summary_add_number(item, "transfer_s", totals->edges[i].transfer_s))
            return false;
    }
    return list != NULL;
}

static bool add_processor_memory(cJSON *list, const struct trace_processor *processor,
                                 const struct trace_processor_total *total)
{
    cJSON *item = cJSON_CreateObject(), *categories;
    if (!cJSON_AddItemToArray(list, item) ||
        !cJSON_AddStringToObject(item, "processor", processor->name) ||
        !summary_add_u64(item, "peak_bytes", total->peak_bytes) ||
        !summary_add_number(item, "peak_time_s", total->peak_s) ||
        !summary_add_u64(item, "capacity_bytes", processor->memory_capacity_bytes) ||
        (categories = cJSON_AddObjectToObject(item, "at_peak_bytes")) == NULL)
        return false;
    for (int c = 0; c < MEMORY_CATEGORIES; c++)
        if (!summary_add_u64(categories, memory_category_name((enum memory_category)c),
                             total->at_peak_bytes[c]))
            return false;
    return true;
}

/* The processors that the method uses, in the platform's order. */
static bool add_memory(cJSON *object, const struct plan *plan,
                       const struct trace_header *header, const struct trace_totals *totals)
{
    cJSON *list = cJSON_AddArrayToObject(object, "memory");
    for (size_t i = 0; list != NULL && i < header->processor_count; i++) {
        bool used = plan->main_stream[i] != PLAN_NONE;
        if (used &&
            !add_processor_memory(list, &header->processors[i], &totals->processors[i]))
            return false;
    }
    return list != NULL;
}

static bool add_shortage(cJSON *object, const struct trace_header *header,
                         const struct execution_result *result,
                         const struct trace_totals *totals)
{
    const struct shortage *shortage = &result->shortage;
    if (!cJSON_AddBoolToObject(object, "fits", !shortage->happened))
        return false;
    if (!shortage->happened)
        return true;
    /* The processor that lacks most, for the category that holds most at its peak. */
    uint32_t worst = shortage->processor;
    uint64_t most = 0;
    for (uint32_t i = 0; i < header->processor_count; i++) {
        uint64_t peak = totals->processors[i].peak_bytes;
        uint64_t capacity = header->processors[i].memory_capacity_bytes;
        if (peak > capacity && peak - capacity > most) {
            most = peak - capacity;
            worst = i;
        }
    }
    int largest = 0;
    for (int c = 1; c < MEMORY_CATEGORIES; c++)
        if (totals->processors[worst].at_peak_bytes[c] >
            totals->processors[worst].at_peak_bytes[largest])
            largest = c;
    cJSON *item = cJSON_AddObjectToObject(object, "shortage");
    return item != NULL &&
           cJSON_AddStringToObject(item, "processor", header->processors[worst].name) &&
           summary_add_u64(item, "lacks_bytes", most) &&
           cJSON_AddStringToObject(item, "largest_category",
                                   memory_category_name((enum memory_category)largest)) &&
           cJSON_AddStringToObject(item, "first_asked_for",
                                   memory_category_name(shortage->category)) &&
           summary_add_number(item, "first_time_s", shortage->time_s);
}

static double last_value(const struct learning_series *series)
{
    return series->count > 0 ? series->points[series->count - 1].value : NAN;
}

/* A training loss that is no number any more. */
static bool diverged(const struct learning *learning)
{
    return learning->loss.count > 0 && !isfinite(last_value(&learning->loss));
}

static double time_to_target_s(const struct experiment *e, const struct learning *learning)
{
    for (size_t i = 0; i < learning->accuracy.count; i++)
        if (learning->accuracy.points[i].value >= e->target_accuracy)
            return learning->accuracy.points[i].time_s;
    return NAN;
}

static bool add_curve(cJSON *object, const struct learning *learning)
{
    cJSON *list = cJSON_AddArrayToObject(object, "curve");
    for (size_t i = 0; list != NULL && i < learning->accuracy.count; i++) {
        const struct learning_point *point = &learning->accuracy.points[i];
        cJSON *item = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(list, item) ||
            !summary_add_u64(item, "step", point->step) ||
            !summary_add_number(item, "time_s", point->time_s) ||
            !summary_add_number(item, "accuracy", point->value) ||
            !summary_add_number(item, "test_loss", learning->test_loss.points[i].value))
            return false;
    }
    return list != NULL;
}

/* Fractions are of time_s x the processors that the method uses. */
static double busy_fraction(const struct plan *plan, const struct trace_header *header,
                            const struct trace_totals *totals)
{
    double busy_s = 0;
    for (size_t i = 0; i < header->processor_count; i++)
        busy_s += totals->processors[i].busy_s;
    size_t used = plan_processors_used(plan);
    return totals->time_s > 0 && used > 0 ? busy_s / (totals->time_s * (double)used) : 0;
}

/* Between processors, or from the host. */
static struct trace_edge_total moved(const struct trace_header *header,
                                     const struct trace_totals *totals, bool host)
{
    struct trace_edge_total sum = {0};
    for (size_t i = 0; i < header->edge_count; i++)
        if ((header->edges[i].from == header->edges[i].to) == host) {
            sum.bytes += totals->edges[i].bytes;
            sum.messages += totals->edges[i].messages;
        }
    return sum;
}

static bool add_energy(cJSON *object, const struct experiment *e, const struct plan *plan,
                       const struct trace_header *header, const struct trace_totals *totals)
{
    double joules = 0;
    for (size_t i = 0; i < header->processor_count; i++) {
        const struct power *power = &platform_processor(e->platform, i)->power;
        if (plan->main_stream[i] == PLAN_NONE)
            continue;
        double busy_s = totals->processors[i].busy_s;
        joules += power->known ? busy_s * power->busy_watts +
                                     (totals->time_s - busy_s) * power->idle_watts
                               : (double)NAN;
    }
    for (size_t i = 0; i < header->edge_count; i++)
        joules +=
            (double)totals->edges[i].bytes *
            platform_processor(e->platform, header->edges[i].from)->power.joules_per_byte;
    return summary_add_number(object, "energy_j", joules);
}

static bool add_totals(cJSON *object, const struct experiment *e, const struct plan *plan,
                       const struct trace_header *header, const struct trace_totals *totals)
{
    const struct trace_edge_total between = moved(header, totals, false);
    double steps = (double)e->steps;
    double samples = steps * (double)plan->batch;
    return summary_add_u64(object, "processors", plan_processors_used(plan)) &&
           summary_add_u64(object, "steps", e->steps) &&
           summary_add_number(object, "time_s", totals->time_s) &&
           summary_add_number(object, "time_per_step_s", totals->time_s / steps) &&
           summary_add_number(object, "samples_per_s",
                              totals->time_s > 0 ? samples / totals->time_s : INFINITY) &&
           summary_add_u64(object, "bytes_total", between.bytes) &&
           (between.bytes % e->steps == 0
                ? summary_add_u64(object, "bytes_per_step", between.bytes / e->steps)
                : summary_add_number(object, "bytes_per_step",
                                     (double)between.bytes / steps)) &&
           summary_add_u64(object, "messages", between.messages) &&
           summary_add_u64(object, "host_bytes", moved(header, totals, true).bytes) &&
           add_energy(object, e, plan, header, totals);
}

/* What was worked out instead of simulated message by message. */
static bool add_fidelity(cJSON *object, const struct experiment *e, const struct plan *plan,
                         const struct execution_result *result)
{
    cJSON *item = cJSON_AddObjectToObject(object, "fidelity");
    return item != NULL &&
           cJSON_AddStringToObject(item, "asked", fidelity_names[e->fidelity]) &&
           summary_add_u64(item, "edges", plan->edge_count) &&
           summary_add_u64(item, "edges_closed_form", result->edges_alone) &&
           summary_add_u64(item, "collectives", plan->collective_count) &&
           summary_add_u64(item, "collectives_closed_form", result->collectives_alone) &&
           summary_add_u64(item, "steps_simulated", result->simulated_steps);
}

static bool fill(cJSON *object, const struct experiment *e, size_t method,
                 const struct trace_header *header, const struct execution_result *result,
                 const struct trace_totals *totals, const struct learning *learning)
{
    const struct plan *plan = e->plans[method];
    bool learned = e->numerics && !result->shortage.happened;
    return cJSON_AddStringToObject(object, "name", plan->name) &&
           cJSON_AddStringToObject(object, "kind", plan->kind) &&
           add_totals(object, e, plan, header, totals) &&
           add_fidelity(object, e, plan, result) &&
           add_shortage(object, header, result, totals) &&
           (result->note[0] == '\0' ||
            cJSON_AddStringToObject(object, "note", result->note) != NULL) &&
           summary_add_number(object, "busy_fraction",
                              busy_fraction(plan, header, totals)) &&
           cJSON_AddBoolToObject(object, "diverged", learned && diverged(learning)) !=
               NULL &&
           summary_add_number(object, "loss",
                              learned ? last_value(&learning->loss) : NAN) &&
           summary_add_number(
               object, "accuracy",
               learned && !diverged(learning) ? last_value(&learning->accuracy) : NAN) &&
           summary_add_number(object, "test_loss",
                              learned ? last_value(&learning->test_loss) : NAN) &&
           summary_add_u64(object, "test_predictions",
                           e->has_data ? e->data.samples[DATASET_TEST] * e->data.labels
                                       : 0) &&
           summary_add_number(object, "target_accuracy", e->target_accuracy) &&
           summary_add_number(object, "time_to_target_s",
                              learned ? time_to_target_s(e, learning) : NAN) &&
           add_edges(object, plan, header, totals) &&
           add_memory(object, plan, header, totals) &&
           summary_add_processors(object, plan, header, totals) &&
           summary_add_links(object, header, totals) && add_curve(object, learning);
}

cJSON *summary_of_method(const struct experiment *experiment, size_t method,
                         const struct trace_header *header,
                         const struct execution_result *result,
                         const struct trace_totals *totals, const struct learning *learning)
{
    cJSON *object = cJSON_CreateObject();
    if (object != NULL &&
        !fill(object, experiment, method, header, result, totals, learning)) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

cJSON *summary_of_stopped(const struct plan *plan, const char *message)
{
    cJSON *object = cJSON_CreateObject();
    if (object != NULL && cJSON_AddStringToObject(object, "name", plan->name) != NULL &&
        cJSON_AddStringToObject(object, "kind", plan->kind) != NULL &&
        summary_add_u64(object, "processors", plan_processors_used(plan)) &&
        cJSON_AddStringToObject(object, "stopped", message) != NULL)
        return object;
    cJSON_Delete(object);
    return NULL;
}

cJSON *summary_of_experiment(const struct experiment *e, cJSON *methods)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *resolved = cJSON_Duplicate(json_file_tree(e->file), true);
    if (object == NULL || resolved == NULL || !json_exact_numbers(resolved) ||
        !cJSON_AddStringToObject(object, "podsim", PODSIM_VERSION) ||
        !summary_add_u64(object, "seed", e->seed) ||
        !cJSON_AddBoolToObject(object, "numerics", e->numerics) ||
        !cJSON_AddItemToObject(object, "experiment", resolved) ||
        !cJSON_AddItemToObject(object, "methods", methods)) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

/* cJSON indents by tabs; raw text goes in as it is. */
char *summary_text(const cJSON *method)
{
    char *text = cJSON_Print(method);
    size_t lines = 0, at = 0;
    for (const char *c = text; c != NULL && *c != '\0'; c++)
        lines += *c == '\n';
    char *indented = text == NULL ? NULL : cJSON_malloc(strlen(text) + 2 * lines + 1);
    for (const char *c = text; indented != NULL && *c != '\0'; c++) {
        indented[at++] = *c;
        if (*c == '\n') {
            indented[at++] = '\t';
            indented[at++] = '\t';
        }
    }
    if (indented != NULL)
        indented[at] = '\0';
    cJSON_free(text);
    return indented;
}

cJSON *summary_parsed(const cJSON *raw_list)
{
    cJSON *list = cJSON_CreateArray();
    const cJSON *raw;
    cJSON_ArrayForEach(raw, raw_list) {
        cJSON *item = cJSON_Parse(raw->valuestring);
        if (!cJSON_AddItemToArray(list, item)) {
            cJSON_Delete(item);
            cJSON_Delete(list);
            return NULL;
        }
    }
    return list;
}

bool summary_write(const cJSON *summary, const char *directory, struct error *error)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/summary.json", directory) >= (int)sizeof path)
        return error_set(error, STATUS_BAD_INPUT, "%.200s...: the path is too long",
                         directory);
    char *text = cJSON_Print(summary);
    if (text == NULL)
        return error_memory(error, "summary");
    FILE *file = fopen(path, "w");
    bool written = file != NULL && fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    written = file != NULL && fclose(file) == 0 && written;
    cJSON_free(text);
    return written || error_set(error, STATUS_HOST, "%s: cannot be written", path);
}
