/* Data parallelism: replicas of a model, each on its share of the batch. Their gradients
 * are summed before every update, or (local SGD) their weights averaged every so many
 * updates. Each replica is trained by an inner method; the parts that hold the same layers
 * make up the collectives. */
#include "base/checked.h"
#include "sim/collective.h"
#include "sim/method.h"
#include "sim/methods/buckets.h"

#include <stdlib.h>
#include <string.h>

enum shard { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARDS };
static const char *const shard_names[SHARDS] = {"none", "optimizer", "gradients"};

struct data_parallel {
    uint64_t replicas;
    struct method *inner;
    const struct collective_algorithm *algorithm;
    uint64_t group;  /* 0: by the machine */
    uint32_t *rings; /* ring_count x replicas, or NULL */
    uint32_t ring_count;
    uint64_t buckets;
    enum shard shard;
    uint64_t average_every; /* 0: gradients are summed instead */
};

static const char *const keys[] = {"replicas", "inner",   "all_reduce", "group",
                                   "rings",    "buckets", "shard",      "average_every"};

static void release(struct method *method)
{
    struct data_parallel *d = method->parameters;
    if (d != NULL) {
        method_free(d->inner);
        free(d->rings);
    }
    free(d);
}

static bool read_algorithm(const struct json_at *at, struct data_parallel *d,
                           struct error *error)
{
    enum { MANY = 32 };
    const char *names[MANY];
    size_t count = collective_algorithm_count(), chosen = 0;
    for (size_t i = 0; i < count && i < MANY; i++)
        names[i] = collective_algorithm_get(i)->name;
    if (!json_read_choice(at, "all_reduce", names, count, &chosen, error))
        return false;
    d->algorithm = collective_algorithm_get(chosen);
    return true;
}

/* One order: every replica once. */
static bool read_ring(const struct json_at *at, const struct data_parallel *d,
                      uint32_t *ring, struct error *error)
{
    if (!json_is_array(at) || json_length(at) != d->replicas)
        return json_fail(at, error, "must be a list of all %llu replicas, 0 to %llu",
                         (unsigned long long)d->replicas,
                         (unsigned long long)d->replicas - 1);
    for (size_t i = 0; i < d->replicas; i++) {
        struct json_at element;
        uint64_t replica;
        json_element(at, i, &element);
        if (!json_u64(&element, 0, d->replicas - 1, &replica, error))
            return false;
        ring[i] = (uint32_t)replica;
        for (size_t k = 0; k < i; k++)
            if (ring[k] == replica)
                return json_fail(&element, error, "replica %u is named twice", ring[i]);
    }
    return true;
}

static bool read_rings(const struct json_at *at, struct data_parallel *d,
                       struct error *error)
{
    struct json_at list, element;
    if (!json_optional(at, "rings", &list))
        return true;
    if (strcmp(d->algorithm->name, "multi_ring") != 0)
        return json_fail(&list, error,
                         "has no effect on all_reduce \"%s\", only on "
                         "\"multi_ring\"",
                         d->algorithm->name);
    size_t count = json_length(&list);
    if (!json_is_array(&list) || count == 0 || count > COLLECTIVE_MAX_RINGS)
        return json_fail(&list, error, "must be a list of 1 to %d rings",
                         COLLECTIVE_MAX_RINGS);
    d->rings = checked_calloc(count * (size_t)d->replicas, sizeof *d->rings);
    if (d->rings == NULL)
        return error_memory(error, "rings");
    d->ring_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        json_element(&list, i, &element);
        if (!read_ring(&element, d, d->rings + i * (size_t)d->replicas, error))
            return false;
    }
    return true;
}

static bool read_group(const struct json_at *at, struct data_parallel *d,
                       struct error *error)
{
    struct json_at member;
    if (!json_optional(at, "group", &member))
        return true;
    if (strcmp(d->algorithm->name, "hierarchical") != 0)
        return json_fail(&member, error,
                         "has no effect on all_reduce \"%s\", only on "
                         "\"hierarchical\"",
                         d->algorithm->name);
    return json_u64(&member, 1, d->replicas, &d->group, error);
}

/* Keys of the exchange of gradients, which local SGD has none of. */
static bool check_averaging(const struct json_at *at, const struct data_parallel *d,
                            struct error *error)
{
    struct json_at member;
    if (json_optional(at, "buckets", &member) && d->buckets > 1)
        return json_fail(&member, error,
                         "has no effect with \"average_every\": no gradients "
                         "are exchanged");
    if (d->shard != SHARD_NONE && json_optional(at, "shard", &member))
        return json_fail(&member, error,
                         "cannot be used with \"average_every\": between "
                         "averages every replica needs all of its state");
    return true;
}

