/* What a method compiles to: parts (runs of layers placed on processors), edges between
 * them, and for every processor the instructions of one training step. A plan knows
 * neither the clock nor a weight; the executor walks it.
 *
 * The programs form a network of processes that talk through bounded queues, so what they
 * compute does not depend on timing, and whether they can finish is decided beforehand
 * (plan_check). */
#ifndef PODSIM_SIM_PLAN_H
#define PODSIM_SIM_PLAN_H

#include "engine/loss.h"
#include "engine/model.h"
#include "engine/model_shard.h"
#include "engine/network.h"
#include "engine/optimizer.h"
#include "sim/offload.h"
#include "sim/precision.h"

#define PLAN_NONE UINT32_MAX

enum operation {
    OP_LOAD,            /* a micro-batch of the data (and its labels) into a first part */
    OP_FORWARD,
    OP_RECOMPUTE,       /* forward again, from the kept input */
    OP_LOSS,            /* loss of a head, and the gradient of its logits */
    OP_BACKWARD,
    OP_BACKWARD_INPUT,  /* only the gradient that goes back */
    OP_BACKWARD_WEIGHT, /* only the gradient of the weights */
    OP_BACKWARD_RECEIVED, /* of what came in over gradient_from alone, weights only */
    OP_SEND,            /* into an edge's queue; waits while it is full */
    OP_RECEIVE,         /* from an edge's queue; waits while it is empty */
    OP_POLL,            /* take the newest message that has arrived, if any; drop older ones */
    OP_COLLECTIVE,      /* take part in a collective, all its rounds */
    OP_BARRIER,         /* wait until all members are here */
    OP_UPDATE,
    OP_COUNT
};
const char *operation_name(enum operation operation);

/* micro_batch counts within the step, and may be negative or exceed the step's count: the
 * neighbouring steps' ones (a prologue counts from step 0). An instruction whose
 * micro-batch lies before the run's first or after its last is skipped, so that a method
 * may look ahead without knowing where the run ends. */
struct instruction {
    enum operation operation;
    uint32_t part;
    uint32_t target; /* edge (SEND, RECEIVE, POLL), collective, barrier; else PLAN_NONE */
    int64_t micro_batch;
    uint64_t every;  /* > 1: only in steps with (step + 1) % every == 0 */
    uint64_t from_step; /* not for micro-batches of earlier steps */
    /* FORWARD, RECOMPUTE and BACKWARD* in pieces: only these layers of the part, which the
     * pieces go through in order; end_layer 0: all at once. With RECOMPUTE_BLOCKS a piece of
     * RECOMPUTE or BACKWARD lies in one block. */
    uint32_t first_layer, end_layer;
};

/* The instructions of one actor of one processor: a prologue once, then the body once a
 * step. A processor's first stream is its main one; further ones run beside it and talk
 * to it through edges of the processor to itself. */
struct code {
    struct instruction *instructions;
    size_t count, capacity;
};
struct stream {
    uint32_t processor;
    uint32_t number; /* of the processor's streams */
    struct code prologue, body;
};

/* Streams that go on together. */
struct barrier {
    uint32_t members;
};

/* Which samples a copy of the model sees, and which initial weights it has. */
struct copy {
    uint32_t model;      /* codistilled models differ in this */
    uint32_t shard;      /* data-parallel replica ... */
    uint32_t shards;     /* ... of so many */
    uint32_t share;      /* own share of the data ... */
    uint32_t shares;     /* ... of so many (1: all see the same samples) */
    uint64_t seed_offset;/* of the initial weights; equal offsets, equal weights */
    uint32_t first_part, end_part; /* its parts, in layer order */
    bool apart;          /* its gradients are not summed with the other shards' */
};

/* Distillation against other models: what a loss part adds to its task loss. */
enum alpha_schedule { ALPHA_CONSTANT, ALPHA_RAMP, ALPHA_DELAYED };
struct teaching {
    double alpha;
    enum alpha_schedule schedule;
    uint64_t schedule_steps; /* length of the ramp, or of the delay */
    bool kl; /* else mean square on logits */
    double temperature;
    uint64_t burn_in_steps; /* nothing is exchanged and no teacher computes before */
    uint64_t every;         /* > 1: predictions only count in every so many steps */
};
/* The weight of the distillation term in a step. */
double teaching_alpha(const struct teaching *teaching, uint64_t step);

/* A run of a part's layers whose gradients are exchanged together. */
struct bucket {
    uint32_t first_layer, end_layer;
    uint64_t first, count; /* scalars of the part's parameters */
};

