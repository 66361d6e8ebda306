/* Schedules of pipelines: in which order a processor runs the forwards and backwards of
 * its stages. One schedule is one file in sim/schedules/ and one line in the table of
 * sim/schedule.c. */
#ifndef PODSIM_SIM_SCHEDULE_H
#define PODSIM_SIM_SCHEDULE_H

#include "sim/plan.h"

/* A processor of the pipeline. Its chunk c is stage c * processors + rank. */
struct schedule_place {
    uint64_t processors, rank;
    uint64_t chunks;        /* stages of a processor; 1 but for virtual stages */
    uint64_t micro_batches; /* of a step */
};

/* FORWARD and BACKWARD (or its two halves) take in what they need and pass on what they
 * make; a BARRIER is for all processors of the pipeline, and passes on what was made
 * since the last one. */
struct task {
    enum operation operation;
    uint32_t chunk;
    int64_t micro_batch; /* as in struct instruction */
};

struct task_list {
    struct task *tasks;
    size_t count, capacity;
};

struct schedule {
    const char *name;
    const char *summary;
    bool virtual_stages; /* several stages a processor */
    bool split_backward; /* BACKWARD_INPUT and BACKWARD_WEIGHT, never BACKWARD */
    bool lock_step;      /* has barriers */
    /* The tasks of a step, before its update. For each chunk, micro-batches go forward in
     * their order, and backward in the same. */
    bool (*body)(const struct schedule_place *place, struct task_list *list,
                 struct error *error);
    /* Optional: once, before the first step. */
    bool (*prologue)(const struct schedule_place *place, struct task_list *list,
                     struct error *error);
    /* Optional: versions of the weights that are needed at once; 1 without it. */
    uint64_t (*weight_versions)(const struct schedule_place *place);
    /* Optional: messages that an edge must hold at most, lest a sender wait; 2 without. */
    uint64_t (*queue_capacity)(uint64_t processors);
};

size_t schedule_count(void);
const struct schedule *schedule_get(size_t index);

bool task_add(struct task_list *list, enum operation operation, uint64_t chunk,
              uint64_t micro_batch, struct error *error);
void task_list_free(struct task_list *list);

/* The micro-batches of a chunk whose stash is held at once, at most. */
bool schedule_slots(const struct schedule *schedule, const struct schedule_place *place,
                    uint64_t chunk, uint32_t *slots, struct error *error);

/* Forwards ahead of the backwards, then one backward, one forward, until all are done:
 * what most schedules are made of. `ahead` >= 1, or 0 without micro-batches. */
bool schedule_ahead(uint64_t ahead, uint64_t micro_batches, struct task_list *list,
                    struct error *error);

#endif