static bool read_exchange(const struct json_at *at, struct data_parallel *d,
                          struct error *error)
{
    size_t shard = SHARD_NONE;
    struct json_at member;
    if (!json_read_u64(at, "buckets", 1, 1u << 16, &d->buckets, error) ||
        !json_read_choice(at, "shard", shard_names, SHARDS, &shard, error))
        return false;
    d->shard = (enum shard)shard;
    if (d->shard != SHARD_NONE && !d->algorithm->supports(GOAL_REDUCE_SCATTER)) {
        json_optional(at, "all_reduce", &member);
        return json_fail(&member, error,
                         "\"%s\" cannot leave every replica its own shard; "
                         "with \"shard\" use \"ring\" or \"halving_doubling\"",
                         d->algorithm->name);
    }
    if (!json_optional(at, "average_every", &member))
        return true;
    return json_u64(&member, 1, UINT64_C(1) << 53, &d->average_every, error) &&
           check_averaging(at, d, error);
}

static bool read(const struct json_at *at, struct method *method, struct error *error)
{
    struct data_parallel *d = checked_calloc(1, sizeof *d);
    method->parameters = d;
    if (d == NULL)
        return error_memory(error, "method");
    d->replicas = 2;
    d->buckets = 1;
    if (!json_read_u64(at, "replicas", 1, 1u << 20, &d->replicas, error) ||
        !read_algorithm(at, d, error) || !read_group(at, d, error) ||
        !read_rings(at, d, error) || !read_exchange(at, d, error))
        return false;
    d->inner = method_read_inner(at, method->kind, error);
    return d->inner != NULL;
}

/* A norm over a shard is not the norm. */
static bool check_optimizer(const struct data_parallel *d,
                            const struct optimizer_options *optimizer, struct error *error)
{
    if (d->shard == SHARD_NONE || d->replicas == 1)
        return true;
    if (optimizer->clip_norm > 0)
        return error_set(
            error, STATUS_BAD_INPUT,
            "\"shard\" cannot be used with clip_norm: each replica would clip by "
            "the norm of its own shard");
    if (strcmp(optimizer_name(optimizer), "lars") == 0)
        return error_set(
            error, STATUS_BAD_INPUT,
            "\"shard\" cannot be used with lars, which needs the norms of whole "
            "tensors");
    return true;
}

static bool model(const struct method *method, struct planner *planner, struct error *error)
{
    const struct data_parallel *d = method->parameters;
    struct plan *plan = planner->plan;
    if (plan->micro_batches % d->replicas != 0)
        return error_set(
            error, STATUS_BAD_INPUT,
            "%llu replicas cannot share %llu micro-batches of %llu samples evenly",
            (unsigned long long)d->replicas, (unsigned long long)plan->micro_batches,
            (unsigned long long)plan->micro_batch);
    plan->micro_batches /= d->replicas;
    return check_optimizer(d, &planner->setting->optimizer, error) &&
           d->inner->kind->model(d->inner, planner, error);
}

/* The replicas that replica 0 reaches as fast as its neighbour, up to the first that it
 * does not: on machines made of nodes, those of its node. */
static bool machine_group(struct planner *planner, const uint32_t *parts, uint32_t ranks,
                          uint32_t *group, struct error *error)
{
    double near = 0;
    const struct part *all = planner->plan->parts;
    for (*group = 1; *group < ranks; ++*group) {
        struct route route;
        if (!platform_route(planner->setting->platform, all[parts[0]].processor,
                            all[parts[*group]].processor, &route, error))
            return false;
        if (*group == 1)
            near = route.bandwidth_bytes_per_s;
        if (route.bandwidth_bytes_per_s < near)
            return true;
    }
    return true;
}

/* What all parts that hold the same layers share. */
struct tying {
    const struct data_parallel *d;
    struct planner *planner;
    uint32_t *parts; /* a replica */
    uint32_t ranks, group;
};

static bool add(const struct tying *t, enum collective_goal goal, bool parameters,
                struct bucket bucket, struct error *error)
{
    struct plan *plan = t->planner->plan;
    const struct collective collective = {
        .algorithm = t->d->algorithm,
        .goal = goal,
        .parameters = parameters,
        .average = t->d->average_every > 0,
        .clear = !parameters && t->d->shard == SHARD_GRADIENTS,
        .first = bucket.first,
        .count = bucket.count,
        .parts = t->parts,
        .ranks = t->ranks,
        .group = t->group,
        .rings = t->d->rings,
        .ring_count = t->d->ring_count,
    };
    uint32_t index = 0;
    if (!plan_add_collective(plan, &collective, &index, error))
        return false;
    for (uint32_t r = 0; r < t->ranks; r++) {
        struct part *part = &plan->parts[t->parts[r]];
        if (!(parameters
                  ? plan_note_collective(&part->gathers, &part->gather_count, index, error)
                  : plan_note_collective(&part->sums, &part->sum_count, index, error)))
            return false;
    }
    return true;
}

