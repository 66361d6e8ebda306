/* Training data comes from the host, where the platform has one: an actor for every part
 * that loads (a teacher reads what lies there for its pupil) sends its micro-batches over the host's links, up to FEED_AHEAD ahead of
 * need, beside whatever the processor does. Without a host, data is free. */
#include "sim/executor_internal.h"

#include "base/checked.h"

#include <stdlib.h>


bool feeds_create(struct executor *x, struct error *error)
{
    const struct plan *plan = x->plan;
    if (!platform_has_host(x->execution->platform))
        return true;
    x->feeds = checked_calloc(plan->part_count, sizeof *x->feeds);
    if (x->feeds == NULL)
        return error_memory(error, "feeds");
    for (uint32_t p = 0; p < plan->part_count; p++)
        if (plan->parts[p].activation_in == PLAN_NONE && !plan->parts[p].teacher) {
            x->feeds[x->feed_count] = (struct feed){.executor = x, .part = p};
            x->parts[p].feed = &x->feeds[x->feed_count++];
        }
    return true;
}

void feeds_free(struct executor *x)
{
    for (size_t i = 0; i < x->feed_count; i++)
        gate_free(x->feeds[i].gate);
    free(x->feeds);
}

static void tell(const struct feed *feed, double start_s, uint64_t bytes)
{
    struct executor *x = feed->executor;
    struct event event = {.kind = EVENT_TRANSFER,
                          .name = "samples",
                          .processor = x->plan->parts[feed->part].processor,
                          .layer = EVENT_NONE,
                          .edge = (uint32_t)x->plan->edge_count +
                                  (uint32_t)(feed - x->feeds),
                          .step = feed->fed / x->plan->micro_batches,
                          .micro_batch = feed->fed % x->plan->micro_batches,
                          .start_s = start_s,
                          .end_s = machine_now_s(),
                          .bytes = bytes};
    executor_emit(x, &event);
}

static void feed_part(void *argument)
{
    struct feed *feed = argument;
    struct executor *x = feed->executor;
    uint32_t processor = x->plan->parts[feed->part].processor;
    uint64_t bytes = x->parts[feed->part].memory.input_bytes;
    while (feed->fed < x->last_step * x->plan->micro_batches && !x->failed) {
        if (feed->fed - feed->loaded >= FEED_AHEAD) {
            feed->waits = true;
            gate_wait(feed->gate);
            continue;
        }
        double start_s = machine_now_s();
        executor_allocate(x, processor, MEMORY_QUEUE, bytes);
        feed->begun++;
        machine_transfer(x->machine, x->plan->edge_count + (size_t)(feed - x->feeds), bytes, 0);
        tell(feed, start_s, bytes);
        feed->fed++;
        if (feed->loader != NULL) {
            gate_open(feed->loader);
            feed->loader = NULL;
        }
    }
}

bool feeds_spawn(struct executor *x, struct error *error)
{
    for (size_t i = 0; i < x->feed_count; i++) {
        x->feeds[i].gate = gate_create();
        if (x->feeds[i].gate == NULL)
            return error_memory(error, "feeds");
        if (!machine_spawn(x->machine, PLATFORM_HOST, feed_part, &x->feeds[i], true, error))
            return false;
    }
    return true;
}

void feed_load(struct walker *w, uint32_t part)
{
    struct executor *x = w->executor;
    struct feed *feed = x->parts[part].feed;
    uint64_t bytes = x->parts[part].memory.input_bytes;
    double asked_s = machine_now_s();
    while (feed != NULL && feed->fed == feed->loaded) {
        feed->loader = w->gate;
        gate_wait(w->gate);
    }
    executor_waited(w, "wait for samples", asked_s);
    if (feed != NULL) {
        executor_release(x, w->processor, MEMORY_QUEUE, bytes);
        feed->loaded++;
        if (feed->waits) {
            feed->waits = false;
            gate_open(feed->gate);
        }
    }
    executor_allocate(x, w->processor, MEMORY_STASH, bytes);
}

void feeds_settle(struct executor *x)
{
    for (size_t i = 0; i < x->feed_count; i++)
        for (struct feed *feed = &x->feeds[i]; feed->loaded < feed->begun; feed->loaded++)
            executor_release(x, x->plan->parts[feed->part].processor, MEMORY_QUEUE,
                             x->parts[feed->part].memory.input_bytes);
}
