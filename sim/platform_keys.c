#include "sim/platform_keys.h"

#include "sim/processor.h"
#include "sim/topology.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEY_SET(set, text, ...)                                                            \
    static const char *const set##_list[] = {__VA_ARGS__};                                 \
    const struct key_set platform_##set##_keys = {                                         \
        text, set##_list, sizeof(set##_list) / sizeof(set##_list[0])}

KEY_SET(root, "platform", "$schema", "name", "description", "processors", "topology",
        "host", "trouble");
KEY_SET(processor, "processor", "name", "count", "kind", "memory_bytes", "overlap",
        "sync_s", "slowdown", "power");
KEY_SET(power, "power", "idle_watts", "busy_watts", "joules_per_byte");
KEY_SET(memory, "memory", "bytes", "bandwidth_bytes_per_s");
KEY_SET(exchange, "exchange", "bandwidth_bytes_per_s", "fraction", "sync_s");
KEY_SET(link, "link", "bandwidth_bytes_per_s", "latency_s", "count", "efficiency",
        "reverse_bandwidth_bytes_per_s", "reverse_latency_s");
KEY_SET(joint, "joint", "bandwidth_bytes_per_s", "latency_s", "count", "efficiency",
        "reverse_bandwidth_bytes_per_s", "reverse_latency_s", "from", "to", "between",
        "name", "sharing");
KEY_SET(host, "host", "name", "bandwidth_bytes_per_s", "latency_s", "processors_per_link");
KEY_SET(trouble, "trouble", "seed", "stragglers", "links", "failures");
KEY_SET(straggler, "straggler", "processor", "slowdown", "probability", "window_s");
KEY_SET(degradation, "degradation", "link", "factor", "from_s", "until_s");
KEY_SET(failure, "failure", "processor", "link", "at_s", "until_s");

KEY_SET(pass, "passes", "forward", "recompute", "loss", "backward", "backward_input",
        "backward_weight", "update");

static const char *const notes[] = {"source", "assumed"};
enum { NOTES = sizeof(notes) / sizeof(notes[0]) };

bool platform_check_keys(const struct json_at *at, const struct key_set *set,
                         const char *const *further, size_t further_count,
                         struct error *error)
{
    const char *keys[PLATFORM_MAX_KEYS];
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        keys[count++] = set->keys[i];
    for (size_t i = 0; i < further_count; i++)
        keys[count++] = further[i];
    for (size_t i = 0; i < NOTES; i++)
        keys[count++] = notes[i];
    if (!json_keys(at, keys, count, error))
        return false;
    for (size_t i = 0; i < NOTES; i++) {
        struct json_at note;
        const char *text;
        if (json_optional(at, notes[i], &note) && !json_string(&note, &text, error))
            return false;
    }
    return true;
}

static size_t copy_keys(const char **keys, size_t count, const char *const *from,
                        size_t add)
{
    for (size_t i = 0; i < add; i++)
        keys[count + i] = from[i];
    return count + add;
}

/* Keys that are names from elsewhere: of number formats and of operation classes. */
static bool borrowed_set(size_t index, char name[64], const char **keys, size_t *count)
{
    snprintf(name, 64, "%s", index == 0 ? "peak" : "efficiency");
    *count = 0;
    for (size_t i = 0; index == 0 && i < FORMAT_COUNT; i++)
        keys[(*count)++] = number_format_names[i];
    for (size_t i = 0; index == 1 && i < OPERATION_CLASSES; i++)
        keys[(*count)++] = operation_class_name((enum operation_class)i);
    if (index == 1)
        keys[(*count)++] = "other";
    return index < 2;
}

bool platform_key_set(size_t index, char name[64], const char *keys[PLATFORM_MAX_KEYS],
                      size_t *count)
{
    static const struct key_set *const sets[] = {
        &platform_root_keys,        &platform_power_keys,   &platform_memory_keys,
        &platform_exchange_keys,    &platform_link_keys,    &platform_joint_keys,
        &platform_host_keys,        &platform_trouble_keys, &platform_straggler_keys,
        &platform_degradation_keys, &platform_failure_keys, &platform_pass_keys};
    enum { SETS = sizeof(sets) / sizeof(sets[0]) };
    static const char *const topology_common[] = {"kind"};

    if (index < SETS) {
        snprintf(name, 64, "%s", sets[index]->name);
        *count = copy_keys(keys, 0, sets[index]->keys, sets[index]->count);
        return true;
    }
    index -= SETS;
    if (index < processor_kind_count()) {
        const struct processor_kind *kind = processor_kind_get(index);
        snprintf(name, 64, "processor_%s", kind->name);
        *count = copy_keys(keys, 0, processor_list, platform_processor_keys.count);
        *count = copy_keys(keys, *count, kind->keys, kind->key_count);
        return true;
    }
    index -= processor_kind_count();
    if (index < topology_kind_count()) {
        const struct topology_kind *kind = topology_kind_get(index);
        snprintf(name, 64, "topology_%s", kind->name);
        *count = copy_keys(keys, 0, topology_common, 1);
        *count = copy_keys(keys, *count, kind->keys, kind->key_count);
        return true;
    }
    return borrowed_set(index - topology_kind_count(), name, keys, count);
}

bool platform_positive(const struct json_at *at, double maximum, double *value,
                       struct error *error)
{
    if (!json_number(at, 0, maximum, value, error))
        return false;
    return *value > 0 || json_fail(at, error, "must be above 0");
}

bool platform_member_positive(const struct json_at *object, const char *key, double maximum,
                              double *value, struct error *error)
{
    struct json_at member;
    return json_member(object, key, &member, error) &&
           platform_positive(&member, maximum, value, error);
}

bool platform_name_read(const struct json_at *at, const char **name, struct error *error)
{
    enum { MAX_NAME = 40 };
    if (!json_string(at, name, error))
        return false;
    size_t length = strlen(*name);
    if (length == 0 || length > MAX_NAME)
        return json_fail(at, error, "must have 1 to %d characters, not %zu", (int)MAX_NAME,
                         length);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)(*name)[i];
        if (c <= ' ' || c == 127 || c == '>' || c == '<' || c == '"' || c == ',')
            return json_fail(at, error,
                             "must not contain spaces, commas, quotes or angle brackets");
    }
    return true;
}
