#include "sim/steady.h"

#include "base/checked.h"

#include <math.h>
#include <stdlib.h>

enum { REPEATS = 2 };

struct course {
    double *last_s;  /* an instruction: when it ended, in the step before */
    double period_s; /* of the step under way, from its first instruction */
    double longest_off_s; /* the largest departure from it */
    double settled_s;     /* period of the repeats so far */
    uint64_t repeats;
    uint64_t begun;
};

struct steady {
    const struct plan *plan;
    struct course *courses; /* a stream */
    uint64_t look_ahead;    /* steps */
    uint64_t warm;          /* steps in which something may be left out: it would belong to
                             * steps before the first */
    size_t settled;         /* streams with enough repeats */
    double period_s;
};

static bool alike(const struct plan *plan)
{
    for (size_t s = 0; s < plan->stream_count; s++) {
        const struct code *body = &plan->streams[s].body;
        for (size_t i = 0; i < body->count; i++)
            if (body->instructions[i].every > 1 || body->instructions[i].from_step > 0)
                return false;
    }
    for (size_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].background)
            return false;
    return true;
}

struct steady *steady_create(const struct plan *plan, struct error *error)
{
    if (!alike(plan))
        return NULL;
    struct steady *steady = checked_calloc(1, sizeof *steady);
    if (steady != NULL)
        steady->courses = checked_calloc(plan->stream_count, sizeof *steady->courses);
    bool made = steady != NULL && steady->courses != NULL;
    if (made) {
        steady->plan = plan;
        plan_reach(plan, &steady->warm, &steady->look_ahead);
        if (steady->look_ahead > steady->warm)
            steady->warm = steady->look_ahead;
    }
    for (size_t s = 0; made && s < plan->stream_count; s++) {
        steady->courses[s].last_s =
            checked_calloc(plan->streams[s].body.count, sizeof(double));
        made = steady->courses[s].last_s != NULL;
    }
    if (made)
        return steady;
    steady_free(steady);
    error_memory(error, "steady state");
    return NULL;
}

void steady_free(struct steady *steady)
{
    if (steady == NULL)
        return;
    for (size_t s = 0; steady->courses != NULL && steady->plan != NULL &&
                       s < steady->plan->stream_count;
         s++)
        free(steady->courses[s].last_s);
    free(steady->courses);
    free(steady);
}

void steady_note(struct steady *steady, size_t stream, size_t index, uint64_t step,
                 double now_s)
{
    struct course *course = &steady->courses[stream];
    double since_s = now_s - course->last_s[index];
    course->last_s[index] = now_s;
    course->begun = step + 1;
    if (index == 0) {
        course->period_s = since_s;
        course->longest_off_s = 0;
    }
    course->longest_off_s = fmax(course->longest_off_s, fabs(since_s - course->period_s));
}

/* To rounding: the clock's own last bits, and a little. */
static bool same(double a_s, double b_s, double now_s)
{
    return fabs(a_s - b_s) <= 1e-14 * now_s + 1e-12 * fabs(b_s);
}

bool steady_step_done(struct steady *steady, size_t stream, uint64_t step)
{
    struct course *course = &steady->courses[stream];
    size_t count = steady->plan->streams[stream].body.count;
    if (count == 0 || step <= steady->warm)
        return false;
    double now_s = course->last_s[count - 1];
    bool repeats = same(course->longest_off_s, 0, now_s) ||
                   course->longest_off_s <= 1e-12 * course->period_s;
    if (!repeats || !same(course->period_s, course->settled_s, now_s)) {
        steady->settled -= course->repeats >= REPEATS;
        course->repeats = repeats ? 1 : 0;
        course->settled_s = course->period_s;
        return false;
    }
    course->repeats++;
    steady->settled += course->repeats == REPEATS;
    if (steady->settled < steady->plan->stream_count)
        return false;
    for (size_t s = 0; s < steady->plan->stream_count; s++)
        if (!same(steady->courses[s].settled_s, course->settled_s, now_s))
            return false;
    steady->period_s = course->settled_s;
    return true;
}

uint64_t steady_look_ahead(const struct steady *steady)
{
    return steady->look_ahead;
}

double steady_period_s(const struct steady *steady)
{
    return steady->period_s;
}

uint64_t steady_begun(const struct steady *steady)
{
    uint64_t most = 0;
    for (size_t s = 0; s < steady->plan->stream_count; s++)
        if (steady->courses[s].begun > most)
            most = steady->courses[s].begun;
    return most;
}
