#include "sim/partition.h"

#include "base/checked.h"
#include "sim/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool stages_read(const struct json_at *object, size_t fallback, struct stages *stages,
                 struct error *error)
{
    struct json_at at;
    *stages = (struct stages){.count = fallback};
    bool given = json_optional(object, "stages", &at);
    if (given && !json_is_array(&at) && !json_is_number(&at))
        return json_fail(&at, error,
                         "must be a count, a list of block counts such as [3, 4, 6, 3], or "
                         "\"auto\"");
    if (!given || !json_is_array(&at)) {
        uint64_t count = fallback;
        if (!json_read_u64(object, "stages", 1, PARTITION_MAX_STAGES, &count, error))
            return false;
        stages->count = (size_t)count;
        return true;
    }
    stages->count = json_length(&at);
    if (stages->count == 0 || stages->count > PARTITION_MAX_STAGES)
        return json_fail(&at, error, "has %zu stages; 1 to %d are possible", stages->count,
                         PARTITION_MAX_STAGES);
    stages->blocks = checked_calloc(stages->count, sizeof *stages->blocks);
    if (stages->blocks == NULL)
        return error_memory(error, "stages");
    for (size_t i = 0; i < stages->count; i++) {
        struct json_at element;
        json_element(&at, i, &element);
        if (!json_u64(&element, 1, UINT32_MAX, &stages->blocks[i], error)) {
            stages_release(stages);
            return false;
        }
    }
    return true;
}

void stages_release(struct stages *stages)
{
    free(stages->blocks);
    stages->blocks = NULL;
}

/* A stage may end there. */
static bool may_end(const struct stages *stages, size_t blocks, size_t block)
{
    return stages->every <= 1 || block % stages->every == 0 || block == blocks;
}

static bool cut_by_list(const struct stages *stages, const struct model *model,
                        size_t *end_block, struct error *error)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < stages->count; i++) {
        sum += stages->blocks[i];
        if (sum > model->block_count)
            break;
        end_block[i] = (size_t)sum;
        if (!may_end(stages, model->block_count, (size_t)sum))
            return error_set(error, STATUS_BAD_INPUT,
                             "stages: stage %zu ends after block %llu; a head follows every "
                             "%zu blocks, and stages end there",
                             i, (unsigned long long)sum, stages->every);
    }
    if (sum != model->block_count)
        return error_set(error, STATUS_BAD_INPUT,
                         "stages: the block counts add up to %s %zu, but model \"%s\" has "
                         "%zu blocks",
                         sum > model->block_count ? "more than" : "only",
                         sum > model->block_count ? model->block_count : (size_t)sum,
                         model->name, model->block_count);
    return true;
}

static bool block_seconds(const struct planner *planner, const struct model *model,
                          size_t block, const struct value_set *wants, uint32_t processor,
                          double *seconds, struct error *error)
{
    const struct setting *setting = planner->setting;
    *seconds = 0;
    for (size_t i = model->blocks[block].first_layer; i < model->blocks[block].end_layer; i++)
        for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
            struct pass_cost cost;
            if (!cost_layer(&model->layers[i], (enum pass)pass,
                            model_wants_input(model, i, wants), setting->micro_batch,
                            &setting->precision,
                            platform_processor(setting->platform, processor), &cost, error))
                return false;
            *seconds += cost.seconds;
        }
    return true;
}

/* best[s][b]: the slowest of stages 0..s when they hold blocks 0..b. lowest[s][b]: the first
 * block that a stage which ends before block b may begin with. */
static void solve(const double *prefix, const size_t *lowest, size_t blocks,
                  const struct stages *cut, double *best, size_t *from)
{
    size_t width = blocks + 1, stages = cut->count;
    for (size_t s = 0; s < stages; s++) {
        const double *sum = prefix + s * width;
        for (size_t b = s + 1; b <= blocks; b++) {
            double least = INFINITY;
            size_t where = s, first = lowest[s * width + b];
            best[s * width + b] = INFINITY;
            if (!may_end(cut, blocks, b))
                continue;
            for (size_t a = s > first ? s : first; a < (s == 0 ? 1 : b); a++) {
                double before = s == 0 ? 0 : best[(s - 1) * width + a];
                double here = fmax(before, sum[b] - sum[a]);
                if (here < least) {
                    least = here;
                    where = a;
                }
            }
            best[s * width + b] = least;
            from[s * width + b] = where;
        }
    }
}

