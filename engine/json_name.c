#include "engine/json_name.h"

bool json_name_expand(const struct json_at *at, const char *key, struct error *error)
{
    if (!json_is_string(at))
        return true;
    cJSON *member = cJSON_CreateString(at->node->valuestring);
    cJSON *object = cJSON_CreateObject();
    if (member == NULL || object == NULL || !cJSON_AddItemToObject(object, key, member)) {
        cJSON_Delete(member);
        cJSON_Delete(object);
        return error_memory(error, "JSON default");
    }
    /* In place, since others may hold this place. */
    cJSON_free(at->node->valuestring);
    at->node->valuestring = NULL;
    at->node->type = (at->node->type & cJSON_StringIsConst) | cJSON_Object;
    at->node->child = object->child;
    object->child = NULL;
    cJSON_Delete(object);
    return true;
}
