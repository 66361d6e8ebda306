#include "sim/schedule.h"

#include "base/checked.h"

#include <stdlib.h>

extern const struct schedule schedule_1f1b, schedule_gpipe, schedule_grouped,
    schedule_interleaved, schedule_zero_bubble, schedule_pipedream;

/* The first one is the default. */
static const struct schedule *const schedules[] = {
    &schedule_1f1b,        &schedule_gpipe,       &schedule_grouped,
    &schedule_interleaved, &schedule_zero_bubble, &schedule_pipedream,
};

size_t schedule_count(void)
{
    return sizeof schedules / sizeof schedules[0];
}

const struct schedule *schedule_get(size_t index)
{
    return schedules[index];
}

bool task_add(struct task_list *list, enum operation operation, uint64_t chunk,
              uint64_t micro_batch, struct error *error)
{
    if (!checked_grow((void **)&list->tasks, &list->capacity, list->count + 1,
                      sizeof *list->tasks))
        return error_memory(error, "schedule");
    list->tasks[list->count++] = (struct task){operation, (uint32_t)chunk, (int64_t)micro_batch};
    return true;
}

void task_list_free(struct task_list *list)
{
    free(list->tasks);
    *list = (struct task_list){0};
}

/* Goes through the tasks from `held` micro-batches on; the most that are held come back. */
static uint64_t most_held(const struct task_list *list, uint64_t chunk, uint64_t *held)
{
    uint64_t most = *held;
    for (size_t i = 0; i < list->count; i++) {
        const struct task *task = &list->tasks[i];
        if (task->chunk != chunk)
            continue;
        if (task->operation == OP_FORWARD && ++*held > most)
            most = *held;
        if (task->operation == OP_BACKWARD || task->operation == OP_BACKWARD_WEIGHT)
            --*held;
    }
    return most;
}

bool schedule_slots(const struct schedule *schedule, const struct schedule_place *place,
                    uint64_t chunk, uint32_t *slots, struct error *error)
{
    struct task_list prologue = {0}, body = {0};
    bool made = (schedule->prologue == NULL || schedule->prologue(place, &prologue, error)) &&
                schedule->body(place, &body, error);
    if (made) {
        uint64_t held = 0;
        uint64_t before = most_held(&prologue, chunk, &held);
        uint64_t during = most_held(&body, chunk, &held);
        *slots = (uint32_t)(before > during ? before : during);
    }
    task_list_free(&prologue);
    task_list_free(&body);
    return made;
}

bool schedule_ahead(uint64_t ahead, uint64_t micro_batches, struct task_list *list,
                    struct error *error)
{
    uint64_t forwards = 0;
    for (uint64_t backwards = 0; backwards < micro_batches; backwards++) {
        for (; forwards < micro_batches && forwards < backwards + ahead; forwards++)
            if (!task_add(list, OP_FORWARD, 0, forwards, error))
                return false;
        if (!task_add(list, OP_BACKWARD, 0, backwards, error))
            return false;
    }
    return true;
}
