/* Exactness (measured, SimGrid 3.32): model CM02 with TCP-gamma and crosstraffic off
 * gives S / min(B) to the last bits, and plain max-min sharing as long as all flows have
 * the same latency. So SimGrid's links have none, and the sender sleeps for it first. */
#include "sim/machine.h"

#include "base/checked.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/semaphore.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct wire {
    sg_host_t from, to; /* NULL: alone, a transfer takes latency + bytes / bandwidth */
    double latency_s, bandwidth_bytes_per_s;
};

struct machine {
    struct platform *platform;
    struct wire *wires;
    size_t wire_count;
    bool *link_used; /* SimGrid knows the links of simulated channels only */
    /* How long the messages under way would take one after the other, which no sharing
     * exceeds; and the most that a link has been slowed down. */
    double under_way_s, slowing;
};

struct gate {
    sg_sem_t semaphore;
};

/* SimGrid ends an event when the clock is within surf/precision of the event's date, and
 * never when rounding has led the clock past it: late events of long runs. Up to COARSE_S
 * the precision covers the last bit of a date; from there on a daemon wakes at the latest
 * when the clock has doubled, so that each step of the clock, date minus clock, is exact. */
static const double COARSE_S = 200;
static struct {
    double until_s; /* the latest date that something may end */
    sg_sem_t wanted;
    bool runs;
} pace;

/* The clock as of the last wake of an actor. It stands still while actors run. */
static double now_s;

static void keep_pace(void *unused)
{
    (void)unused;
    for (;;) {
        sg_sem_acquire(pace.wanted);
        for (double at_s = simgrid_get_clock(); at_s < pace.until_s;
             at_s = simgrid_get_clock())
            sg_actor_sleep_for(at_s < COARSE_S / 2 ? COARSE_S - at_s : at_s);
        pace.runs = false;
    }
}

/* From inside actors: something may end as late as this. */
static void reach(double date_s)
{
    if (date_s <= pace.until_s || date_s <= COARSE_S)
        return;
    pace.until_s = date_s;
    if (!pace.runs)
        sg_sem_release(pace.wanted);
    pace.runs = true;
}

static void start_simgrid(void)
{
    char *arguments[] = {
        (char *)"podsim",
        (char *)"--cfg=network/model:CM02",
        (char *)"--cfg=network/TCP-gamma:1e30",
        (char *)"--cfg=network/crosstraffic:0",
        (char *)"--cfg=surf/precision:1e-13",
        (char *)"--cfg=contexts/stack-size:256",
        (char *)"--log=root.app:file:/dev/null",
        NULL,
    };
    int count = (int)(sizeof arguments / sizeof arguments[0]) - 1;
    simgrid_init(&count, arguments);
    pace.wanted = sg_sem_init(0);
}

struct actor {
    void (*run)(void *argument);
    void *argument;
};

static void actor_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct actor *actor = sg_actor_self_get_data();
    actor->run(actor->argument);
    free(actor);
}

static bool spawn(const char *host, const char *name, void (*run)(void *argument),
                  void *argument, bool daemon, struct error *error)
{
    struct actor *actor = checked_calloc(1, sizeof *actor);
    if (actor == NULL)
        return error_memory(error, "actor");
    *actor = (struct actor){run, argument};
    sg_actor_t started = sg_actor_init(name, sg_host_by_name(host));
    sg_actor_set_data(started, actor);
    if (daemon)
        sg_actor_daemonize(started);
    sg_actor_start_(started, actor_main, 0, NULL);
    return true;
}

/* Only the pairs that share links need routes. */
static size_t shared_pairs(const struct platform_pair *channels, const bool *alone,
                           size_t channel_count, struct platform_pair *pairs)
{
    size_t count = 0;
    for (size_t i = 0; i < channel_count; i++)
        if (!alone[i] && channels[i].from != channels[i].to)
            pairs[count++] = channels[i];
    return count;
}

static bool load_platform(struct platform *platform, const struct platform_pair *pairs,
                          size_t pair_count, struct error *error)
{
    int file = memfd_create("platform", MFD_CLOEXEC);
    FILE *out = file < 0 ? NULL : fdopen(file, "w");
    if (out == NULL)
        return error_set(error, STATUS_HOST, "no memory file for SimGrid's platform");
    bool written = platform_write_xml(platform, pairs, pair_count, out, error);
    if (written && (fflush(out) != 0 || ferror(out)))
        written = error_set(error, STATUS_HOST, "cannot write SimGrid's platform");
    if (written) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        simgrid_load_platform(path);
    }
    fclose(out);
    return written;
}

static const char *name_of(const struct platform *platform, size_t processor)
{
    return processor == PLATFORM_HOST ? platform_host_name(platform)
                                      : platform_processor(platform, processor)->name;
}

