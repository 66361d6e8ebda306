#include "sim/method.h"

#include "base/checked.h"
#include "sim/tie.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern const struct method_kind method_backprop, method_pipeline, method_tensor_parallel, method_local,
    method_data_parallel,
    method_codistillation;

static const struct method_kind *const kinds[] = {
    &method_backprop,
    &method_pipeline,
    &method_tensor_parallel,
    &method_local,
    &method_data_parallel,
    &method_codistillation,
};
enum { KINDS = sizeof kinds / sizeof kinds[0], MAX_KEYS = 32 };

size_t method_kind_count(void)
{
    return KINDS;
}

const struct method_kind *method_kind_get(size_t index)
{
    return kinds[index];
}

/* Names become folder names. */
static bool check_name(const struct json_at *at, const char *name, struct error *error)
{
    size_t length = strlen(name);
    bool good = length > 0 && length < LAYER_NAME_BYTES && strchr(".- ", name[0]) == NULL &&
                name[length - 1] != ' ' && strcasecmp(name, "summary.json") != 0;
    for (size_t i = 0; i < length; i++)
        good = good && (isalnum((unsigned char)name[i]) || strchr("-_.+ ", name[i]) != NULL);
    if (!good)
        return json_fail(at, error,
                         "\"%.60s\" is no name for a method: 1 to %d letters, digits, "
                         "- _ . + or spaces, not beginning with . or - or a space, not ending "
                         "with one, and not that of the summary's file",
                         name, LAYER_NAME_BYTES - 1);
    return true;
}

static bool check_keys(const struct json_at *at, const struct method_kind *kind,
                       struct error *error)
{
    const char *allowed[MAX_KEYS] = {"name", "kind", "placement"};
    size_t count = 3;
    for (size_t i = 0; i < kind->key_count && count < MAX_KEYS; i++)
        allowed[count++] = kind->keys[i];
    return json_keys(at, allowed, count, error);
}

static bool find_kind(const struct json_at *at, const struct method_kind **kind,
                      struct error *error)
{
    const char *names[KINDS];
    struct json_at member = *at;
    size_t chosen;
    for (size_t i = 0; i < KINDS; i++)
        names[i] = kinds[i]->name;
    if (!json_is_object(at) && !json_is_string(at))
        return json_fail(at, error, "must be the name of a kind of method or an object");
    if (json_is_object(at) && !json_member(at, "kind", &member, error))
        return false;
    if (!json_choice(&member, names, KINDS, &chosen, error))
        return false;
    *kind = kinds[chosen];
    return true;
}

static bool read_placement(const struct json_at *at, struct method *method,
                           struct error *error)
{
    struct json_at list, element;
    if (!json_optional(at, "placement", &list))
        return true;
    if (!json_is_array(&list) || json_length(&list) == 0)
        return json_fail(&list, error, "must be a list of processor numbers");
    method->placement_count = json_length(&list);
    method->placement = checked_calloc(method->placement_count, sizeof *method->placement);
    if (method->placement == NULL)
        return error_memory(error, "placement");
    for (size_t i = 0; i < method->placement_count; i++) {
        uint64_t processor;
        json_element(&list, i, &element);
        if (!json_u64(&element, 0, UINT32_MAX - 1, &processor, error))
            return false;
        method->placement[i] = (uint32_t)processor;
        for (size_t k = 0; k < i; k++)
            if (method->placement[k] == processor)
                return json_fail(&element, error, "processor %u is named twice",
                                 method->placement[i]);
    }
    return true;
}

/* A bare kind name becomes {"kind": name}, so that defaults have a place to be noted. */
static void expand(const struct json_at *at)
{
    if (!json_is_string(at))
        return;
    char *kind = at->node->valuestring;
    at->node->type = cJSON_Object;
    at->node->valuestring = NULL;
    cJSON_AddStringToObject(at->node, "kind", kind != NULL ? kind : "");
    cJSON_free(kind);
}

static bool fill(const struct json_at *at, struct method *method, struct error *error)
{
    if (!find_kind(at, &method->kind, error))
        return false;
    expand(at);
    if (!check_keys(at, method->kind, error))
        return false;
    const char *name = method->kind->name;
    struct json_at member = *at;
    if (!json_read_string(at, "name", &name, error))
        return false;
    json_optional(at, "name", &member);
    if (!check_name(&member, name, error))
        return false;
    strncpy(method->name, name, sizeof method->name - 1);
    return read_placement(at, method, error) && method->kind->read(at, method, error);
}

struct method *method_read(const struct json_at *at, struct error *error)
{
    struct method *method = checked_calloc(1, sizeof *method);
    if (method == NULL) {
        error_memory(error, "method");
        return NULL;
    }
    if (!fill(at, method, error)) {
        method_free(method);
        return NULL;
    }
    return method;
}

/* What only the outermost method decides. */
static bool check_inner(const struct json_at *inner, const struct method *method,
                        const struct method_kind *outer, struct error *error)
{
    if (method->placement != NULL)
        return json_fail(inner, error, "\"placement\" belongs to the outermost method");
    return method->kind->level < outer->level ||
           json_fail(inner, error, "a \"%s\" cannot be inside a \"%s\"%s",
                     method->kind->name, outer->name,
                     method->kind->level > outer->level ? "; put it outside" : "");
}

