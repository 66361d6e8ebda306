/* Codistillation (Sodhani et al. 2020): models trained at once, each pulled towards the
 * predictions of others,
 *     loss_i = task(y, f_i(x)) + alpha / t * sum over its t teachers j of D(f_i(x),
 * f_j(x)), with the teachers' predictions as constants. Each model is trained by an inner
 * method. Either the processors that hold the losses exchange logits, or the models
 * exchange their weights now and then and compute each other's predictions themselves. */
#include "sim/methods/codistillation.h"

#include "base/checked.h"

#include <stdlib.h>


static const char *const keys[] = {
    "models",        "inner",       "exchange",       "period",
    "topology",      "group",       "alpha",          "alpha_schedule",
    "ramp_steps",    "delay_steps", "burn_in_steps",  "distance",
    "data",          "temperature", "initialization", "weight_decay_schedule",
    "queue_capacity"};

static const uint64_t most_steps = UINT64_C(1) << 53;

static void release(struct method *method)
{
    struct codistillation *c = method->parameters;
    if (c != NULL)
        method_free(c->inner);
    free(c);
}

/* A key that only means something with another's value. */
static bool refuse(const struct json_at *at, const char *key, const char *needs,
                   struct error *error)
{
    struct json_at member;
    return !json_optional(at, key, &member) ||
           json_fail(&member, error, "has no effect without %s", needs);
}

/* A number of steps that must be there exactly when it is wanted. */
static bool read_steps(const struct json_at *at, const char *key, bool wanted,
                       const char *needs, uint64_t *steps, struct error *error)
{
    struct json_at member;
    if (!wanted)
        return refuse(at, key, needs, error);
    return json_member(at, key, &member, error) &&
           json_u64(&member, 1, most_steps, steps, error);
}

static bool read_alpha(const struct json_at *at, struct teaching *teaching,
                       struct error *error)
{
    static const char *const schedules[] = {
        [ALPHA_CONSTANT] = "constant", [ALPHA_RAMP] = "ramp", [ALPHA_DELAYED] = "delayed"};
    size_t schedule = ALPHA_CONSTANT;
    if (!json_read_number(at, "alpha", 0, 1e6, &teaching->alpha, error) ||
        !json_read_choice(at, "alpha_schedule", schedules, 3, &schedule, error) ||
        !json_read_u64(at, "burn_in_steps", 0, most_steps, &teaching->burn_in_steps, error))
        return false;
    teaching->schedule = (enum alpha_schedule)schedule;
    return read_steps(at, "ramp_steps", schedule == ALPHA_RAMP,
                      "\"alpha_schedule\": \"ramp\"", &teaching->schedule_steps, error) &&
           read_steps(at, "delay_steps", schedule == ALPHA_DELAYED,
                      "\"alpha_schedule\": \"delayed\"", &teaching->schedule_steps, error);
}

static bool read_distance(const struct json_at *at, struct teaching *teaching,
                          struct error *error)
{
    static const char *const distances[] = {"mse", "kl"};
    size_t distance = 0;
    if (!json_read_choice(at, "distance", distances, 2, &distance, error))
        return false;
    teaching->kl = distance == 1;
    if (!teaching->kl)
        return refuse(at, "temperature", "\"distance\": \"kl\"", error);
    return json_read_number(at, "temperature", 1e-3, 1e3, &teaching->temperature, error);
}

static bool read_topology(const struct json_at *at, struct codistillation *c,
                          struct error *error)
{
    static const char *const topologies[] = {[TOPOLOGY_ALL] = "all",
                                             [TOPOLOGY_RING] = "ring",
                                             [TOPOLOGY_HIERARCHICAL] = "hierarchical"};
    struct json_at member;
    size_t topology = TOPOLOGY_ALL;
    if (!json_read_choice(at, "topology", topologies, 3, &topology, error))
        return false;
    c->topology = (enum codistillation_topology)topology;
    if (topology != TOPOLOGY_HIERARCHICAL)
        return refuse(at, "group", "\"topology\": \"hierarchical\"", error);
    if (!json_member(at, "group", &member, error) ||
        !json_u64(&member, 1, c->models, &c->group, error))
        return false;
    if (c->models % c->group != 0)
        return json_fail(&member, error, "%llu models do not make groups of %llu",
                         (unsigned long long)c->models, (unsigned long long)c->group);
    return true;
}