/* Of a split layer group's terms, for each micro-batch, a sum over the ranks: of what the
 * group makes, when forward has come to `layer`; or of the gradient that it gives back, when
 * backward has come down to `layer`. */
struct split_sum {
    size_t layer;
    uint32_t collective;
    bool received; /* also in a backward of what came in alone */
};
struct split_sums {
    struct split_sum *sums; /* by layer, ascending */
    size_t count, capacity;
};

/* What a part keeps of a micro-batch between its forward and its backward. */
enum recompute {
    RECOMPUTE_NONE,  /* all that backward reads */
    RECOMPUTE_STAGE, /* its input: forward runs again before backward */
    RECOMPUTE_BLOCKS /* its blocks' inputs: backward goes back block by block, each of which
                      * runs forward again before its backward */
};

struct part {
    uint32_t copy, stage, processor;
    uint32_t rank;           /* whose slices it holds, where the model is a shard */
    size_t first_layer, end_layer;
    bool has_loss;
    size_t logits_value;     /* when has_loss */
    bool final_loss;         /* the copy's own output, whose loss is reported */
    const struct loss_kind *loss; /* when has_loss; NULL: cross_entropy */
    bool gradient_in;        /* receives the gradient of what crosses out */
    bool gradient_out;       /* computes the gradient of what crosses in */
    bool gradient_apart;     /* what comes in has a backward of its own, OP_BACKWARD_RECEIVED,
                              * and goes no further than this part */
    enum recompute recompute;
    bool split_backward;     /* BACKWARD_INPUT and BACKWARD_WEIGHT in place of BACKWARD */
    bool trains;             /* false: forward only */
    uint32_t slots;          /* micro-batches whose stash is held at once */
    uint32_t activation_in, activation_out; /* edges, or PLAN_NONE */
    uint32_t gradient_from, gradient_to;
    struct split_sums forward_sums, backward_sums;
    uint32_t *sums;          /* collectives of its gradients, before the update */
    size_t sum_count;
    uint32_t *ties;          /* collectives of gradients of weights that other parts hold too;
                              * in the first such part of a processor */
    size_t tie_count;
    uint32_t *gathers;       /* collectives of its parameters, after the update */
    size_t gather_count;
    uint64_t gather_every;   /* in every so many steps */
    struct bucket *buckets;  /* in layer order, disjoint; NULL: one, of everything */
    size_t bucket_count;
    uint32_t shard, shards;  /* of the optimiser's state: piece `shard` of `shards` of every
                              * bucket; shards 0 or 1: all of it */
    bool shard_gradients;    /* keeps only its shard of the summed gradients */
    uint32_t weight_versions;/* weights kept at once (weight stashing); 0 or 1: one */
    uint32_t *teacher_edges; /* predictions that come in, one an other model */
    uint32_t *pupil_edges;   /* predictions that go out */
    size_t teacher_count, pupil_count;
    struct teaching teaching;
    /* Distillation from checkpoints: parts on the same processor that compute another
     * model's forward on this part's micro-batches, from weights that came in. */
    uint32_t *beside;
    size_t beside_count;
    bool teacher;            /* such a part itself ... */
    uint32_t checkpoint;     /* ... and the edge over which its weights come */
    uint32_t *checkpoint_edges; /* over which a part's own weights go out ... */
    size_t checkpoint_count;
    uint64_t checkpoint_every;  /* ... after every so many steps */
};

enum payload {
    PAYLOAD_ACTIVATIONS,
    PAYLOAD_GRADIENTS,   /* of activations */
    PAYLOAD_PREDICTIONS, /* logits */
    PAYLOAD_PARAMETERS,  /* all weights of a part */
    PAYLOAD_PIECES,      /* of a collective */
    PAYLOAD_SIGNAL,      /* nothing: only that something is done */
    PAYLOAD_COUNT
};
const char *payload_name(enum payload payload);

/* A directed queue between two parts. */
struct edge {
    uint32_t from_part, to_part;
    uint32_t from_processor, to_processor;
    enum payload payload;
    uint64_t capacity;       /* messages that may wait or be under way */
    uint64_t message_count;  /* scalars of a message, at most */
    uint64_t message_bytes;
    uint32_t lane;           /* of a collective with several ways between two ranks */
    /* The sender goes on at once, even on a bulk-synchronous processor: an actor of the
     * edge's own waits for the exchange. */
    bool background;
    uint32_t bundle; /* or PLAN_NONE */
};

