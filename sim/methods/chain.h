/* What the methods that train one copy of a model as a chain of stages share: laying the
 * stages out, and emitting the instructions around a forward, a backward, an update. */
#ifndef PODSIM_SIM_METHODS_CHAIN_H
#define PODSIM_SIM_METHODS_CHAIN_H

#include "sim/method.h"
#include "sim/partition.h"

struct chain {
    bool gradients;          /* the gradient goes back over every cut */
    uint64_t queue_capacity; /* messages an edge holds */
    size_t processors;       /* stage i is on processor i % processors; 0: one a stage */
    enum recompute *recompute; /* one a stage, or one for all; NULL: none */
    size_t recompute_count;
};

/* The key "recompute": a name for all stages, or a list with one for each. */
bool chain_read_recompute(const struct json_at *at, size_t stages, struct chain *chain,
                          struct error *error);
void chain_release(struct chain *chain);

/* Cuts the setting's model and sets planner->end_block, head_value (the model's output
 * on the last stage only) and plan->model (a copy). */
bool chain_model(struct planner *planner, const struct stages *stages, struct error *error);
/* The same with a cut that minds the processors' memory. */
bool chain_model_within(struct planner *planner, const struct stages *stages,
                        const struct stage_demand *demand, struct error *error);
enum recompute chain_recompute(const struct chain *chain, size_t stage);

/* What a method sets in a stage's part: its slots, and what is unlike a plain stage. */
struct chain_stage {
    const void *context;
    bool (*fill)(const void *context, const struct planner *planner, struct part *part,
                 struct error *error);
};
/* Places one copy's stages on the next processors and connects neighbours. The ranks of a
 * stage are neighbours. The copy's parts are the stages of rank 0, then those of rank 1 ... */
bool chain_layout(struct planner *planner, const struct chain *chain,
                  const struct copy *copy, const struct chain_stage *stage,
                  struct error *error);

/* Take a micro-batch in, compute. */
bool chain_run_forward(struct plan *plan, struct code *code, uint32_t part,
                       int64_t micro_batch, struct error *error);
/* Pass on what it made, where anybody wants it; then the part's teachers do as much. */
bool chain_send_forward(struct plan *plan, struct code *code, uint32_t part,
                        int64_t micro_batch, struct error *error);
/* Both. */
bool chain_forward(struct plan *plan, struct code *code, uint32_t part, int64_t micro_batch,
                   struct error *error);
/* Recompute, loss with its exchange of predictions, gradient in (unless it has a backward
 * apart), compute: BACKWARD or BACKWARD_INPUT. */
bool chain_run_backward(struct plan *plan, struct code *code, enum operation operation,
                        uint32_t part, int64_t micro_batch, struct error *error);
bool chain_send_backward(struct plan *plan, struct code *code, uint32_t part,
                         int64_t micro_batch, struct error *error);
/* Both, with BACKWARD. */
bool chain_backward(struct plan *plan, struct code *code, uint32_t part,
                    int64_t micro_batch, struct error *error);
/* Of parts with gradient_apart: gradient in, compute. */
bool chain_received(struct plan *plan, struct code *code, uint32_t part,
                    int64_t micro_batch, struct error *error);
/* The parts of one processor: first, first + stride ... */
struct chain_seat {
    uint32_t first, count, stride;
};
/* Of each that trains: collectives, the update, the gathers; of several updates a step that
 * of the micro-batches from `micro_batch` on. After the step's last one checkpoints go out. */
bool chain_updates(struct plan *plan, struct code *code, const struct chain_seat *seat,
                   int64_t micro_batch, struct error *error);

#endif
