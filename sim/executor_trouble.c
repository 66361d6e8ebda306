/* Stragglers, degraded links and failures, as the platform file tells them.
 *   A straggler's computations take longer by its factor of the moment they begin.
 *   A degraded link carries less, also in the middle of a message. A link that is down
 *   (factor 0) lets no message begin; one under way comes through.
 *   A failed processor begins no instruction until it is back; for good: never again. */
#include "sim/executor_internal.h"

#include "base/checked.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool trouble_changes_links(const struct platform *platform)
{
    return platform_trouble(platform)->degradation_count > 0;
}

bool trouble_any(const struct platform *platform)
{
    const struct trouble *t = platform_trouble(platform);
    return t->straggler_count > 0 || t->degradation_count > 0 || t->failure_count > 0;
}

double trouble_factor(const struct executor *x, uint32_t processor)
{
    return x->troubled ? platform_straggling(x->execution->platform, processor,
                                             machine_now_s())
                       : 1;
}

/* When a failure of the processor that holds now ends; now when there is none. */
static double back_s(const struct executor *x, uint32_t processor, double now_s)
{
    const struct trouble *t = platform_trouble(x->execution->platform);
    double back = now_s;
    for (size_t i = 0; i < t->failure_count; i++)
        if (t->failures[i].processor == processor && t->failures[i].at_s <= now_s &&
            t->failures[i].until_s > back)
            back = t->failures[i].until_s;
    return back;
}

void trouble_stand(struct walker *w)
{
    double now_s = machine_now_s();
    if (!w->executor->troubled)
        return;
    for (double back = back_s(w->executor, w->processor, now_s); back > now_s;
         back = back_s(w->executor, w->processor, now_s)) {
        if (isinf(back)) {
            w->lost = true;
            gate_wait(w->gate); /* nobody opens it */
        }
        machine_sleep(back - now_s);
        executor_waited(w, "failed", now_s);
        now_s = machine_now_s();
    }
}

/* The factor of a link at a moment, and when it changes next. */
static double link_factor(const struct trouble *t, size_t link, double now_s)
{
    double factor = 1;
    for (size_t i = 0; i < t->degradation_count; i++) {
        const struct degradation *d = &t->degradations[i];
        if (d->link == link && d->from_s <= now_s && now_s < d->until_s)
            factor *= d->factor;
    }
    return factor;
}

static double link_back_s(const struct trouble *t, size_t link, double now_s)
{
    double back = now_s;
    for (size_t i = 0; i < t->degradation_count; i++) {
        const struct degradation *d = &t->degradations[i];
        if (d->link == link && d->factor == 0 && d->from_s <= now_s && d->until_s > back)
            back = d->until_s;
    }
    return back;
}

static const struct link *first_lost(const struct executor *x, const struct route *route,
                                     double now_s)
{
    const struct trouble *t = platform_trouble(x->execution->platform);
    size_t i = 0;
    while (i + 1 < route->link_count && !isinf(link_back_s(t, route->links[i], now_s)))
        i++;
    return platform_link(x->execution->platform, route->links[i]);
}

void trouble_wait_for_links(struct walker *w, const struct edge *edge)
{
    struct executor *x = w->executor;
    const struct trouble *t = platform_trouble(x->execution->platform);
    struct route route;
    struct error ignored; /* the machine has found it before */
    if (!x->troubled || t->degradation_count == 0 ||
        !platform_route(x->execution->platform, edge->from_processor, edge->to_processor,
                        &route, &ignored))
        return;
    for (bool down = true; down;) {
        double now_s = machine_now_s(), back = now_s;
        for (size_t i = 0; i < route.link_count; i++)
            back = fmax(back, link_back_s(t, route.links[i], now_s));
        down = back > now_s;
        if (isinf(back)) {
            w->lost = true;
            w->lost_link = first_lost(x, &route, now_s);
            gate_wait(w->gate);
        }
        if (down) {
            machine_sleep(back - now_s);
            executor_waited(w, "link down", now_s);
        }
    }
}

static void apply(const struct executor *x, double now_s)
{
    const struct trouble *t = platform_trouble(x->execution->platform);
    for (size_t i = 0; i < t->degradation_count; i++) {
        size_t link = t->degradations[i].link;
        double factor = link_factor(t, link, now_s);
        double full = platform_link(x->execution->platform, link)->bandwidth_bytes_per_s;
        if (factor > 0)
            machine_set_bandwidth(x->machine, link, full * factor);
    }
}

/* The next moment after now at which a degradation begins or ends. */
static double next_change_s(const struct trouble *t, double now_s)
{
    double next = INFINITY;
    for (size_t i = 0; i < t->degradation_count; i++) {
        const struct degradation *d = &t->degradations[i];
        if (d->from_s > now_s && d->from_s < next)
            next = d->from_s;
        if (d->until_s > now_s && d->until_s < next)
            next = d->until_s;
    }
    return next;
}

static void change_links(void *executor)
{
    const struct executor *x = executor;
    const struct trouble *t = platform_trouble(x->execution->platform);
    double now_s = 0;
    for (;;) {
        apply(x, now_s);
        double next = next_change_s(t, now_s);
        if (isinf(next))
            return;
        machine_sleep(next - machine_now_s());
        now_s = next;
    }
}

bool trouble_spawn(struct executor *x, struct error *error)
{
    x->troubled = trouble_any(x->execution->platform);
    return !trouble_changes_links(x->execution->platform) ||
           machine_spawn(x->machine, 0, change_links, x, true, error);
}

/* Whether some copy has done all its steps in spite of it all. */
static bool some_copy_finished(const struct executor *x)
{
    for (size_t c = 0; c < x->plan->copy_count; c++) {
        const struct copy *copy = &x->plan->copies[c];
        bool finished = true;
        for (uint32_t p = copy->first_part; p < copy->end_part; p++)
            finished = finished && (!x->plan->parts[p].trains ||
                                    x->parts[p].updates >=
                                        x->execution->steps * x->plan->updates);
        if (finished)
            return true;
    }
    return false;
}

bool trouble_ended_run(struct executor *x, char *note, size_t bytes)
{
    const struct walker *lost = NULL;
    size_t unfinished = 0, count = x->plan->stream_count + x->plan->edge_count;
    for (size_t i = 0; i < count; i++) {
        const struct walker *w = &x->walkers[i];
        if (w->lost && lost == NULL)
            lost = w;
        unfinished += w->stream != NULL && !w->finished;
    }
    if (lost == NULL || !some_copy_finished(x))
        return false;
    snprintf(note, bytes, "%s %s failed for good; %zu of %zu processor streams did not finish",
             lost->lost_link != NULL ? "link" : "processor",
             lost->lost_link != NULL
                 ? lost->lost_link->name
                 : platform_processor(x->execution->platform, lost->processor)->name,
             unfinished, x->plan->stream_count);
    return true;
}
