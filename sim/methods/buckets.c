#include "sim/methods/buckets.h"

#include "base/checked.h"
#include "sim/collective.h"

#include <stdlib.h>

/* ---- where to cut ---- */

static void add_bucket(struct plan *plan, struct part *part, size_t first_layer,
                       size_t end_layer)
{
    uint64_t before =
        model_run_parameter_count(plan->model, part->first_layer, first_layer);
    uint64_t until = model_run_parameter_count(plan->model, part->first_layer, end_layer);
    part->buckets[part->bucket_count++] =
        (struct bucket){(uint32_t)first_layer, (uint32_t)end_layer, before, until - before};
}

bool buckets_cut(struct plan *plan, uint32_t index, uint64_t count, struct error *error)
{
    struct part *part = &plan->parts[index];
    size_t layers = part->end_layer - part->first_layer;
    uint64_t total = plan_part_parameters(plan, part);
    if (count > layers)
        count = layers;
    part->buckets = checked_calloc((size_t)count, sizeof *part->buckets);
    if (part->buckets == NULL)
        return error_memory(error, "buckets");
    size_t first_layer = part->first_layer;
    uint64_t behind = 0; /* parameters of the buckets so far */
    for (size_t i = part->first_layer + 1; i < part->end_layer; i++) {
        uint64_t first, size,
            so_far = model_run_parameter_count(plan->model, part->first_layer, i);
        collective_piece(total, (uint32_t)count, (uint32_t)part->bucket_count, &first,
                         &size);
        /* Layers without parameters stay with what comes before them. */
        bool next_has =
            model_run_parameter_count(plan->model, part->first_layer, i + 1) > so_far;
        if (so_far < first + size || so_far == behind || so_far == total || !next_has)
            continue;
        add_bucket(plan, part, first_layer, i);
        first_layer = i;
        behind = so_far;
    }
    add_bucket(plan, part, first_layer, part->end_layer);
    return true;
}

/* ---- programs ---- */

struct rewriting {
    struct planner *planner;
    struct plan *plan;
    bool overlap;     /* all processors do */
    bool *mine;       /* a processor: its programs are to be rewritten */
    bool *begun;      /* a part: its exchange under way began in its backward */
    uint32_t *starts; /* a part: edge that tells its side stream of a finished bucket */
    uint32_t *dones;  /* a part: edge that tells of a finished exchange */
    uint32_t *sides;  /* a processor: its side stream, PLAN_NONE: not yet */
};

static bool is_backward(enum operation operation)
{
    return operation == OP_BACKWARD || operation == OP_BACKWARD_WEIGHT ||
           operation == OP_BACKWARD_RECEIVED;
}

static bool append(struct code *code, const struct instruction *instruction,
                   struct error *error)
{
    if (!checked_grow((void **)&code->instructions, &code->capacity, code->count + 1,
                      sizeof *code->instructions))
        return error_memory(error, "program");
    code->instructions[code->count++] = *instruction;
    return true;
}

static bool belongs_to_sums(const struct part *part, const struct instruction *i)
{
    for (size_t k = 0; i->operation == OP_COLLECTIVE && k < part->sum_count; k++)
        if (part->sums[k] == i->target)
            return true;
    return false;
}

/* The instruction, if any, after which the part's gradients are complete when it comes to
 * its sums at `at`. */
static size_t last_backward(const struct code *code, size_t at, uint32_t part)
{
    while (at-- > 0) {
        const struct instruction *i = &code->instructions[at];
        if (i->part == part && i->operation == OP_UPDATE)
            break;
        if (i->part == part && is_backward(i->operation))
            return at;
    }
    return SIZE_MAX;
}

/* Whether the part's exchange runs beside its backward. */
static bool beside(const struct rewriting *r, uint32_t index)
{
    const struct part *part = &r->plan->parts[index];
    return r->overlap && part->sum_count > 1 && !part->shard_gradients;
}

/* Marks the backward of the part's last micro-batch before its sums at `at`: they can begin
 * in it. */
static bool mark_last_backward(const struct code *code, size_t at, uint32_t part, bool *early)
{
    size_t last = last_backward(code, at, part);
    if (last == SIZE_MAX)
        return false;
    for (size_t i = last + 1; i-- > 0;) {
        const struct instruction *of = &code->instructions[i];
        if (of->part == part && of->operation == code->instructions[last].operation &&
            of->micro_batch == code->instructions[last].micro_batch)
            early[i] = true;
        if (of->part == part && of->operation == OP_UPDATE)
            break;
    }
    return true;
}

/* For every instruction whether it is a backward to be cut (for a side stream) or an
 * exchange that such a one has begun. */
static void find_early(const struct rewriting *r, const struct code *code, bool *early)
{
    for (size_t i = 0; i < code->count; i++) {
        const struct instruction *at = &code->instructions[i];
        const struct part *part = &r->plan->parts[at->part];
        if (!belongs_to_sums(part, at))
            continue;
        if (at->target == part->sums[0])
            r->begun[at->part] =
                beside(r, at->part) && mark_last_backward(code, i, at->part, early);
        early[i] = r->begun[at->part];
    }
}

static bool open_side(struct rewriting *r, uint32_t part, struct error *error)
{
    struct plan *plan = r->plan;
    uint32_t processor = plan->parts[part].processor;
    uint64_t sums = plan->parts[part].sum_count;
    struct stream *stream;
    if (r->sides[processor] == PLAN_NONE) {
        if (!plan_add_stream(plan, processor, &stream, error))
            return false;
        r->sides[processor] = (uint32_t)(stream - plan->streams);
    }
    return r->starts[part] != PLAN_NONE ||
           (plan_add_edge(plan, part, part, PAYLOAD_SIGNAL, sums, &r->starts[part],
                          error) &&
            plan_add_edge(plan, part, part, PAYLOAD_SIGNAL, sums, &r->dones[part], error));
}