static uint32_t stage_processor(const struct planner *planner, size_t stage)
{
    size_t place = planner->placed + stage * planner->ranks; /* of its first rank */
    const struct method *method = planner->method;
    if (method->placement != NULL)
        return place < method->placement_count ? method->placement[place] : 0;
    return place < planner->plan->processor_count ? (uint32_t)place : 0;
}

/* Do they take the same time for the same work? */
static bool same_speed(const struct planner *planner, uint32_t a, uint32_t b)
{
    const struct processor *x = platform_processor(planner->setting->platform, a);
    const struct processor *y = platform_processor(planner->setting->platform, b);
    return x->kind == y->kind && x->parameters == y->parameters &&
           x->slowdown == y->slowdown;
}

static bool prefix_sums(const struct planner *planner, const struct model *model,
                        const struct stages *stages, double *prefix, struct error *error)
{
    size_t width = model->block_count + 1;
    size_t processors = stages->processors > 0 ? stages->processors : stages->count;
    struct value_set wants;
    /* Nobody wants the gradient of the model's input. */
    model_gradient_values(model, 0, model->layer_count, false, &wants);
    for (size_t s = 0; s < stages->count; s++) {
        uint32_t processor = stage_processor(planner, s % processors);
        if (s > 0 && same_speed(planner, processor,
                                stage_processor(planner, (s - 1) % processors))) {
            memcpy(&prefix[s * width], &prefix[(s - 1) * width], width * sizeof *prefix);
            continue;
        }
        prefix[s * width] = 0;
        for (size_t b = 0; b < model->block_count; b++) {
            double seconds;
            if (!block_seconds(planner, model, b, &wants, processor, &seconds, error))
                return false;
            prefix[s * width + b + 1] = prefix[s * width + b] + seconds;
        }
    }
    return true;
}

/* Messages that may wait for the part: activations of the stage before, gradients of the
 * stage after. */
static bool queue_bytes(const struct stage_demand *demand, const struct plan *plan,
                        const struct part *part, uint64_t *bytes)
{
    uint64_t in = part->gradient_out ? model_crossing_count(plan->model, part->first_layer) : 0;
    uint64_t out =
        part->gradient_in ? model_gradient_crossing_count(plan->model, part->end_layer) : 0;
    return checked_add(in, out, bytes) && checked_multiply(*bytes, plan->micro_batch, bytes) &&
           checked_multiply(*bytes, plan_word_bytes(plan, PAYLOAD_ACTIVATIONS), bytes) &&
           checked_multiply(*bytes, demand->queue_capacity, bytes);
}

/* Bytes that a part takes at its fullest, at most. */
static bool part_bytes(const struct stage_demand *demand, const struct plan *plan,
                       const struct part *part, uint64_t *bytes, struct error *error)
{
    struct part_memory m;
    uint64_t queue;
    if (!plan_part_memory(plan, part, &m, error))
        return false;
    uint64_t again = part->recompute == RECOMPUTE_NONE ? 0 : m.stash_bytes;
    uint64_t kept = part->recompute == RECOMPUTE_NONE
                        ? m.stash_bytes + m.logits_bytes
                        : m.input_bytes + m.block_inputs_bytes + m.logits_bytes;
    uint64_t resident = m.weights_bytes + m.gradients_bytes + m.optimizer_bytes +
                        m.workspace_bytes + m.kept_gradients_bytes + again;
    return (queue_bytes(demand, plan, part, &queue) && checked_multiply(kept, part->slots, bytes) &&
            checked_add(*bytes, resident, bytes) && checked_add(*bytes, queue, bytes)) ||
           error_set(error, STATUS_BAD_INPUT, "a stage needs more than 2^64 bytes");
}

