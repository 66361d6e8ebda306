/* The subcommands of podsim: one file and one line in the table of command/main.c each. */
#ifndef PODSIM_COMMAND_COMMAND_H
#define PODSIM_COMMAND_COMMAND_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was given; each command says which of them it has a use for. */
enum option_bit {
    OPTION_SET = 1 << 0,
    OPTION_OUTPUT = 1 << 1,
    OPTION_JSON = 1 << 2,
    OPTION_COST_ONLY = 1 << 3,
    OPTION_SEED = 1 << 4,
    OPTION_JOBS = 1 << 5,
    OPTION_QUIET = 1 << 6,
    OPTION_XML = 1 << 7,
    OPTION_SVG = 1 << 8,
    OPTION_METHOD = 1 << 9,
    OPTIONS_OF_EXPERIMENTS = OPTION_SET | OPTION_OUTPUT | OPTION_JSON | OPTION_COST_ONLY |
                             OPTION_SEED | OPTION_JOBS | OPTION_QUIET
};

struct options {
    unsigned given; /* option bits */
    char **arguments; /* those that are not options */
    size_t argument_count;
    const char **sets; /* KEY=VALUE */
    size_t set_count, set_capacity;
    const char *directory;
    bool json, cost_only, quiet, xml;
    const char *svg;
    const char *method; /* the name of the one to run */
    uint64_t seed, jobs;
};

struct command {
    const char *name;
    const char *arguments; /* for the usage line */
    const char *summary;
    size_t min_arguments, max_arguments;
    unsigned uses; /* option bits */
    /* Results on standard output, everything else on standard error. */
    enum status (*run)(const struct options *options, struct error *error);
};

extern const struct command command_compare, command_run, command_platform, command_model,
    command_validate;

/* The experiment of a file (or the built-in one) with --set, --seed and --cost-only
 * applied; `single`: with one method, --method's if it has several. */
struct experiment;
struct experiment *command_experiment(const struct options *options, bool single,
                                      struct error *error);
/* Runs it, shows progress, writes the result folder when asked for; returns the whole
 * summary, NULL on failure. */
struct cJSON;
struct cJSON *command_simulate(const struct experiment *experiment,
                               const struct options *options, bool flat,
                               struct error *error);

#endif