/* Edges that carry the checkpoints of the parts of one model to one pupil. A checkpoint
 * is taken up when all its parts have arrived, by all parts for the same micro-batches,
 * and sent only when the one before has arrived: nobody waits for it. */
struct bundle {
    uint32_t *edges;
    size_t edge_count;
};

/* A part that has a rank's array too, on the rank's processor: its numbers are added to those
 * of the rank's part before the collective, and are the result after it. */
struct tied_part {
    uint32_t rank, part;
    uint64_t first; /* scalars */
};

/* What ranks do together with an array that each of them has: all gradients or all
 * parameters of a part, or a stretch of them; or a value of a micro-batch. */
enum collective_goal { GOAL_ALL_REDUCE, GOAL_REDUCE_SCATTER, GOAL_ALL_GATHER };
struct collective_algorithm;
struct collective {
    const struct collective_algorithm *algorithm;
    enum collective_goal goal;
    bool parameters;      /* else gradients ... */
    bool activations;     /* ... or a value of a micro-batch ... */
    bool activation_gradients; /* ... or its gradient */
    size_t value;         /* such a value's number */
    bool average;         /* divide the sum by the number of ranks */
    bool clear;           /* after a reduce-scatter: zero all but the rank's own piece */
    uint64_t first, count; /* scalars of the array */
    uint64_t *firsts;      /* one a rank, where they differ; NULL: first */
    uint32_t *parts;      /* one a rank */
    uint32_t ranks;       /* 1: only the parts that are tied to it */
    struct tied_part *tied;
    size_t tied_count;
    uint32_t group;       /* ranks of a node, for hierarchical algorithms */
    uint32_t *rings;      /* [ring_count * ranks], orders of the ranks; NULL: as is usual */
    uint32_t *places;     /* [ring_count * ranks], where in the order a rank stands */
    uint32_t ring_count;
    uint32_t *edges;      /* [lanes * ranks * ranks], lane x from x to; PLAN_NONE where unused */
    uint32_t lanes;       /* set by plan_add_collective */
};

struct plan {
    char name[LAYER_NAME_BYTES];
    const char *kind;
    struct model *model;     /* owned; with the method's heads */
    /* Where the model is one rank's shard of the experiment's: what of that each rank holds.
     * NULL: the model is whole. */
    struct model_slice *slices;
    size_t slice_count;
    uint32_t slice_ranks;    /* of tensor parallelism; 0 where the model is whole */
    struct split_group *groups;
    size_t group_count;
    const struct collective_algorithm *slice_algorithm; /* that sums the groups' terms */
    uint64_t batch;          /* samples of one update, over all replicas of a model */
    uint64_t micro_batch;    /* samples */
    uint64_t micro_batches;  /* of one copy in one step */
    uint64_t updates;        /* of one part in one step, after equally many micro-batches */
    struct precision precision;
    struct offload offload;
    struct optimizer_options optimizer; /* its schedules count updates */
    double label_smoothing;
    uint64_t optimizer_words;
    uint64_t optimizer_flops;
    struct copy *copies;
    size_t copy_count, copy_capacity;
    struct part *parts;
    size_t part_count, part_capacity;
    struct edge *edges;
    size_t edge_count, edge_capacity;
    struct stream *streams;
    size_t stream_count, stream_capacity;
    struct collective *collectives;
    size_t collective_count, collective_capacity;
    struct barrier *barriers;
    size_t barrier_count, barrier_capacity;
    struct bundle *bundles;
    size_t bundle_count, bundle_capacity;
    uint32_t *main_stream;   /* a processor: its first stream, or PLAN_NONE */
    uint32_t models;
    size_t processor_count;  /* of the platform */
};

struct plan *plan_create(const char *name, const char *kind, struct error *error);
void plan_free(struct plan *plan);

bool plan_add_copy(struct plan *plan, const struct copy *copy, uint32_t *index,
                   struct error *error);
bool plan_add_part(struct plan *plan, const struct part *part, uint32_t *index,
                   struct error *error);
/* Bytes of a scalar of a message. */
uint64_t plan_word_bytes(const struct plan *plan, enum payload payload);
/* The message's size follows from the payload and the parts. Sets nothing in the parts. */
bool plan_add_edge(struct plan *plan, uint32_t from_part, uint32_t to_part,
                   enum payload payload, uint64_t capacity, uint32_t *index,
                   struct error *error);