struct method *method_read_inner(const struct json_at *at, const struct method_kind *outer,
                                 struct error *error)
{
    struct json_at inner;
    if (!json_optional(at, "inner", &inner)) {
        cJSON *fallback = cJSON_CreateString(method_backprop.name);
        if (fallback == NULL || !cJSON_AddItemToObject(at->node, "inner", fallback)) {
            error_memory(error, "method");
            return NULL;
        }
        json_optional(at, "inner", &inner);
    }
    struct method *method = method_read(&inner, error);
    if (method != NULL && !check_inner(&inner, method, outer, error)) {
        method_free(method);
        return NULL;
    }
    return method;
}

void method_free(struct method *method)
{
    if (method == NULL)
        return;
    if (method->kind != NULL)
        method->kind->release(method);
    free(method->placement);
    free(method);
}

bool planner_processor(const struct planner *planner, size_t place, uint32_t *processor,
                       struct error *error)
{
    size_t available = planner->plan->processor_count;
    const struct method *method = planner->method;
    if (method->placement != NULL && place >= method->placement_count)
        return error_set(error, STATUS_BAD_INPUT,
                         "placement lists %zu processors, the method needs more",
                         method->placement_count);
    *processor = method->placement != NULL ? method->placement[place] : (uint32_t)place;
    if (place >= available)
        return error_set(error, STATUS_BAD_INPUT,
                         "needs more than the %zu processors of platform \"%s\"", available,
                         platform_name(planner->setting->platform));
    return true;
}

static bool set_sizes(struct plan *plan, const struct setting *setting, struct error *error)
{
    plan->batch = setting->batch;
    plan->micro_batch = setting->micro_batch;
    plan->precision = setting->precision;
    plan->offload = setting->offload;
    plan->optimizer = setting->optimizer;
    plan->label_smoothing = setting->label_smoothing;
    plan->optimizer_words = optimizer_state_words(&setting->optimizer);
    plan->optimizer_flops = optimizer_flops(&setting->optimizer);
    plan->processor_count = platform_processor_count(setting->platform);
    plan->models = 1;
    if (setting->batch % setting->micro_batch != 0)
        return error_set(error, STATUS_BAD_INPUT,
                         "micro_batch %llu does not divide batch %llu",
                         (unsigned long long)setting->micro_batch,
                         (unsigned long long)setting->batch);
    plan->micro_batches = setting->batch / setting->micro_batch;
    if (plan->micro_batches > 1u << 20)
        return error_set(error, STATUS_BAD_INPUT,
                         "%llu micro-batches a step; at most %u are possible",
                         (unsigned long long)plan->micro_batches, 1u << 20);
    return true;
}

/* Before anybody looks a processor up. */
static bool check_placement(const struct planner *planner, struct error *error)
{
    const struct method *method = planner->method;
    size_t available = planner->plan->processor_count;
    for (size_t i = 0; i < method->placement_count; i++)
        if (method->placement[i] >= available)
            return error_set(error, STATUS_BAD_INPUT,
                             "placement names processor %u, platform \"%s\" has %zu (0 to %zu)",
                             method->placement[i], platform_name(planner->setting->platform),
                             available, available - 1);
    return true;
}

static bool check_all_placed(const struct planner *planner, struct error *error)
{
    size_t count = planner->method->placement_count;
    return count == 0 || planner->placed >= count ||
           error_set(error, STATUS_BAD_INPUT,
                     "placement lists %zu processors, the method uses %zu", count,
                     planner->placed);
}

/* The norm that clips is over all gradients of a model, and no part of one knows it; the
 * chunks of local parallelism are models of their own. */
static bool check_clipping(const struct plan *plan, const struct optimizer_options *optimizer,
                           struct error *error)
{
    for (size_t i = 0; optimizer->clip_norm > 0 && i < plan->part_count; i++) {
        const struct part *part = &plan->parts[i];
        if (part->gradient_in || part->gradient_out || part->shards > 1)
            return error_set(error, STATUS_BAD_INPUT,
                             "\"clip_norm\" needs the norm of all gradients of a model, "
                             "which this method spreads over processors; set it to 0");
    }
    return true;
}

static bool build(const struct method *method, struct planner *planner, struct error *error)
{
    struct plan *plan = planner->plan;
    const struct copy whole = {.shards = 1, .shares = 1};
    return set_sizes(plan, planner->setting, error) && check_placement(planner, error) &&
           method->kind->model(method, planner, error) &&
           method->kind->layout(method, planner, &whole, error) &&
           check_all_placed(planner, error) && tie_parts(plan, error) &&
           check_clipping(plan, &planner->setting->optimizer, error) &&
           method->kind->emit(method, planner, 0, (uint32_t)plan->copy_count, error) &&
           plan_check(plan, error);
}

struct plan *method_plan(const struct method *method, const struct setting *setting,
                         struct error *error)
{
    struct planner planner = {
        .setting = setting, .method = method, .model = setting->model, .ranks = 1};
    planner.plan = plan_create(method->name, method->kind->name, error);
    if (planner.plan == NULL)
        return NULL;
    bool built = build(method, &planner, error);
    free(planner.end_block);
    free(planner.head_value);
    free(planner.seat);
    if (!built) {
        plan_free(planner.plan);
        error_prefix(error, "method \"%s\"", method->name);
        return NULL;
    }
    return planner.plan;
}
