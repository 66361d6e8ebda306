/* Methods: how training is spread over processors. A kind is one file in sim/methods/ and
 * one line in the table of sim/method.c. Kinds that train one copy of the model
 * (backprop, pipeline, local) lay out parts and emit their programs; a kind that splits the
 * model or combines copies of it lets an inner method of a lower level lay out its parts,
 * ties these together by edges and collectives noted in the parts, and then lets the inner
 * method emit. */
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

/* What may be inside what: only kinds of a lower level. */
enum method_level {
    METHOD_TRAINS,      /* one copy of the model, as a chain of stages */
    METHOD_SPLITS,      /* the layers of a copy over several processors */
    METHOD_REPLICATES,  /* copies that share the batch */
    METHOD_CODISTILLS   /* models that teach each other */
};

/* A plan under construction. */
struct planner {
    const struct setting *setting;
    struct plan *plan;
    const struct method *method; /* the outermost: its placement counts */
    size_t placed;               /* processors handed out */
    const struct model *model;   /* to be cut: the setting's, or one rank's shard of it */
    uint32_t ranks;              /* processors of a stage, each with its shard; 1: no split */
    /* The cut, the same for all copies, set by the kind's model function. */
    size_t stage_count;
    size_t *end_block;  /* the block after stage i */
    size_t *head_value; /* value number of stage i's logits; SIZE_MAX: no loss there */
    size_t *seat;       /* of stage i, ascending: stages of one seat share a processor (one a
                         * rank); NULL: the chain says */
};

struct method_kind {
    const char *name;
    const char *summary;
    const char *const *keys; /* besides name, kind, placement */
    size_t key_count;
    bool (*read)(const struct json_at *at, struct method *method, struct error *error);
    void (*release)(struct method *method);
    /* Sets the planner's cut and plan->model: the planner's model with the heads that the
     * method needs. */
    bool (*model)(const struct method *method, struct planner *planner, struct error *error);
    /* Parts, edges and slots of one copy of the model; a combining kind lays out all its
     * copies, which share what `copy` says. */
    bool (*layout)(const struct method *method, struct planner *planner,
                   const struct copy *copy, struct error *error);
    /* The programs of the copies [first, end) that layout made. */
    bool (*emit)(const struct method *method, struct planner *planner, uint32_t first,
                 uint32_t end, struct error *error);
    enum method_level level;
};

size_t method_kind_count(void);
const struct method_kind *method_kind_get(size_t index);

/* An element of "methods": a kind's name, or an object. */
struct method *method_read(const struct json_at *at, struct error *error);
void method_free(struct method *method);

/* The whole compilation, checked (plan_check). */
struct plan *method_plan(const struct method *method, const struct setting *setting,
                         struct error *error);

/* For kinds: the processor at a place of the placement. */
bool planner_processor(const struct planner *planner, size_t place, uint32_t *processor,
                       struct error *error);
/* For kinds: the member "inner", backprop by default, of a method of this kind. */
struct method *method_read_inner(const struct json_at *at, const struct method_kind *outer,
                                 struct error *error);

#endif
