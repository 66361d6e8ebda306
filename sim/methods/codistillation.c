/* Codistillation (Sodhani et al. 2020): models trained at once, each pulled towards the
 * predictions of the others,
 *     loss_i = task(y, f_i(x)) + alpha / (n - 1) * sum over j != i of D(f_i(x), f_j(x)),
 * with the other models' predictions as constants. Each model is trained by an inner
 * method; the processors that hold the losses exchange logits. */
#include "base/checked.h"
#include "sim/method.h"

#include <stdlib.h>

extern const struct method_kind method_codistillation;

struct codistillation {
    uint64_t models;
    struct method *inner;
    struct teaching teaching;
    bool same_initialization;
    bool ring;
    uint64_t queue_capacity;
};

static const char *const keys[] = {"models",   "inner",       "alpha",       "distance",
                                   "data",     "temperature", "initialization",
                                   "topology", "burn_in_steps", "queue_capacity"};

static void release(struct method *method)
{
    struct codistillation *c = method->parameters;
    if (c != NULL)
        method_free(c->inner);
    free(c);
}

static bool read_distance(const struct json_at *at, struct codistillation *c,
                          struct error *error)
{
    static const char *const distances[] = {"mse", "kl"};
    size_t distance = 0;
    c->teaching = (struct teaching){.alpha = 1, .temperature = 1};
    if (!json_read_choice(at, "distance", distances, 2, &distance, error) ||
        !json_read_number(at, "alpha", 0, 1e6, &c->teaching.alpha, error) ||
        !json_read_number(at, "temperature", 1e-3, 1e3, &c->teaching.temperature, error))
        return false;
    c->teaching.kl = distance == 1;
    return json_read_u64(at, "burn_in_steps", 0, UINT64_C(1) << 53,
                         &c->teaching.burn_in_steps, error);
}

static bool read(const struct json_at *at, struct method *method, struct error *error)
{
    static const char *const data[] = {"same", "own"};
    static const char *const initializations[] = {"different", "same"};
    static const char *const topologies[] = {"all", "ring"};
    size_t share = 0, initialization = 0, topology = 0;
    struct codistillation *c = checked_calloc(1, sizeof *c);
    method->parameters = c;
    if (c == NULL)
        return error_memory(error, "method");
    c->models = 2;
    c->queue_capacity = 2;
    if (!json_read_u64(at, "models", 1, 1024, &c->models, error) ||
        !read_distance(at, c, error) ||
        !json_read_choice(at, "data", data, 2, &share, error) ||
        !json_read_choice(at, "initialization", initializations, 2, &initialization, error) ||
        !json_read_choice(at, "topology", topologies, 2, &topology, error) ||
        !json_read_u64(at, "queue_capacity", 1, 1u << 20, &c->queue_capacity, error))
        return false;
    if (share == 1)
        return json_fail(at, error,
                         "data: \"own\" cannot be used with an exchange of predictions, which "
                         "needs the same samples (coordinated sampling); \"same\" is allowed");
    c->same_initialization = initialization == 1;
    c->ring = topology == 1;
    c->inner = method_read_inner(at, true, error);
    if (c->inner != NULL && c->inner->kind == &method_codistillation)
        return json_fail(at, error, "codistillation inside codistillation: raise \"models\"");
    return c->inner != NULL;
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct codistillation *c = method->parameters;
    planner->plan->models = (uint32_t)c->models;
    return c->inner->kind->model(c->inner, planner, error);
}

/* The pupils of `from`: on a ring the next model, else all others. */
static bool teaches(const struct codistillation *c, uint64_t from, uint64_t to)
{
    return from != to && (!c->ring || to == (from + 1) % c->models);
}

static bool note_edge(uint32_t **list, size_t *count, uint32_t edge, struct error *error)
{
    size_t capacity = *count;
    if (!checked_grow((void **)list, &capacity, *count + 1, sizeof **list))
        return error_memory(error, "edges");
    (*list)[(*count)++] = edge;
    return true;
}

/* Predictions of every loss part to its counterparts in the pupils' copies. */
static bool connect(const struct codistillation *c, struct plan *plan, uint32_t teacher,
                    uint32_t pupil, struct error *error)
{
    uint32_t parts = plan->copies[teacher].end_part - plan->copies[teacher].first_part;
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t from = plan->copies[teacher].first_part + i;
        uint32_t to = plan->copies[pupil].first_part + i, edge;
        if (!plan->parts[from].final_loss)
            continue;
        if (!plan_add_edge(plan, from, to, PAYLOAD_PREDICTIONS, c->queue_capacity, &edge,
                           error) ||
            !note_edge(&plan->parts[from].pupil_edges, &plan->parts[from].pupil_count, edge,
                       error) ||
            !note_edge(&plan->parts[to].teacher_edges, &plan->parts[to].teacher_count, edge,
                       error))
            return false;
        plan->parts[to].teaching = c->teaching;
    }
    return true;
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
        if (!c->inner->kind->layout(c->inner, planner, &own, error))
            return false;
    }
    uint32_t each = ((uint32_t)plan->copy_count - first) / (uint32_t)c->models;
    for (uint32_t from = 0; from < c->models; from++)
        for (uint32_t to = 0; to < c->models; to++)
            for (uint32_t k = 0; teaches(c, from, to) && k < each; k++)
                if (!connect(c, plan, first + from * each + k, first + to * each + k, error))
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
    .combines = true,
};
