/* Exactness (measured, SimGrid 3.32): model CM02 with TCP-gamma and crosstraffic off
 * gives S / min(B) to the last bits, and plain max-min sharing as long as all flows have
 * the same latency. So SimGrid's links have none, and the sender sleeps for it first. */
#include "sim/machine.h"

#include "base/checked.h"
#include "sim/machine_memory.h"

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* SimGrid wants an actor at the destination of a message. Here one stands for every
 * processor, as the permanent receiver of the processor's channels, and never runs: the
 * sender takes the message out of the mailbox itself once it has arrived. (Nothing of the
 * kind is needed for sg_host_sendto, but there each end of a message searches a list of
 * all that are under way.) */
struct inbox {
    struct wire *first;
    bool ready;
};

struct wire {
    sg_mailbox_t mailbox; /* NULL: alone, a transfer takes latency + bytes / bandwidth */
    struct inbox *inbox;
    struct wire *next; /* of the inbox */
    double latency_s, bandwidth_bytes_per_s;
};

struct machine {
    struct platform *platform;
    struct wire *wires;
    size_t wire_count;
    struct inbox *inboxes; /* a processor */
    bool *link_used;       /* SimGrid knows the links of simulated channels only */
    /* How long the messages under way would take one after the other, which no sharing
     * exceeds; and the most that a link has been slowed down. */
    double under_way_s, slowing;
};

struct gate {
    sg_actor_t waits; /* or NULL */
    uint64_t openings;
};

/* SimGrid ends an event when the clock is within surf/precision of the event's date, and
 * never when rounding has led the clock past it: late events of long runs. Up to COARSE_S
 * the precision covers the last bit of a date; from there on a daemon wakes at the latest
 * when the clock has doubled, so that each step of the clock, date minus clock, is exact.
 */
static const double COARSE_S = 200;
static struct {
    double until_s; /* the latest date that something may end */
    struct gate wanted;
    bool runs;
} pace;

/* The clock as of the last wake of an actor. It stands still while actors run. */
static double now_s;

