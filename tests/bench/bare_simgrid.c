/* The yardstick of bench-scale: SimGrid and nothing else. Walks lists of sleeps, puts,
 * gets and signals, one list an actor, with blocking calls and nothing told, kept or
 * checked.
 *
 *     bare_simgrid PLATFORM.xml PROGRAM
 *
 * Prints the simulated time. PROGRAM is written by bench_scale: see struct bare_*. */
#include "tests/bench/bare_simgrid.h"

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sg_mailbox_t *mailboxes;
static sg_sem_t *signals; /* an actor */
static size_t unfinished;

struct walk {
    struct bare_actor actor;
    struct bare_operation *operations;
    sg_sem_t *signal;
};

static void operate(const struct bare_operation *o, sg_sem_t signal)
{
    switch (o->kind) {
    case BARE_ACCEPT:
        sg_mailbox_set_receiver(sg_mailbox_get_name(mailboxes[o->target]));
        break;
    case BARE_SLEEP:
        sg_actor_sleep_for(o->seconds);
        break;
    case BARE_PUT:
        sg_mailbox_put(mailboxes[o->target], mailboxes, (long)o->bytes);
        break;
    case BARE_GET:
        sg_mailbox_get(mailboxes[o->target]);
        break;
    case BARE_AWAIT:
        sg_sem_acquire(signal);
        break;
    case BARE_SIGNAL:
        sg_sem_release(signals[o->target]);
        break;
    }
}

static void walk(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct walk *w = sg_actor_self_get_data();
    for (uint64_t i = 0; i < w->actor.operations; i++)
        operate(&w->operations[i], *w->signal);
    unfinished--;
}

static void *read_all(FILE *file, size_t count, size_t size)
{
    void *data = calloc(count + 1, size);
    if (data == NULL || fread(data, size, count, file) != count) {
        fprintf(stderr, "bare_simgrid: the program cannot be read\n");
        exit(2);
    }
    return data;
}

static void start_actors(FILE *program, const struct bare_header *header)
{
    struct walk *walks = calloc(header->actors + 1, sizeof *walks);
    for (size_t i = 0; walks != NULL && i < header->actors; i++) {
        struct bare_actor *actor = read_all(program, 1, sizeof *actor);
        walks[i].actor = *actor;
        walks[i].operations =
            read_all(program, actor->operations, sizeof *walks[i].operations);
        free(actor);
        walks[i].signal = &signals[i];
        sg_actor_t started =
            sg_actor_init(walks[i].actor.host, sg_host_by_name(walks[i].actor.host));
        sg_actor_set_data(started, &walks[i]);
        sg_actor_start_(started, walk, 0, NULL);
    }
}

int main(int argc, char **argv)
{
    FILE *program = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (program == NULL) {
        fprintf(stderr, "usage: bare_simgrid PLATFORM.xml PROGRAM\n");
        return 2;
    }
    struct bare_header *header = read_all(program, 1, sizeof *header);
    /* As sim/machine.c has them. */
    char *flags[] = {argv[0],
                     (char *)"--cfg=network/model:CM02",
                     (char *)"--cfg=network/TCP-gamma:1e30",
                     (char *)"--cfg=network/crosstraffic:0",
                     (char *)"--cfg=surf/precision:1e-13",
                     (char *)(header->actors > 1024 ? "--cfg=contexts/stack-size:64"
                                                    : "--cfg=contexts/stack-size:256"),
                     (char *)"--log=xbt_cfg.thresh:warning",
                     NULL};
    int count = (int)(sizeof flags / sizeof flags[0]) - 1;
    simgrid_init(&count, flags);
    simgrid_load_platform(argv[1]);
    mailboxes = calloc(header->mailboxes + 1, sizeof(sg_mailbox_t));
    for (size_t i = 0; mailboxes != NULL && i < header->mailboxes; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu", i);
        mailboxes[i] = sg_mailbox_by_name(name);
    }
    signals = calloc(header->actors + 1, sizeof(sg_sem_t));
    for (size_t i = 0; signals != NULL && i < header->actors; i++)
        signals[i] = sg_sem_init(0);
    unfinished = header->actors;
    start_actors(program, header);
    fclose(program);
    simgrid_run();
    printf("%.17g\n", simgrid_get_clock());
    return unfinished == 0 ? 0 : 1;
}
