#include "analysis/learning.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

struct learning_sink {
    struct event_sink sink; /* first */
    struct learning learning;
};

/* Points come nearly in order; a slower copy tells an earlier step late. */
static bool add_point(struct learning_series *series, const struct event *event,
                      struct error *error)
{
    size_t at = series->count;
    while (at > 0 && series->points[at - 1].step > event->step + 1)
        at--;
    if (at > 0 && series->points[at - 1].step == event->step + 1) {
        struct learning_point *point = &series->points[at - 1];
        point->value += (event->value - point->value) / (double)++point->copies;
        point->time_s = event->end_s;
        return true;
    }
    if (!checked_grow((void **)&series->points, &series->capacity, series->count + 1,
                      sizeof *series->points))
        return error_memory(error, "learning curve");
    memmove(&series->points[at + 1], &series->points[at],
            (series->count - at) * sizeof *series->points);
    series->points[at] =
        (struct learning_point){event->step + 1, event->end_s, event->value, 1};
    series->count++;
    return true;
}

static bool take(struct event_sink *sink, const struct event *event, struct error *error)
{
    struct learning *learning = &((struct learning_sink *)sink)->learning;
    if (event->kind != EVENT_METRIC)
        return true;
    if (strcmp(event->name, "loss") == 0)
        return add_point(&learning->loss, event, error);
    if (strcmp(event->name, "accuracy") == 0)
        return add_point(&learning->accuracy, event, error);
    if (strcmp(event->name, "test loss") == 0)
        return add_point(&learning->test_loss, event, error);
    return true;
}

static bool finish(struct event_sink *sink, double total_s, struct error *error)
{
    (void)sink;
    (void)total_s;
    (void)error;
    return true;
}

static void release(struct event_sink *sink)
{
    struct learning_sink *own = (struct learning_sink *)sink;
    free(own->learning.loss.points);
    free(own->learning.accuracy.points);
    free(own->learning.test_loss.points);
    free(own);
}

struct event_sink *learning_open(struct error *error)
{
    struct learning_sink *own = checked_calloc(1, sizeof *own);
    if (own == NULL) {
        error_memory(error, "learning curve");
        return NULL;
    }
    own->sink = (struct event_sink){take, finish, release, NULL};
    return &own->sink;
}

const struct learning *learning_get(const struct event_sink *sink)
{
    return &((const struct learning_sink *)sink)->learning;
}
