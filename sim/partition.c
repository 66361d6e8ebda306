#include "sim/partition.h"

#include "base/checked.h"
#include "sim/cost.h"

#include <math.h>
#include <stdlib.h>

bool stages_read(const struct json_at *object, size_t fallback, struct stages *stages,
                 struct error *error)
{
    struct json_at at;
    *stages = (struct stages){.count = fallback};
    if (!json_optional(object, "stages", &at) || !json_is_array(&at)) {
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
                          size_t block, uint32_t processor, double *seconds,
                          struct error *error)
{
    const struct setting *setting = planner->setting;
    *seconds = 0;
    for (size_t i = model->blocks[block].first_layer; i < model->blocks[block].end_layer; i++)
        for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
            struct pass_cost cost;
            if (!cost_layer(&model->layers[i], (enum pass)pass, true, setting->micro_batch,
                            &setting->precision,
                            platform_processor(setting->platform, processor), &cost, error))
                return false;
            *seconds += cost.seconds;
        }
    return true;
}

/* best[s][b]: the slowest of stages 0..s when they hold blocks 0..b. */
static void solve(const double *prefix, size_t blocks, const struct stages *cut, double *best,
                  size_t *from)
{
    size_t stages = cut->count;
    for (size_t s = 0; s < stages; s++) {
        const double *sum = prefix + s * (blocks + 1);
        for (size_t b = s + 1; b <= blocks; b++) {
            double least = INFINITY;
            size_t where = s;
            best[s * (blocks + 1) + b] = INFINITY;
            if (!may_end(cut, blocks, b))
                continue;
            for (size_t a = s == 0 ? 0 : s; a < (s == 0 ? 1 : b); a++) {
                double before = s == 0 ? 0 : best[(s - 1) * (blocks + 1) + a];
                double here = fmax(before, sum[b] - sum[a]);
                if (here < least) {
                    least = here;
                    where = a;
                }
            }
            best[s * (blocks + 1) + b] = least;
            from[s * (blocks + 1) + b] = where;
        }
    }
}

static uint32_t stage_processor(const struct planner *planner, size_t stage)
{
    size_t place = planner->placed + stage;
    const struct method *method = planner->method;
    if (method->placement != NULL)
        return place < method->placement_count ? method->placement[place] : 0;
    return place < planner->plan->processor_count ? (uint32_t)place : 0;
}

static bool prefix_sums(const struct planner *planner, const struct model *model,
                        const struct stages *stages, double *prefix, struct error *error)
{
    size_t width = model->block_count + 1;
    size_t processors = stages->processors > 0 ? stages->processors : stages->count;
    for (size_t s = 0; s < stages->count; s++) {
        uint32_t processor = stage_processor(planner, s % processors);
        prefix[s * width] = 0;
        for (size_t b = 0; b < model->block_count; b++) {
            double seconds;
            if (!block_seconds(planner, model, b, processor, &seconds, error))
                return false;
            prefix[s * width + b + 1] = prefix[s * width + b] + seconds;
        }
    }
    return true;
}

static bool cut_by_cost(const struct stages *stages, const struct planner *planner,
                        const struct model *model, size_t *end_block, struct error *error)
{
    size_t cells = stages->count * (model->block_count + 1);
    double *prefix = checked_calloc(cells, sizeof *prefix);
    double *best = checked_calloc(cells, sizeof *best);
    size_t *from = checked_calloc(cells, sizeof *from);
    bool done = prefix != NULL && best != NULL && from != NULL;
    if (!done)
        error_memory(error, "partition");
    done = done && prefix_sums(planner, model, stages, prefix, error);
    if (done) {
        solve(prefix, model->block_count, stages, best, from);
        size_t end = model->block_count;
        for (size_t s = stages->count; s-- > 0;) {
            end_block[s] = end;
            end = from[s * (model->block_count + 1) + end];
        }
    }
    free(prefix);
    free(best);
    free(from);
    return done;
}

bool stages_cut(const struct stages *stages, const struct planner *planner,
                const struct model *model, size_t *end_block, struct error *error)
{
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
    return cut_by_cost(stages, planner, model, end_block, error);
}
