/* Methods: how training is spread over processors. A kind is one file in sim/methods/ and
 * one line in the table of sim/method.c. Kinds that train one copy of the model
 * (backprop, pipeline, local) lay out parts and emit their programs; kinds that combine
 * copies (codistillation) lay out an inner method several times, tie the copies together
 * by edges noted in the parts, and then let the inner method emit. */
#ifndef PODSIM_SIM_METHOD_H
#define PODSIM_SIM_METHOD_H

#include "engine/optimizer.h"
#include "sim/plan.h"
#include "sim/platform.h"

struct method_kind;

struct method {
    char name[LAYER_NAME_BYTES];
    const struct method_kind *kind;
    void *parameters;      /* of the kind */
    uint32_t *placement;   /* processors in the order of use; NULL: 0, 1, 2 ... */
    size_t placement_count;
};

/* What methods may look at while they plan. */
struct setting {
    const struct model *model;
    struct platform *platform;
    struct precision precision;
    struct offload offload;
    uint64_t batch, micro_batch;
    struct optimizer_options optimizer;
    double label_smoothing;
};

/* A plan under construction. */
struct planner {
    const struct setting *setting;
    struct plan *plan;
    const struct method *method; /* the outermost: its placement counts */
    size_t placed;               /* processors handed out */
    /* The cut, the same for all copies, set by the kind's model function. */
    size_t stage_count;
    size_t *end_block;  /* the block after stage i */
    size_t *head_value; /* value number of stage i's logits; SIZE_MAX: no loss there */
    size_t *seat;       /* of stage i's processor, from 0 on, ascending; NULL: i */
};

struct method_kind {
    const char *name;
    const char *summary;
    const char *const *keys; /* besides name, kind, placement */
    size_t key_count;
    bool (*read)(const struct json_at *at, struct method *method, struct error *error);
    void (*release)(struct method *method);
    /* Sets the planner's cut and plan->model: the setting's model with the heads that the
     * method needs. */
    bool (*model)(const struct method *method, struct planner *planner, struct error *error);
    /* Parts, edges and slots of one copy of the model; a combining kind lays out all its
     * copies, which share what `copy` says. */
    bool (*layout)(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error);
    /* The programs of the copies [first, end) that layout made. */
    bool (*emit)(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error);
    bool combines; /* several copies of the model, each trained by an inner method */
};

size_t method_kind_count(void);
const struct method_kind *method_kind_get(size_t index);

/* An element of "methods": a kind's name, or an object. */
struct method *method_read(const struct json_at *at, struct error *error);
void method_free(struct method *method);

/* The whole compilation, checked (plan_check). */
struct plan *method_plan(const struct method *method, const struct setting *setting,
                         struct error *error);

/* For kinds: the next processor of the placement. */
bool planner_place(struct planner *planner, uint32_t *processor, struct error *error);
/* For kinds: the member "inner", backprop by default. `combining`: may itself combine. */
struct method *method_read_inner(const struct json_at *at, bool combining,
                                 struct error *error);

#endif
