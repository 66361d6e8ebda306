/* What bench_scale writes and bare_simgrid reads: a header, then for each actor its own
 * head and its operations. */
#ifndef PODSIM_TESTS_BENCH_BARE_SIMGRID_H
#define PODSIM_TESTS_BENCH_BARE_SIMGRID_H

#include <stdint.h>

struct bare_header {
    uint64_t actors, mailboxes;
};

struct bare_actor {
    char host[64];
    uint64_t operations;
};

enum bare_kind {
    BARE_ACCEPT, /* messages of this mailbox go to the actor, and travel at once */
    BARE_SLEEP,
    BARE_PUT,    /* until it has arrived */
    BARE_GET,    /* until it has arrived */
    BARE_AWAIT,  /* a signal to this actor */
    BARE_SIGNAL, /* to the actor `target` */
};

struct bare_operation {
    uint32_t kind, target; /* a mailbox or an actor */
    double seconds;
    uint64_t bytes;
};

#endif
