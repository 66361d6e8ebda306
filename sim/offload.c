#include "sim/offload.h"

#include "base/checked.h"
#include "sim/plan.h"
#include "sim/platform.h"

#include <stdlib.h>

bool offload_read(const struct json_at *at, struct offload *offload, struct error *error)
{
    static const char *const roles[] = {"weights", "optimizer"};
    struct json_at element;
    if (!json_is_array(at))
        return json_fail(at, error, "must be a list of \"weights\" and \"optimizer\"");
    for (size_t i = 0; json_element(at, i, &element); i++) {
        size_t chosen;
        if (!json_choice(&element, roles, 2, &chosen, error))
            return false;
        offload->weights = offload->weights || chosen == 0;
        offload->optimizer = offload->optimizer || chosen == 1;
    }
    return true;
}

static uint64_t largest_layer(const struct plan *plan, const struct part *part)
{
    uint64_t largest = 0;
    for (size_t i = part->first_layer; i < part->end_layer; i++) {
        uint64_t count =
            layer_parameter_count(&plan->model->layers[model_owner(plan->model, i)]);
        largest = count > largest ? count : largest;
    }
    return largest;
}

bool offload_memory(const struct plan *plan, const struct part *part,
                    struct part_memory *memory, struct error *error)
{
    uint64_t weights = plan->offload.weights ? memory->weights_bytes : 0;
    uint64_t optimizer = plan->offload.optimizer ? memory->optimizer_bytes : 0;
    if (!checked_add(weights, optimizer, &memory->streamed_bytes))
        return error_set(error, STATUS_BAD_INPUT, "%s: a stage needs more than 2^64 bytes",
                         plan->name);
    memory->streamed_weights_bytes = weights;
    if (plan->offload.weights)
        memory->weights_bytes =
            largest_layer(plan, part) * number_format_bytes(plan->precision.weights);
    if (plan->offload.optimizer)
        memory->optimizer_bytes = 0;
    return true;
}

static bool check_processor(const struct processor *processor, uint64_t needed,
                            struct error *error)
{
    if (needed == 0 || (processor->streaming_bytes >= needed &&
                        processor->streaming_bandwidth_bytes_per_s > 0))
        return true;
    return error_set(error, STATUS_IMPOSSIBLE,
                     "offload: processor %s has %llu bytes of streaming memory, %llu are needed",
                     processor->name, (unsigned long long)processor->streaming_bytes,
                     (unsigned long long)needed);
}

bool offload_check(const struct plan *plan, const struct platform *platform,
                   struct error *error)
{
    if (!plan->offload.weights && !plan->offload.optimizer)
        return true;
    uint64_t *needed = checked_calloc(plan->processor_count, sizeof *needed);
    bool good = needed != NULL || error_memory(error, "streaming memory");
    for (size_t p = 0; good && p < plan->part_count; p++) {
        struct part_memory memory;
        uint64_t *own = &needed[plan->parts[p].processor];
        good = plan_part_memory(plan, &plan->parts[p], &memory, error) &&
               (checked_add(*own, memory.streamed_bytes, own) ||
                error_set(error, STATUS_BAD_INPUT, "offload: more than 2^64 bytes"));
    }
    for (size_t i = 0; good && i < plan->processor_count; i++)
        good = check_processor(platform_processor(platform, i), needed[i], error);
    free(needed);
    return good;
}
