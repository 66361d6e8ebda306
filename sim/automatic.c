#include "sim/automatic.h"

#include <string.h>

/* Copies of the model that a method makes of its inner one. */
static uint64_t copies_of(const struct json_at *method)
{
    static const char *const keys[] = {"replicas", "models"};
    struct json_at member;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_optional(method, keys[i], &member) && json_is_number(&member) &&
            member.node->valuedouble >= 1 && member.node->valuedouble <= 1e6)
            return (uint64_t)member.node->valuedouble;
    return 2; /* the default of both */
}

static bool replace(const struct json_at *method, uint64_t stages, struct error *error)
{
    cJSON *number = cJSON_CreateNumber((double)stages);
    if (number != NULL &&
        cJSON_ReplaceItemInObjectCaseSensitive(method->node, "stages", number))
        return true;
    cJSON_Delete(number);
    return error_memory(error, "stages");
}

bool automatic_stages(const struct json_at *method, size_t processors, size_t blocks,
                      struct error *error)
{
    struct json_at member, placement;
    uint64_t available = processors;
    if (!json_is_object(method))
        return true;
    if (json_optional(method, "placement", &placement) && json_length(&placement) > 0)
        available = json_length(&placement);
    if (json_optional(method, "inner", &member))
        return automatic_stages(&member, (size_t)(available / copies_of(method)), blocks, error);
    if (!json_optional(method, "stages", &member) || !json_is_string(&member) ||
        strcmp(member.node->valuestring, "auto") != 0)
        return true;
    uint64_t stages = available < blocks ? available : blocks;
    return replace(method, stages > 0 ? stages : 1, error);
}