static bool open_wire(struct machine *machine, const struct platform_pair *channel, bool alone,
                      size_t index, struct error *error)
{
    struct wire *wire = &machine->wires[index];
    struct route route;
    if (channel->from == channel->to)
        return true;
    bool found = channel->from == PLATFORM_HOST
                     ? platform_host_route(machine->platform, channel->to, &route, error)
                     : platform_route(machine->platform, channel->from, channel->to, &route,
                                      error);
    if (!found)
        return false;
    wire->latency_s = route.latency_s;
    wire->bandwidth_bytes_per_s = route.bandwidth_bytes_per_s;
    if (alone || isinf(route.bandwidth_bytes_per_s))
        return true;
    for (size_t i = 0; i < route.link_count; i++)
        machine->link_used[route.links[i]] = true;
    wire->from = sg_host_by_name(name_of(machine->platform, channel->from));
    wire->to = sg_host_by_name(name_of(machine->platform, channel->to));
    return true;
}

struct machine *machine_create(struct platform *platform,
                               const struct platform_pair *channels, const bool *alone,
                               size_t channel_count, struct error *error)
{
    struct machine *machine = checked_calloc(1, sizeof *machine);
    struct wire *wires = checked_calloc(channel_count, sizeof *wires);
    struct platform_pair *pairs = checked_calloc(channel_count, sizeof *pairs);
    bool *link_used = checked_calloc(platform_link_count(platform), sizeof *link_used);
    if (machine == NULL || wires == NULL || pairs == NULL || link_used == NULL) {
        free(machine);
        free(wires);
        free(pairs);
        free(link_used);
        error_memory(error, "machine");
        return NULL;
    }
    *machine = (struct machine){.platform = platform,
                                .wires = wires,
                                .wire_count = channel_count,
                                .link_used = link_used,
                                .slowing = 1};
    start_simgrid();
    size_t shared = shared_pairs(channels, alone, channel_count, pairs);
    bool made = load_platform(platform, pairs, shared, error) &&
                spawn(platform_processor(platform, 0)->name, "pace", keep_pace, NULL, true,
                      error);
    free(pairs);
    for (size_t i = 0; made && i < channel_count; i++)
        made = open_wire(machine, &channels[i], alone[i], i, error);
    if (!made) {
        machine_free(machine);
        return NULL;
    }
    return machine;
}

void machine_free(struct machine *machine)
{
    if (machine == NULL)
        return;
    free(machine->wires);
    free(machine->link_used);
    free(machine);
}

bool machine_spawn(struct machine *machine, size_t processor, void (*run)(void *argument),
                   void *argument, bool daemon, struct error *error)
{
    const char *name = name_of(machine->platform, processor);
    return spawn(name, name, run, argument, daemon, error);
}

void machine_run(struct machine *machine)
{
    (void)machine;
    simgrid_run();
}

void machine_set_bandwidth(struct machine *machine, size_t link, double bytes_per_s)
{
    const struct link *known = platform_link(machine->platform, link);
    if (!machine->link_used[link] || isinf(known->bandwidth_bytes_per_s))
        return;
    if (bytes_per_s > 0)
        machine->slowing =
            fmax(machine->slowing, known->bandwidth_bytes_per_s / bytes_per_s);
    reach(now_s + machine->under_way_s * machine->slowing);
    sg_link_set_bandwidth(sg_link_by_name(known->name), bytes_per_s);
}

double machine_now_s(void)
{
    return now_s;
}

void machine_sleep(double seconds)
{
    if (seconds <= 0)
        return;
    reach(now_s + seconds);
    sg_actor_sleep_for(seconds);
    now_s = simgrid_get_clock();
}

void machine_transfer(struct machine *machine, size_t channel, uint64_t bytes,
                      double extra_latency_s)
{
    const struct wire *wire = &machine->wires[channel];
    double alone_s = (double)bytes / wire->bandwidth_bytes_per_s;
    double latency_s = wire->latency_s + extra_latency_s;
    if (wire->from == NULL) {
        machine_sleep(latency_s + alone_s);
        return;
    }
    machine_sleep(latency_s);
    if (bytes == 0)
        return;
    machine->under_way_s += alone_s;
    reach(now_s + machine->under_way_s * machine->slowing);
    sg_host_sendto(wire->from, wire->to, (double)bytes);
    machine->under_way_s -= alone_s;
    now_s = simgrid_get_clock();
}

struct gate *gate_create(void)
{
    struct gate *gate = checked_calloc(1, sizeof *gate);
    if (gate != NULL)
        gate->semaphore = sg_sem_init(0);
    return gate;
}

void gate_free(struct gate *gate)
{
    if (gate == NULL)
        return;
    sg_sem_destroy(gate->semaphore);
    free(gate);
}

void gate_wait(struct gate *gate)
{
    sg_sem_acquire(gate->semaphore);
    now_s = simgrid_get_clock();
}

void gate_open(struct gate *gate)
{
    sg_sem_release(gate->semaphore);
}