/* Of blocks [first, end). */
static void set_run(const struct model *model, size_t first, size_t end, struct part *part)
{
    part->first_layer = model->blocks[first].first_layer;
    part->end_layer = model->blocks[end - 1].end_layer;
    part->gradient_in = end < model->block_count;
    part->gradient_out = first > 0;
}

/* The stage, of the whole model. */
static bool stage_part(const struct stage_demand *demand, const struct planner *planner,
                       size_t stage, struct part *part, struct error *error)
{
    memset(part, 0, sizeof *part); /* padding too: alike() compares bytes */
    part->stage = (uint32_t)stage;
    part->trains = true;
    set_run(planner->plan->model, 0, planner->plan->model->block_count, part);
    return demand->fill(demand->context, planner, stage, part, error);
}

static bool run_bytes(const struct stage_demand *demand, const struct planner *planner,
                      const struct part *stage, size_t first, size_t end, uint64_t *bytes,
                      struct error *error)
{
    struct part part = *stage;
    set_run(planner->plan->model, first, end, &part);
    return part_bytes(demand, planner->plan, &part, bytes, error);
}

static uint64_t capacity_of(const struct stages *stages, const struct planner *planner,
                            size_t stage)
{
    size_t processors = stages->processors > 0 ? stages->processors : stages->count;
    uint64_t chunks = stages->count / processors; /* share a processor */
    uint32_t processor = stage_processor(planner, stage % processors);
    return platform_processor(planner->setting->platform, processor)->memory_bytes / chunks;
}

/* Often the whole model would fit anywhere, with the most micro-batches in flight that any
 * stage has: then memory is no concern. */
static bool fits_anyway(const struct stages *stages, const struct stage_demand *demand,
                        const struct planner *planner, bool *fits, struct error *error)
{
    uint64_t capacity = UINT64_MAX, bytes;
    struct part worst = {0};
    for (size_t s = 0; s < stages->count; s++) {
        struct part part;
        if (!stage_part(demand, planner, s, &part, error))
            return false;
        if (part.slots > worst.slots)
            worst = part;
        if (capacity_of(stages, planner, s) < capacity)
            capacity = capacity_of(stages, planner, s);
    }
    worst.recompute = RECOMPUTE_NONE;
    if (!part_bytes(demand, planner->plan, &worst, &bytes, error))
        return false;
    *fits = bytes <= capacity;
    return true;
}

/* A longer run of blocks needs no less, so both ends only move on. */
static bool lowest_of(const struct stage_demand *demand, const struct planner *planner,
                      const struct part *stage, uint64_t capacity, size_t *lowest,
                      bool *limits, struct error *error)
{
    size_t blocks = planner->plan->model->block_count;
    uint64_t bytes;
    if (!run_bytes(demand, planner, stage, 0, blocks, &bytes, error))
        return false;
    if (bytes <= capacity)
        return true;
    *limits = true;
    for (size_t a = 0, b = 1; b <= blocks; b++) {
        for (; a < b; a++) {
            if (!run_bytes(demand, planner, stage, a, b, &bytes, error))
                return false;
            if (bytes <= capacity)
                break;
        }
        lowest[b] = a;
    }
    return true;
}

/* Do both stages ask the same of their processors? */
static bool alike(const struct part *a, const struct part *b)
{
    struct part other = *b;
    other.stage = a->stage;
    return memcmp(a, &other, sizeof other) == 0;
}