static bool read_exchange(const struct json_at *at, struct codistillation *c,
                          struct error *error)
{
    static const char *const exchanges[] = {"predictions", "checkpoints"};
    static const char *const data[] = {"same", "own"};
    struct json_at member;
    size_t exchange = EXCHANGE_PREDICTIONS, share = 0;
    if (!json_read_choice(at, "exchange", exchanges, 2, &exchange, error) ||
        !json_read_choice(at, "data", data, 2, &share, error))
        return false;
    c->exchange = (enum exchange)exchange;
    c->period = 1;
    if ((exchange == EXCHANGE_CHECKPOINTS && !json_member(at, "period", &member, error)) ||
        !json_read_u64(at, "period", 1, most_steps, &c->period, error))
        return false;
    if (exchange == EXCHANGE_PREDICTIONS)
        c->teaching.every = c->period;
    c->own_data = share == 1;
    if (c->own_data && c->exchange == EXCHANGE_PREDICTIONS &&
        json_optional(at, "data", &member))
        return json_fail(
            &member, error,
            "\"own\" cannot be used with an exchange of predictions, which needs "
            "the same samples (coordinated sampling); \"same\" is allowed");
    return true;
}

static bool read_rest(const struct json_at *at, const struct method *method, struct codistillation *c,
                      struct error *error)
{
    static const char *const initializations[] = {"different", "same"};
    struct json_at member;
    size_t initialization = 0;
    if (!json_read_choice(at, "initialization", initializations, 2, &initialization,
                          error) ||
        !json_read_u64(at, "queue_capacity", 1, 1u << 20, &c->queue_capacity, error) ||
        (json_optional(at, "weight_decay_schedule", &member) &&
         !optimizer_weight_decays_read(&member, &c->decays, error)))
        return false;
    c->same_initialization = initialization == 1;
    c->inner = method_read_inner(at, method->kind, error);
    return c->inner != NULL;
}

static bool read(const struct json_at *at, struct method *method, struct error *error)
{
    struct codistillation *c = checked_calloc(1, sizeof *c);
    method->parameters = c;
    if (c == NULL)
        return error_memory(error, "method");
    c->models = 2;
    c->queue_capacity = 2;
    c->teaching = (struct teaching){.alpha = 1, .temperature = 1};
    return json_read_u64(at, "models", 1, 1024, &c->models, error) &&
           read_exchange(at, c, error) && read_topology(at, c, error) &&
           read_alpha(at, &c->teaching, error) && read_distance(at, &c->teaching, error) &&
           read_rest(at, method, c, error);
}

static void set_weight_decay(const struct codistillation *c, struct plan *plan)
{
    struct optimizer_options *own = &plan->optimizer;
    if (c->decays.weight_decay_count == 0)
        return;
    own->weight_decay_count = c->decays.weight_decay_count;
    for (size_t i = 0; i < own->weight_decay_count; i++) {
        own->weight_decay_steps[i] = c->decays.weight_decay_steps[i];
        own->weight_decay_values[i] = c->decays.weight_decay_values[i];
    }
    plan->optimizer_flops = optimizer_flops(own);
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct codistillation *c = method->parameters;
    planner->plan->models = (uint32_t)c->models;
    set_weight_decay(c, planner->plan);
    return c->inner->kind->model(c->inner, planner, error);
}

/* Whether one model teaches another: on a ring the next one, in a hierarchy those of its
 * own group and its counterparts in the others. */
static bool teaches(const struct codistillation *c, uint64_t from, uint64_t to)
{
    if (from == to)
        return false;
    if (c->topology == TOPOLOGY_RING)
        return to == (from + 1) % c->models;
    return c->topology == TOPOLOGY_ALL || from / c->group == to / c->group ||
           from % c->group == to % c->group;
}

static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct codistillation *c = method->parameters;
    struct plan *plan = planner->plan;
    uint32_t first = (uint32_t)plan->copy_count;
    for (uint64_t i = 0; i < c->models; i++) {
        struct copy own = *copy;
        own.model = (uint32_t)i;
        own.seed_offset = c->same_initialization ? 0 : i;
        if (c->own_data) {
            own.share = copy->share * (uint32_t)c->models + (uint32_t)i;
            own.shares = copy->shares * (uint32_t)c->models;
        }
        if (!c->inner->kind->layout(c->inner, planner, &own, error))
            return false;
    }
    uint32_t each = ((uint32_t)plan->copy_count - first) / (uint32_t)c->models;
    for (uint32_t to = 0; to < c->models; to++)
        for (uint32_t from = 0; from < c->models; from++)
            for (uint32_t k = 0; teaches(c, from, to) && k < each; k++)
                if (!codistillation_link(c, plan, first + from * each + k,
                                         first + to * each + k, error))
                    return false;
    return true;
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    const struct codistillation *c = method->parameters;
    return c->inner->kind->emit(c->inner, planner, first, end, error);
}

const struct method_kind method_codistillation = {
    .name = "codistillation",
    .summary = "models trained at once that learn from each other's predictions",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .read = read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
    .level = METHOD_CODISTILLS,
};