/* The processor's main stream, made when first asked for. Valid until a stream is added. */
bool plan_stream(struct plan *plan, uint32_t processor, struct stream **stream,
                 struct error *error);
/* A further stream of a processor that has its main one. */
bool plan_add_stream(struct plan *plan, uint32_t processor, struct stream **stream,
                     struct error *error);
bool plan_add_barrier(struct plan *plan, uint32_t members, uint32_t *index,
                      struct error *error);
bool plan_add_bundle(struct plan *plan, uint32_t *index, struct error *error);
bool plan_bundle_edge(struct plan *plan, uint32_t bundle, uint32_t edge, struct error *error);
/* Copies parts, firsts, tied parts and rings; adds the edges that the algorithm uses. */
bool plan_add_collective(struct plan *plan, const struct collective *collective,
                         uint32_t *index, struct error *error);
/* Steps before and beyond its own whose micro-batches a step's instructions are about. */
void plan_reach(const struct plan *plan, uint64_t *back_steps, uint64_t *ahead_steps);
/* The processors that have a stream. */
size_t plan_processors_used(const struct plan *plan);
bool code_add(struct code *code, enum operation operation, uint32_t part, uint32_t target,
              int64_t micro_batch, struct error *error);
/* Makes the instruction added last one of these layers alone. */
void code_layers(struct code *code, size_t first_layer, size_t end_layer);
/* Makes the instruction added last one of every so many steps. */
void code_every(struct code *code, uint64_t every);
/* Keeps it out of the steps before. */
void code_from(struct code *code, uint64_t step);

/* Bytes of a part in the simulated machine's memory. */
struct part_memory {
    uint64_t weights_bytes, gradients_bytes, optimizer_bytes;
    uint64_t input_bytes;      /* values that cross in, a micro-batch */
    uint64_t kept_input_bytes; /* of these, what backward reads */
    uint64_t stash_bytes;      /* all that is kept for backward, kept inputs included */
    uint64_t logits_bytes;     /* kept from forward to loss */
    uint64_t streamed_bytes;         /* in streaming memory (sim/offload.h) ... */
    uint64_t streamed_weights_bytes; /* ... of these, weights */
    uint64_t kept_gradients_bytes; /* of activations, from BACKWARD_INPUT to its WEIGHT */
    uint64_t block_inputs_bytes;   /* what its blocks hand to later ones of it */
    uint64_t workspace_bytes;  /* transient values and gradients, largest at once */
};
bool plan_part_memory(const struct plan *plan, const struct part *part,
                      struct part_memory *memory, struct error *error);
/* What a block's backward reads besides what came into it or goes on to later blocks of
 * the part. */
bool plan_block_stash(const struct plan *plan, const struct part *part, size_t block,
                      uint64_t *bytes, struct error *error);
uint64_t plan_part_parameters(const struct plan *plan, const struct part *part);
/* Buckets of a part (1 when it has no list). */
size_t plan_bucket_count(const struct part *part);
struct bucket plan_bucket(const struct plan *plan, const struct part *part, size_t index);
/* The stretch of a bucket that this part's optimiser updates. */
void plan_shard_stretch(const struct plan *plan, const struct part *part, size_t bucket,
                        uint64_t *first, uint64_t *count);
/* Sum of these: parameters that it updates. */
uint64_t plan_shard_parameters(const struct plan *plan, const struct part *part);
/* The values whose gradients a part's backward begins with: of its own loss and, unless
 * `gradient_apart`, of what comes in; `received`: of what comes in alone. */
size_t plan_part_seeds(const struct plan *plan, const struct part *part, bool received,
                       size_t seeds[MODEL_MAX_CROSSING + 1]);
/* Appends a collective's number to a part's list (ties, sums, gathers). */
bool plan_note_collective(uint32_t **list, size_t *count, uint32_t collective,
                          struct error *error);

/* Runs the programs without time over a few steps and refuses, naming the two
 * instructions that wait for each other, what could not finish; also a stash slot used
 * twice, and a message that nobody takes. */
bool plan_check(const struct plan *plan, struct error *error);

/* Whether an instruction of a step's body takes place in this step of so many. */
bool plan_takes_place(const struct plan *plan, const struct instruction *instruction,
                      uint64_t step, uint64_t steps);

/* "ipu1 instruction 4 (send activations of micro-batch 2 over edge 3)" style text. */
void instruction_text(const struct plan *plan, const struct instruction *instruction,
                      char *text, size_t bytes);

#endif