static bool find_lowest(const struct stages *stages, const struct stage_demand *demand,
                        const struct planner *planner, size_t *lowest, bool *limits,
                        struct error *error)
{
    size_t width = planner->plan->model->block_count + 1;
    struct part part, before;
    uint64_t capacity, capacity_before = 0;
    bool fits = true;
    *limits = false;
    if (demand != NULL && !fits_anyway(stages, demand, planner, &fits, error))
        return false;
    for (size_t s = 0; !fits && s < stages->count; s++) {
        capacity = capacity_of(stages, planner, s);
        if (!stage_part(demand, planner, s, &part, error))
            return false;
        if (s > 0 && capacity == capacity_before && alike(&part, &before))
            memcpy(&lowest[s * width], &lowest[(s - 1) * width], width * sizeof *lowest);
        else if (!lowest_of(demand, planner, &part, capacity, &lowest[s * width], limits,
                            error))
            return false;
        before = part;
        capacity_before = capacity;
    }
    return true;
}

struct cut {
    double *prefix, *best;
    size_t *from, *lowest;
};

static bool allocate(struct cut *cut, size_t cells, struct error *error)
{
    cut->prefix = checked_calloc(cells, sizeof *cut->prefix);
    cut->best = checked_calloc(cells, sizeof *cut->best);
    cut->from = checked_calloc(cells, sizeof *cut->from);
    cut->lowest = checked_calloc(cells, sizeof *cut->lowest);
    return (cut->prefix != NULL && cut->best != NULL && cut->from != NULL &&
            cut->lowest != NULL) ||
           error_memory(error, "partition");
}

/* First with full queues, which may never be; then with empty ones; and when no cut fits
 * even so, without a limit: the run will tell what is lacking. */
static bool solve_within(const struct stages *stages, const struct stage_demand *demand,
                         const struct planner *planner, struct cut *cut, struct error *error)
{
    size_t blocks = planner->plan->model->block_count, cells = stages->count * (blocks + 1);
    struct stage_demand full = demand != NULL ? *demand : (struct stage_demand){0}, empty = full;
    const struct stage_demand *const tries[] = {&full, &empty, NULL};
    empty.queue_capacity = 0;
    for (size_t i = demand != NULL ? 0 : 2; i < 3; i++) {
        bool limits;
        memset(cut->lowest, 0, cells * sizeof *cut->lowest);
        if (!find_lowest(stages, tries[i], planner, cut->lowest, &limits, error))
            return false;
        solve(cut->prefix, cut->lowest, blocks, stages, cut->best, cut->from);
        if (!limits || !isinf(cut->best[cells - 1]))
            break;
    }
    return true;
}

static bool cut_by_cost(const struct stages *stages, const struct stage_demand *demand,
                        const struct planner *planner, size_t *end_block,
                        struct error *error)
{
    const struct model *model = planner->plan->model;
    size_t blocks = model->block_count, cells = stages->count * (blocks + 1);
    struct cut cut = {0};
    bool done = allocate(&cut, cells, error) &&
                prefix_sums(planner, model, stages, cut.prefix, error) &&
                solve_within(stages, demand, planner, &cut, error);
    if (done) {
        size_t end = blocks;
        for (size_t s = stages->count; s-- > 0;) {
            end_block[s] = end;
            end = cut.from[s * (blocks + 1) + end];
        }
    }
    free(cut.prefix);
    free(cut.best);
    free(cut.from);
    free(cut.lowest);
    return done;
}

bool stages_cut(const struct stages *stages, const struct stage_demand *demand,
                const struct planner *planner, size_t *end_block, struct error *error)
{
    const struct model *model = planner->plan->model;
    size_t every = stages->every > 1 ? stages->every : 1;
    size_t units = model->block_count / every + (model->block_count % every != 0);
    if (stages->count > units && every > 1)
        return error_set(error, STATUS_BAD_INPUT,
                         "stages: %zu stages, but the %zu blocks of model \"%s\" make only %zu "
                         "runs of %zu",
                         stages->count, model->block_count, model->name, units, every);
    if (stages->count > units)
        return error_set(error, STATUS_BAD_INPUT,
                         "stages: %zu stages, but model \"%s\" has only %zu blocks",
                         stages->count, model->name, model->block_count);
    if (stages->blocks != NULL)
        return cut_by_list(stages, model, end_block, error);
    return cut_by_cost(stages, demand, planner, end_block, error);
}
