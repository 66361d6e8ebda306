/* Interleaved 1F1B (Narayanan et al. 2021, section 2.2): every processor has several
 * stages, a p-th of the model apart, so that the ramps are that much shorter.
 *
 * Micro-batches go through the chunks of a processor in groups: the whole group through
 * the first chunk, then through the second, and so on. Groups are of p micro-batches in
 * the paper, which asks for a multiple of p. Here any count is possible: there are m / p
 * groups (one at least), as even as can be. Smaller groups than p would deadlock. */
#include "sim/schedule.h"

extern const struct schedule schedule_interleaved;

static uint64_t group_count(const struct schedule_place *place)
{
    uint64_t groups = place->micro_batches / place->processors;
    return groups > 0 ? groups : 1;
}

/* The larger ones are first. */
static uint64_t group_size(const struct schedule_place *place, uint64_t group)
{
    uint64_t groups = group_count(place), m = place->micro_batches;
    return m / groups + (group < m % groups ? 1 : 0);
}

/* All forwards, or all backwards, in the order in which the processor runs them. */
static bool list_all(const struct schedule_place *place, enum operation operation,
                     struct task_list *list, struct error *error)
{
    uint64_t first = 0;
    for (uint64_t group = 0; group < group_count(place); group++) {
        uint64_t size = group_size(place, group);
        for (uint64_t c = 0; c < place->chunks; c++)
            for (uint64_t i = 0; i < size; i++) {
                uint64_t chunk = operation == OP_FORWARD ? c : place->chunks - 1 - c;
                if (!task_add(list, operation, chunk, first + i, error))
                    return false;
            }
        first += size;
    }
    return true;
}

/* Forwards before the first backward of the steady state's pairs. */
static uint64_t warm_up(const struct schedule_place *place)
{
    uint64_t group = group_size(place, 0);
    if (group < place->processors)
        group = place->processors;
    return 2 * (place->processors - 1 - place->rank) + (place->chunks - 1) * group;
}

static bool merge(const struct task_list *forwards, const struct task_list *backwards,
                  uint64_t ahead, struct task_list *list, struct error *error)
{
    size_t next = 0;
    for (size_t i = 0; i < backwards->count; i++) {
        for (; next < forwards->count && next <= i + ahead; next++)
            if (!task_add(list, OP_FORWARD, forwards->tasks[next].chunk,
                          (uint64_t)forwards->tasks[next].micro_batch, error))
                return false;
        if (!task_add(list, OP_BACKWARD, backwards->tasks[i].chunk,
                      (uint64_t)backwards->tasks[i].micro_batch, error))
            return false;
    }
    return true;
}

static bool body(const struct schedule_place *place, struct task_list *list,
                 struct error *error)
{
    struct task_list forwards = {0}, backwards = {0};
    bool made = list_all(place, OP_FORWARD, &forwards, error) &&
                list_all(place, OP_BACKWARD, &backwards, error) &&
                merge(&forwards, &backwards, warm_up(place), list, error);
    task_list_free(&forwards);
    task_list_free(&backwards);
    return made;
}

/* The largest group may wait for a processor that is at another chunk. */
static uint64_t queue_capacity(uint64_t processors)
{
    return 2 * processors;
}

const struct schedule schedule_interleaved = {
    .name = "interleaved",
    .summary = "1F1B over several stages a processor: shorter ramps, more messages",
    .virtual_stages = true,
    .body = body,
    .queue_capacity = queue_capacity,
};
