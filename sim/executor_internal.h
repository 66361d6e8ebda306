/* Shared by the executor's files only. */
#ifndef PODSIM_SIM_EXECUTOR_INTERNAL_H
#define PODSIM_SIM_EXECUTOR_INTERNAL_H

#include "sim/cost.h"
#include "sim/executor.h"
#include "sim/fidelity.h"
#include "sim/machine.h"
#include "sim/occupancy.h"
#include "sim/steady.h"

/* One layer's share of an instruction. */
struct charge {
    uint32_t layer; /* EVENT_NONE: the part as a whole */
    double seconds;
    uint64_t flops;
};

struct charges {
    struct charge *items;
    size_t count;
    double seconds; /* sum, in order */
};

/* Of a part that goes back block by block. */
struct block_state {
    size_t first_layer, end_layer;
    uint64_t stash_bytes; /* taken when it runs again, freed after its backward */
    bool last;            /* of the part */
};

struct executor;

/* Micro-batches that the host sends before they are asked for. */
enum { FEED_AHEAD = 2 };

/* The host's sending of samples to a part. */
struct feed {
    struct executor *executor;
    uint32_t part;
    uint64_t begun, fed, loaded; /* micro-batches */
    struct gate *gate;   /* the feeding actor's */
    struct gate *loader; /* who waits for samples, or NULL */
    bool waits;          /* the feeding actor, for room */
};

struct part_state {
    struct feed *feed; /* NULL: no data from the host */
    struct part_memory memory;
    struct block_state *blocks;
    size_t block_count;
    bool uses[PASS_COUNT];             /* some instruction asks for this pass */
    struct charges passes[PASS_COUNT]; /* backward ones in backward order */
    struct charges received;           /* backward of what came in alone */
    struct charges *losses;            /* by the number of teachers that have spoken */
    struct charges update;
    size_t present;    /* such teachers, of the micro-batch under way */
    /* A teacher's weights: checkpoints so far up to the one that it has, and the one that
     * the stage before computed with. 0: none has come. */
    uint64_t version, asked;
    uint64_t version_step; /* the step after which they were sent */
    uint64_t updates;  /* done, their gathers included */
    size_t gathers_left; /* of the update under way */
};

/* What is known of a message besides its scalars. */
struct letter {
    uint64_t step, micro_batch, bytes;
    uint64_t version; /* of the weights that made it, when a teacher's; else 1 */
};

struct bundle_state {
    bool *goes; /* by the number of the checkpoint that might go, as far as decided */
    size_t decided, capacity;
    uint64_t started; /* that do */
    uint64_t *taken;  /* by step: which one the first rank to come took up, where a teacher
                       * is split over several */
    size_t taken_count, taken_capacity;
};

struct edge_state {
    scalar *messages;  /* capacity x message_count; NULL in a cost-only run */
    struct letter *letters; /* capacity */
    /* Messages so far: put in, taken up for transfer, arrived, taken out. A message's
     * place is its number % capacity. */
    uint64_t sent, carried, arrived, received;
    struct gate *sender, *receiver; /* who waits, or NULL */
    /* Where the sender goes on while a message travels, an actor of the edge's own
     * carries the messages in order. */
    bool has_carrier;
    struct gate *carrier_gate;
    bool carrier_waits;
};

struct barrier_state {
    uint32_t here;
    struct gate **waiting; /* members - 1 */
};

/* Where the ranks of a collective meet. */
struct meeting_state {
    uint32_t here;
    double *ready_s;     /* a rank: when it came, then when it is done */
    struct gate **waiting;
    uint32_t waiting_count;
};

struct executor;

/* An actor: a stream of a processor, or the carrier of an edge. */
struct walker {
    struct executor *executor;
    const struct stream *stream;
    uint32_t processor;
    uint32_t edge; /* carriers */
    struct gate *gate;
    uint64_t step;
    bool finished;
    bool lost; /* its processor, or a link that it needs, has failed for good */
    const struct link *lost_link; /* NULL: it was the processor */
    const struct instruction *at; /* for the report of a deadlock */
};

struct executor {
    const struct execution *execution;
    const struct plan *plan;
    struct machine *machine;
    struct occupancy *occupancy;
    struct ledger *ledger;
    struct part_state *parts;
    struct edge_state *edges;
    struct feed *feeds;
    size_t feed_count;
    struct bundle_state *bundles;
    struct barrier_state *barriers;
    struct meeting_state *meetings; /* a collective */
    struct steady *steady;  /* NULL: every step is simulated */
    uint64_t last_step;     /* steps to simulate; fewer than asked for once steady */
    struct fidelity_map alone;
    struct walker *walkers; /* one a stream, then one an edge */
    uint64_t *steps;        /* a processor: the step that its main stream is in */
    uint64_t *workspace_bytes; /* a processor: of its largest part; one computes at a time */
    bool troubled;          /* the platform file has trouble in it */
    bool training;          /* a trainer is there and memory has sufficed so far */
    bool failed;
    struct error *error;
};

