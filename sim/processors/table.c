/* Measured seconds for each layer and pass. An entry is a number, which holds for any
 * size of work, or a list of [flops, seconds] points, between which it is interpolated. */
#include "base/checked.h"
#include "sim/platform_keys.h"
#include "sim/processors/kinds.h"
#include "sim/rate.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    char *name; /* of a layer or of a kind of layer */
    bool is_kind;
    size_t pass;
    struct curve seconds;
};

struct table {
    struct entry *entries;
    size_t count, capacity;
};

static const char *const keys[] = {"layers", "kinds"};

/* Places in platform_pass_keys. */
enum { PASS_FORWARD = 0, PASS_RECOMPUTE = 1 };

static bool add_entry(struct table *table, const char *name, bool is_kind, size_t pass,
                      const struct json_at *at, struct error *error)
{
    if (!checked_grow((void **)&table->entries, &table->capacity, table->count + 1,
                      sizeof(*table->entries)))
        return error_memory(error, "table of measured seconds");
    struct entry *entry = &table->entries[table->count++];
    *entry = (struct entry){.name = strdup(name), .is_kind = is_kind, .pass = pass};
    if (entry->name == NULL)
        return error_memory(error, "table of measured seconds");
    return curve_read(at, 1e9, &entry->seconds, error);
}

static bool read_entries(const struct json_at *at, const char *key, bool is_kind,
                         struct table *table, struct error *error)
{
    struct json_at section, row, cell;
    if (!json_optional(at, key, &section))
        return true;
    if (!json_is_object(&section))
        return json_fail(&section, error, "must be an object");
    for (size_t i = 0; json_entry(&section, i, &row); i++) {
        if (!platform_check_keys(&row, &platform_pass_keys, NULL, 0, error))
            return false;
        for (size_t pass = 0; pass < platform_pass_keys.count; pass++)
            if (json_optional(&row, platform_pass_keys.keys[pass], &cell) &&
                !add_entry(table, row.key, is_kind, pass, &cell, error))
                return false;
    }
    return true;
}

static bool table_read(const struct json_at *at, struct processor *processor,
                       struct error *error)
{
    struct table *table = checked_calloc(1, sizeof(*table));
    if (table == NULL)
        return error_memory(error, "processor");
    processor->parameters = table;
    if (!read_entries(at, "layers", false, table, error) ||
        !read_entries(at, "kinds", true, table, error))
        return false;
    return table->count > 0 ||
           json_fail(at, error, "has no measured seconds in \"layers\" or \"kinds\"");
}

static void table_release(void *parameters)
{
    struct table *table = parameters;
    for (size_t i = 0; i < table->count; i++) {
        free(table->entries[i].name);
        curve_release(&table->entries[i].seconds);
    }
    free(table->entries);
    free(table);
}

static const struct entry *find(const struct table *table, const char *name, bool is_kind,
                                size_t pass)
{
    for (size_t i = 0; name != NULL && i < table->count; i++)
        if (table->entries[i].is_kind == is_kind && table->entries[i].pass == pass &&
            strcmp(table->entries[i].name, name) == 0)
            return &table->entries[i];
    return NULL;
}

/* The layer's own measurement, else its kind's; a recomputation is a forward pass. */
static const struct entry *look_up(const struct table *table, const struct work *work)
{
    size_t pass = 0;
    while (pass < platform_pass_keys.count &&
           strcmp(platform_pass_keys.keys[pass], work->pass) != 0)
        pass++;
    const struct entry *entry = find(table, work->layer_name, false, pass);
    if (entry == NULL)
        entry = find(table, work->layer_kind, true, pass);
    if (entry == NULL && pass == PASS_RECOMPUTE)
        entry = find(table, work->layer_name, false, PASS_FORWARD);
    if (entry == NULL && pass == PASS_RECOMPUTE)
        entry = find(table, work->layer_kind, true, PASS_FORWARD);
    return entry;
}

static bool table_seconds(const struct processor *processor, const struct work *work,
                          double *seconds, struct error *error)
{
    const struct table *table = processor->parameters;
    const struct entry *entry = look_up(table, work);
    const char *name = work->layer_name != NULL ? work->layer_name : "?";
    const char *kind = work->layer_kind != NULL ? work->layer_kind : "?";
    if (entry == NULL)
        return error_set(error, STATUS_BAD_INPUT,
                         "no measured seconds for %s of layer %s (kind %s)", work->pass,
                         name, kind);
    const struct curve *curve = &entry->seconds;
    double flops = (double)work->flops;
    if (curve->count > 1 && (flops < curve->x[0] || flops > curve->x[curve->count - 1]))
        return error_set(error, STATUS_BAD_INPUT,
                         "%s of layer %s: %.17g FLOPs are outside the measured %g to %g",
                         work->pass, name, flops, curve->x[0], curve->x[curve->count - 1]);
    *seconds = curve_value(curve, flops, false);
    return true;
}

const struct processor_kind processor_table = {
    .name = "table",
    .summary = "measured seconds for each layer and pass",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .overlap = false,
    .read = table_read,
    .release = table_release,
    .seconds = table_seconds,
};