static void keep_pace(void *unused)
{
    (void)unused;
    for (;;) {
        gate_wait(&pace.wanted);
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
        gate_open(&pace.wanted);
    pace.runs = true;
}

/* Stacks below glibc's threshold for mmap lie close together: with thousands of actors
 * that is a tenth of the run. */
static void start_simgrid(size_t processors)
{
    const char *stack = processors > 1024 ? "--cfg=contexts/stack-size:64"
                                          : "--cfg=contexts/stack-size:256";
    machine_memory_keep();
    char *arguments[] = {
        (char *)"podsim",
        (char *)"--cfg=network/model:CM02",
        (char *)"--cfg=network/TCP-gamma:1e30",
        (char *)"--cfg=network/crosstraffic:0",
        (char *)"--cfg=surf/precision:1e-13",
        (char *)stack,
        (char *)"--log=root.app:file:/dev/null",
        NULL,
    };
    int count = (int)(sizeof arguments / sizeof arguments[0]) - 1;
    simgrid_init(&count, arguments);
}

struct actor {
    void (*run)(void *argument);
    void *argument;
};

static void actor_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    /* SimGrid's stacks all lie at the same places of the cache: each begins elsewhere. */
    static size_t started;
    volatile char shift[1 + (started++ % 61) * 64];
    struct actor *actor = sg_actor_self_get_data();
    shift[0] = 0;
    (void)shift[0];
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

static void receive_all(void *argument)
{
    struct inbox *inbox = argument;
    for (const struct wire *wire = inbox->first; wire != NULL; wire = wire->next)
        sg_mailbox_set_receiver(sg_mailbox_get_name(wire->mailbox));
    inbox->ready = true;
    sg_sem_acquire(sg_sem_init(0)); /* a suspended actor would suspend its messages */
}

static bool open_inboxes(struct machine *machine, struct error *error)
{
    size_t processors = platform_processor_count(machine->platform);
    for (size_t i = 0; i < processors; i++)
        if (machine->inboxes[i].first != NULL &&
            !spawn(platform_processor(machine->platform, i)->name, "inbox", receive_all,
                   &machine->inboxes[i], true, error))
            return false;
    return true;
}

static const char *name_of(const struct platform *platform, size_t processor)
{
    return processor == PLATFORM_HOST ? platform_host_name(platform)
                                      : platform_processor(platform, processor)->name;
}

static bool open_wire(struct machine *machine, const struct platform_pair *channel,
                      bool alone, size_t index, struct error *error)
{
    struct wire *wire = &machine->wires[index];
    struct route route;
    char name[32];
    if (channel->from == channel->to)
        return true;
    bool found =
        channel->from == PLATFORM_HOST
            ? platform_host_route(machine->platform, channel->to, &route, error)
            : platform_route(machine->platform, channel->from, channel->to, &route, error);
    if (!found)
        return false;
    wire->latency_s = route.latency_s;
    wire->bandwidth_bytes_per_s = route.bandwidth_bytes_per_s;
    if (alone || isinf(route.bandwidth_bytes_per_s))
        return true;
    for (size_t i = 0; i < route.link_count; i++)
        machine->link_used[route.links[i]] = true;
    snprintf(name, sizeof name, "channel %zu", index);
    wire->mailbox = sg_mailbox_by_name(name);
    wire->inbox = &machine->inboxes[channel->to];
    wire->next = wire->inbox->first;
    wire->inbox->first = wire;
    return true;
}

struct machine *machine_create(struct platform *platform,
                               const struct platform_pair *channels, const bool *alone,
                               size_t channel_count, struct error *error)
{
    struct machine *machine = checked_calloc(1, sizeof *machine);
    struct wire *wires = checked_calloc(channel_count, sizeof *wires);
    struct platform_pair *pairs = checked_calloc(channel_count, sizeof *pairs);
    struct inbox *inboxes =
        checked_calloc(platform_processor_count(platform), sizeof *inboxes);
    bool *link_used = checked_calloc(platform_link_count(platform), sizeof *link_used);
    if (machine == NULL || wires == NULL || pairs == NULL || inboxes == NULL ||
        link_used == NULL) {
        free(machine);
        free(wires);
        free(pairs);
        free(inboxes);
        free(link_used);
        error_memory(error, "machine");
        return NULL;
    }
    *machine = (struct machine){.platform = platform,
                                .wires = wires,
                                .wire_count = channel_count,
                                .inboxes = inboxes,
                                .link_used = link_used,
                                .slowing = 1};
    start_simgrid(platform_processor_count(platform));
    size_t shared = shared_pairs(channels, alone, channel_count, pairs);
    bool made =
        load_platform(platform, pairs, shared, error) &&
        spawn(platform_processor(platform, 0)->name, "pace", keep_pace, NULL, true, error);
    free(pairs);
    for (size_t i = 0; made && i < channel_count; i++)
        made = open_wire(machine, &channels[i], alone[i], i, error);
    if (!made || !open_inboxes(machine, error)) {
        machine_free(machine);
        return NULL;
    }
    return machine;
}

void machine_free(struct machine *machine)
{
    if (machine == NULL)
        return;
    free(machine->inboxes);
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

static void put(const struct wire *wire, uint64_t bytes)
{
    while (!wire->inbox->ready) /* only at the start */
        sg_actor_yield();
    for (uint64_t left = bytes, piece; left > 0; left -= piece) {
        piece = left < LONG_MAX ? left : LONG_MAX; /* SimGrid counts in long */
        sg_comm_t sent = sg_mailbox_put_async(wire->mailbox, wire->inbox, (long)piece);
        sg_mailbox_get(wire->mailbox); /* returns when it has arrived */
        sg_comm_unref(sent);
    }
}

void machine_transfer(struct machine *machine, size_t channel, uint64_t bytes,
                      double extra_latency_s)
{
    const struct wire *wire = &machine->wires[channel];
    double alone_s = (double)bytes / wire->bandwidth_bytes_per_s;
    double latency_s = wire->latency_s + extra_latency_s;
    if (wire->mailbox == NULL) {
        machine_sleep(latency_s + alone_s);
        return;
    }
    machine_sleep(latency_s);
    if (bytes == 0)
        return;
    machine->under_way_s += alone_s;
    reach(now_s + machine->under_way_s * machine->slowing);
    put(wire, bytes);
    machine->under_way_s -= alone_s;
    now_s = simgrid_get_clock();
}

struct gate *gate_create(void)
{
    return checked_calloc(1, sizeof(struct gate));
}

void gate_free(struct gate *gate)
{
    free(gate);
}

/* Suspending an actor is half the work of a semaphore. Whoever sees that it waits runs
 * after it has asked to be suspended, and asks to resume it after that. */
void gate_wait(struct gate *gate)
{
    if (gate->openings > 0) {
        gate->openings--;
        return;
    }
    gate->waits = sg_actor_self();
    sg_actor_suspend(gate->waits);
    now_s = simgrid_get_clock();
}

void gate_open(struct gate *gate)
{
    sg_actor_t waits = gate->waits;
    gate->waits = NULL;
    if (waits == NULL)
        gate->openings++;
    else
        sg_actor_resume(waits);
}
