/* The simulated clock and network: the only file that knows SimGrid. One machine a
 * process: SimGrid can be started once, and aborts on what it dislikes, so the caller
 * forks first and checks everything first. */
#ifndef PODSIM_SIM_MACHINE_H
#define PODSIM_SIM_MACHINE_H

#include "sim/platform.h"

struct machine;
struct gate; /* what an actor sleeps on until somebody opens it */

/* A channel is a directed pair of processors that takes one message at a time. One that
 * is alone never shares a link with another: its transfers need no simulating. */
struct machine *machine_create(struct platform *platform,
                               const struct platform_pair *channels, const bool *alone,
                               size_t channel_count, struct error *error);
void machine_free(struct machine *machine);

/* Before machine_run: an actor on a processor or on PLATFORM_HOST, from which it sends. A
 * daemon does not keep the run going. */
bool machine_spawn(struct machine *machine, size_t processor, void (*run)(void *argument),
                   void *argument, bool daemon, struct error *error);
/* Runs until every actor has returned or none can go on. */
void machine_run(struct machine *machine);

/* Of a platform's link, from now on; nothing when no channel uses it. */
void machine_set_bandwidth(struct machine *machine, size_t link, double bytes_per_s);

/* From inside actors. */
double machine_now_s(void);
void machine_sleep(double seconds);
/* Blocks for the message's whole way: the route's latency plus extra_latency_s, then its
 * bytes at the max-min share of the links. */
void machine_transfer(struct machine *machine, size_t channel, uint64_t bytes,
                      double extra_latency_s);

struct gate *gate_create(void);
void gate_free(struct gate *gate);
void gate_wait(struct gate *gate); /* until opened; openings are counted */
void gate_open(struct gate *gate);

#endif
