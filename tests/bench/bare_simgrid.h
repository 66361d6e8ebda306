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

enum bare_kind { BARE_SLEEP, BARE_PUT, BARE_PUT_ASYNC, BARE_GET, BARE_WAIT };

struct bare_operation {
    uint32_t kind, mailbox;
    double seconds;
    uint64_t bytes;
};

#endif