static bool divide(const struct tying *t, struct error *error)
{
    struct plan *plan = t->planner->plan;
    for (uint32_t r = 0; r < t->ranks; r++) {
        struct part *part = &plan->parts[t->parts[r]];
        if (t->d->buckets > 1 && !buckets_cut(plan, t->parts[r], t->d->buckets, error))
            return false;
        part->gather_every = t->d->average_every;
        if (t->d->shard == SHARD_NONE)
            continue;
        part->shard = r;
        part->shards = t->ranks;
        part->shard_gradients = t->d->shard == SHARD_GRADIENTS;
    }
    return true;
}

/* Gradients go out in the order of backward, weights in that of forward. */
static bool tie_parts_alike(struct tying *t, struct error *error)
{
    struct plan *plan = t->planner->plan;
    const struct data_parallel *d = t->d;
    uint32_t part = t->parts[0];
    t->group = (uint32_t)d->group;
    if (!plan->parts[part].trains || plan_part_parameters(plan, &plan->parts[part]) == 0)
        return true;
    if (t->group == 0 && !machine_group(t->planner, t->parts, t->ranks, &t->group, error))
        return false;
    if (!divide(t, error))
        return false;
    size_t buckets = plan_bucket_count(&plan->parts[part]);
    for (size_t i = 0; d->average_every == 0 && i < buckets; i++)
        if (!add(t, d->shard == SHARD_NONE ? GOAL_ALL_REDUCE : GOAL_REDUCE_SCATTER, false,
                 plan_bucket(plan, &plan->parts[part], buckets - 1 - i), error))
            return false;
    bool gathers = d->average_every > 0 || d->shard != SHARD_NONE;
    for (size_t i = 0; gathers && i < buckets; i++)
        if (!add(t, d->average_every > 0 ? GOAL_ALL_REDUCE : GOAL_ALL_GATHER, true,
                 plan_bucket(plan, &plan->parts[part], i), error))
            return false;
    return true;
}

static bool tie(const struct data_parallel *d, struct planner *planner, uint32_t first,
                struct error *error)
{
    struct plan *plan = planner->plan;
    uint32_t parts = plan->copies[first].end_part - plan->copies[first].first_part;
    struct tying t = {.d = d, .planner = planner, .ranks = (uint32_t)d->replicas};
    t.parts = checked_calloc(t.ranks, sizeof *t.parts);
    bool tied = t.parts != NULL || error_memory(error, "replicas");
    for (uint32_t p = 0; tied && p < parts; p++) {
        for (uint32_t r = 0; r < t.ranks; r++)
            t.parts[r] = plan->copies[first + r].first_part + p;
        tied = tie_parts_alike(&t, error);
    }
    free(t.parts);
    return tied;
}

static bool layout(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error)
{
    const struct data_parallel *d = method->parameters;
    struct plan *plan = planner->plan;
    uint32_t first = (uint32_t)plan->copy_count;
    for (uint32_t r = 0; r < d->replicas; r++) {
        struct copy own = *copy;
        own.shard = r;
        own.shards = (uint32_t)d->replicas;
        own.apart = d->average_every > 0;
        if (!d->inner->kind->layout(d->inner, planner, &own, error))
            return false;
    }
    return d->replicas == 1 || tie(d, planner, first, error);
}

/* The gradients of tied weights are summed over the stages of a replica after they were
 * summed over the replicas, and for that all of them have to be there. */
static bool check_ties(const struct plan *plan, const struct data_parallel *d,
                       uint32_t first, uint32_t end, struct error *error)
{
    for (uint32_t p = plan->copies[first].first_part; p < plan->copies[end - 1].end_part;
         p++)
        if (d->replicas > 1 && d->shard != SHARD_NONE && plan->parts[p].tie_count > 0)
            return error_set(error, STATUS_BAD_INPUT,
                             "\"shard\" cannot be used where stages share weights: their "
                             "shards would not be the same");
    return true;
}

static bool emit(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error)
{
    const struct data_parallel *d = method->parameters;
    if (!check_ties(planner->plan, d, first, end, error) ||
        !d->inner->kind->emit(d->inner, planner, first, end, error))
        return false;
    return d->replicas == 1 || buckets_interleave(planner, first, end, error);
}

const struct method_kind method_data_parallel = {
    .name = "data_parallel",
    .summary = "replicas on shares of the batch, gradients summed by an all-reduce",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .read = read,
    .release = release,
    .model = model,
    .layout = layout,
    .emit = emit,
    .level = METHOD_REPLICATES,
};