/* False, once and for all, when a sink failed. */
bool executor_emit(struct executor *x, const struct event *event);
void executor_fail(struct executor *x, enum status status, const char *message);
bool executor_allocate(struct executor *x, uint32_t processor, enum memory_category category,
                       uint64_t bytes);
bool executor_release(struct executor *x, uint32_t processor, enum memory_category category,
                      uint64_t bytes);
void executor_waited(struct walker *w, const char *for_what, double since_s);

/* executor_charges.c */
bool charges_create(struct executor *x, struct error *error);
void charges_free(struct executor *x);

/* executor_compute.c: forward, backward, loss, update and load of one instruction. */
void execute_compute(struct walker *w, const struct instruction *instruction);
/* edge: what it is about, or EVENT_NONE */
void executor_metric(struct walker *w, const char *name, uint32_t edge, double value);

/* After a collective of a part's parameters: the last one completes the update. */
void execute_gathered(struct walker *w, uint32_t part);

/* executor_transfer.c */
bool edges_create(struct executor *x, struct error *error);
void edges_free(struct executor *x);
void execute_send(struct walker *w, const struct instruction *instruction);
void execute_receive(struct walker *w, const struct instruction *instruction);
/* Messages still under way when all streams are done are given up. */
void edges_settle(struct executor *x);
void carry_messages(void *walker); /* a carrier's whole life */
/* For collectives: room in the queue, then the message's number; its scalars; off it goes. */
uint64_t message_begin(struct walker *w, uint32_t edge, const struct letter *letter);
scalar *message_at(const struct executor *x, uint32_t edge, uint64_t number);
void message_dispatch(struct walker *w, uint32_t edge, uint64_t number);
/* Waits for the next message and gives its number; message_end takes it out. */
uint64_t message_await(struct walker *w, uint32_t edge);
void message_end(struct walker *w, uint32_t edge);

/* executor_checkpoint.c: weights that travel in the background, and who uses them. */
bool bundles_create(struct executor *x, struct error *error);
void bundles_free(struct executor *x);
/* Whether this checkpoint is sent; false also on failure. */
bool checkpoint_goes(struct walker *w, const struct instruction *instruction);
void execute_poll(struct walker *w, const struct instruction *instruction);
/* A teacher that has no weights yet: it does nothing, and says so to the next. */
bool executor_idle(const struct executor *x, uint32_t part);

/* executor_feed.c */
bool feeds_create(struct executor *x, struct error *error);
void feeds_free(struct executor *x);
bool feeds_spawn(struct executor *x, struct error *error);
void feed_load(struct walker *w, uint32_t part);
void feeds_settle(struct executor *x);

/* executor_trouble.c */
bool trouble_any(const struct platform *platform);
bool trouble_changes_links(const struct platform *platform);
bool trouble_spawn(struct executor *x, struct error *error);
/* On the compute time of what begins now. */
double trouble_factor(const struct executor *x, uint32_t processor);
/* Stands still while the walker's processor has failed. */
void trouble_stand(struct walker *w);
void trouble_wait_for_links(struct walker *w, const struct edge *edge);
/* Not all streams finished, because of failures, but some copy of the model did: the note
 * says what was lost. */
bool trouble_ended_run(struct executor *x, char *note, size_t bytes);

/* executor_together.c: what several streams do together. */
bool barriers_create(struct executor *x, struct error *error);
void barriers_free(struct executor *x);
void execute_barrier(struct walker *w, const struct instruction *instruction);
void execute_collective(struct walker *w, const struct instruction *instruction);

/* executor_closed.c: from when each rank comes to when it is done, in ready_s; moves the
 * numbers and tells the transfers. */
void closed_form(struct executor *x, const struct collective *collective, uint64_t step,
                 double *ready_s);
/* Added to the latency of the edge's messages by bulk-synchronous processors. */
double executor_sync_s(const struct executor *x, const struct edge *edge);

static inline uint64_t run_micro_batch(const struct walker *w,
                                       const struct instruction *instruction)
{
    return (uint64_t)((int64_t)(w->step * w->executor->plan->micro_batches) +
                      instruction->micro_batch);
}

#endif
