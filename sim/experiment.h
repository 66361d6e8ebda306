/* An experiment file: one model, data set and machine, and the methods to compare. */
#ifndef PODSIM_SIM_EXPERIMENT_H
#define PODSIM_SIM_EXPERIMENT_H

#include "engine/dataset.h"
#include "sim/fidelity.h"
#include "sim/method.h"

struct experiment {
    struct json_file *file; /* owned; its tree is the resolved experiment */
    char name[LAYER_NAME_BYTES];
    struct model *model;
    bool has_data;
    struct dataset_description data;
    struct platform *platform;
    struct setting setting;
    uint64_t steps, seed;
    uint64_t evaluate_every; /* steps */
    double target_accuracy;
    uint64_t trace_steps;    /* 0: all */
    bool numerics;
    enum fidelity fidelity;
    struct method **methods;
    struct plan **plans; /* one a method */
    size_t method_count;
};

/* Reads and checks everything and compiles every method. Takes the file over, also on
 * failure. */
struct experiment *experiment_read(struct json_file *file, struct error *error);
void experiment_free(struct experiment *experiment);
/* The file of a platform that an experiment names: relative to the experiment's file, or to
 * the working folder, or a shipped one's. The caller frees the text. */
struct text;
bool experiment_find_platform(const struct json_file *file, const char *name,
                              struct text *path, struct error *error);
/* Opens the experiment's data set. */
struct dataset *experiment_open_data(const struct experiment *experiment,
                                     struct error *error);

#endif
