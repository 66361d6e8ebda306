#include "sim/processor.h"

#include "sim/platform_keys.h"
#include "sim/processors/kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct processor_kind *const kinds[] = {
    &processor_ipu,
    &processor_roofline,
    &processor_table,
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

size_t processor_kind_count(void)
{
    return KINDS;
}

const struct processor_kind *processor_kind_get(size_t index)
{
    return index < KINDS ? kinds[index] : NULL;
}

static bool read_kind(const struct json_at *at, const struct processor_kind **kind,
                      struct error *error)
{
    const char *names[KINDS];
    struct json_at member;
    size_t chosen = 0;
    for (size_t i = 0; i < KINDS; i++)
        names[i] = kinds[i]->name;
    if (!json_member(at, "kind", &member, error) ||
        !json_choice(&member, names, KINDS, &chosen, error))
        return false;
    *kind = kinds[chosen];
    return true;
}

static bool read_power(const struct json_at *at, struct power *power, struct error *error)
{
    struct json_at member;
    if (!json_optional(at, "power", &member))
        return true;
    power->known = true;
    if (!platform_check_keys(&member, &platform_power_keys, NULL, 0, error) ||
        !json_read_number(&member, "idle_watts", 0, 1e9, &power->idle_watts, error) ||
        !platform_member_positive(&member, "busy_watts", 1e9, &power->busy_watts, error) ||
        !json_read_number(&member, "joules_per_byte", 0, 1e3, &power->joules_per_byte,
                          error))
        return false;
    return power->busy_watts >= power->idle_watts ||
           json_fail(&member, error, "busy_watts %g is below idle_watts %g",
                     power->busy_watts, power->idle_watts);
}

static bool read_name(const struct json_at *at, struct processor *processor,
                      struct error *error)
{
    struct json_at member;
    const char *name = "processor";
    if (json_optional(at, "name", &member)) {
        if (!platform_name_read(&member, &name, error))
            return false;
    } else if (!json_read_string(at, "name", &name, error)) {
        return false;
    }
    snprintf(processor->name, sizeof(processor->name), "%s", name);
    snprintf(processor->group, sizeof(processor->group), "%s", name);
    return true;
}

static bool read_common(const struct json_at *at, struct processor *processor,
                        struct error *error)
{
    struct json_at member;
    processor->overlap = processor->kind->overlap;
    processor->slowdown = 1;
    if (!read_name(at, processor, error))
        return false;
    if (json_optional(at, "memory_bytes", &member) &&
        !json_u64(&member, 1, UINT64_MAX, &processor->memory_bytes, error))
        return false;
    if (!json_read_boolean(at, "overlap", &processor->overlap, error) ||
        !json_read_number(at, "sync_s", 0, 1e6, &processor->sync_s, error) ||
        !read_power(at, &processor->power, error))
        return false;
    if (processor->overlap && processor->sync_s > 0)
        return json_fail(at, error, "sync_s has no effect when overlap is true");
    if (json_optional(at, "slowdown", &member))
        return platform_positive(&member, 1e6, &processor->slowdown, error);
    return json_read_number(at, "slowdown", 0, 1e6, &processor->slowdown, error);
}

bool processor_read(const struct json_at *at, struct processor *processor,
                    uint64_t maximum_count, uint64_t *count, bool *numbered,
                    struct error *error)
{
    struct json_at member;
    *processor = (struct processor){0};
    *count = 1;
    *numbered = json_optional(at, "count", &member);
    if (!read_kind(at, &processor->kind, error) ||
        !platform_check_keys(at, &platform_processor_keys, processor->kind->keys,
                             processor->kind->key_count, error) ||
        (*numbered && !json_u64(&member, 1, maximum_count, count, error)) ||
        !read_common(at, processor, error) || !processor->kind->read(at, processor, error))
        return false;
    return processor->memory_bytes > 0 ||
           json_fail(at, error, "the key \"memory_bytes\" is missing");
}

void processor_release(struct processor *processor)
{
    if (processor->kind != NULL && processor->parameters != NULL)
        processor->kind->release(processor->parameters);
    processor->parameters = NULL;
}

bool processor_seconds(const struct processor *processor, const struct work *work,
                       double *seconds, struct error *error)
{
    if (!processor->kind->seconds(processor, work, seconds, error))
        return error_prefix(error, "processor %s", processor->name);
    *seconds *= processor->slowdown;
    if (!isfinite(*seconds) || *seconds < 0)
        return error_set(error, STATUS_BAD_INPUT,
                         "processor %s: %s of %s takes no finite time (%g s)",
                         processor->name, work->pass, work->layer_name, *seconds);
    return true;
}