/* After a bucket's gradients: a word to the side stream, which does the rest. */
static bool begin_early(struct rewriting *r, struct code *out, uint32_t part, size_t sum,
                        struct error *error)
{
    if (!open_side(r, part, error))
        return false;
    struct code *side = &r->plan->streams[r->sides[r->plan->parts[part].processor]].body;
    return code_add(out, OP_SEND, part, r->starts[part], 0, error) &&
           code_add(side, OP_RECEIVE, part, r->starts[part], 0, error) &&
           code_add(side, OP_COLLECTIVE, part, r->plan->parts[part].sums[sum], 0, error) &&
           code_add(side, OP_SEND, part, r->dones[part], 0, error);
}

/* After a bucket's gradients their exchange, before the next may use its memory. */
static bool exchange_now(struct rewriting *r, struct code *out, uint32_t part, size_t sum,
                         struct error *error)
{
    return code_add(out, OP_COLLECTIVE, part, r->plan->parts[part].sums[sum], 0, error);
}

/* A backward, cut where buckets end; what comes after each of them. Sums are in the order of
 * backward. */
static bool cut_backward(struct rewriting *r, struct code *out,
                         const struct instruction *backward,
                         bool (*after)(struct rewriting *r, struct code *out, uint32_t part,
                                       size_t sum, struct error *error),
                         struct error *error)
{
    const struct part *part = &r->plan->parts[backward->part];
    const bool whole = backward->end_layer == 0;
    const size_t first = whole ? part->first_layer : backward->first_layer;
    const size_t end = whole ? part->end_layer : backward->end_layer;
    const size_t count = plan_bucket_count(part);
    for (size_t sum = 0; sum < count; sum++) {
        const struct bucket bucket = plan_bucket(r->plan, part, count - 1 - sum);
        size_t from = bucket.first_layer > first ? bucket.first_layer : first;
        size_t to = bucket.end_layer < end ? bucket.end_layer : end;
        if (from >= to)
            continue;
        if (!append(out, backward, error))
            return false;
        if (from != part->first_layer || to != part->end_layer)
            code_layers(out, from, to);
        if (from == bucket.first_layer && !after(r, out, backward->part, sum, error))
            return false;
    }
    return true;
}

static bool rewrite_instruction(struct rewriting *r, struct code *out,
                                const struct instruction *i, bool early,
                                struct error *error)
{
    const struct part *part = &r->plan->parts[i->part];
    bool shards = part->shard_gradients && part->sum_count > 0;
    if (is_backward(i->operation) && shards)
        return cut_backward(r, out, i, exchange_now, error);
    if (is_backward(i->operation) && early)
        return cut_backward(r, out, i, begin_early, error);
    if (belongs_to_sums(part, i) && shards)
        return true;
    if (belongs_to_sums(part, i) && early)
        return code_add(out, OP_RECEIVE, i->part, r->dones[i->part], 0, error);
    return append(out, i, error);
}

static bool rewrite(struct rewriting *r, size_t stream, struct error *error)
{
    struct code body = r->plan->streams[stream].body, out = {0};
    bool *early = checked_calloc(body.count, sizeof *early);
    bool done = early != NULL || error_memory(error, "program");
    if (done)
        find_early(r, &body, early);
    for (size_t i = 0; done && i < body.count; i++)
        done = rewrite_instruction(r, &out, &body.instructions[i], early[i], error);
    free(early);
    if (!done) {
        free(out.instructions);
        return false;
    }
    free(body.instructions);
    r->plan->streams[stream].body = out;
    return true;
}

static uint32_t *numbers(size_t count)
{
    uint32_t *list = checked_calloc(count, sizeof *list);
    for (size_t i = 0; list != NULL && i < count; i++)
        list[i] = PLAN_NONE;
    return list;
}

static void find_processors(struct rewriting *r, uint32_t first, uint32_t end)
{
    const struct plan *plan = r->plan;
    for (uint32_t p = plan->copies[first].first_part; p < plan->copies[end - 1].end_part;
         p++) {
        uint32_t processor = plan->parts[p].processor;
        r->mine[processor] = true;
        /* All or none: side and main streams would come to collectives in different
         * orders. */
        r->overlap = r->overlap &&
                     platform_processor(r->planner->setting->platform, processor)->overlap;
    }
}

bool buckets_interleave(struct planner *planner, uint32_t first, uint32_t end,
                        struct error *error)
{
    struct plan *plan = planner->plan;
    struct rewriting r = {.planner = planner,
                          .plan = plan,
                          .overlap = true,
                          .mine = checked_calloc(plan->processor_count, sizeof *r.mine),
                          .begun = checked_calloc(plan->part_count, sizeof *r.begun),
                          .starts = numbers(plan->part_count),
                          .dones = numbers(plan->part_count),
                          .sides = numbers(plan->processor_count)};
    bool done = (r.mine != NULL && r.begun != NULL && r.starts != NULL && r.dones != NULL &&
                 r.sides != NULL) ||
                error_memory(error, "programs");
    if (done)
        find_processors(&r, first, end);
    size_t streams = plan->stream_count; /* side streams come behind these */
    for (size_t s = 0; done && s < streams; s++)
        done = !r.mine[plan->streams[s].processor] || rewrite(&r, s, error);
    free(r.mine);
    free(r.begun);
    free(r.starts);
    free(r.dones);
    free(r.sides);
    return done;
}
