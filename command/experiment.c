/* What the commands that run an experiment share. */
#include "analysis/run.h"
#include "analysis/summary.h"
#include "command/command.h"
#include "command/progress.h"
#include "sim/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char built_in[] = "analysis/experiments/built-in.json";

static bool apply_set(struct json_file *file, const char *set, struct error *error)
{
    const char *equals = strchr(set, '=');
    char *key = strndup(set, (size_t)(equals - set));
    if (key == NULL)
        return error_memory(error, "--set");
    bool done = json_file_set(file, key, equals + 1, error);
    free(key);
    return done;
}

static bool apply_options(struct json_file *file, const struct options *options,
                          struct error *error)
{
    char seed[24];
    for (size_t i = 0; i < options->set_count; i++)
        if (!apply_set(file, options->sets[i], error))
            return false;
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->seed);
    return ((options->given & OPTION_SEED) == 0 || json_file_set(file, "seed", seed, error)) &&
           (!options->cost_only || json_file_set(file, "numerics", "false", error));
}

struct experiment *command_experiment(const struct options *options, struct error *error)
{
    char path[4096];
    const char *data = getenv("PODSIM_DATA");
    snprintf(path, sizeof path, "%s/%s", data != NULL ? data : PODSIM_DATA_DIRECTORY, built_in);
    struct json_file *file = json_file_read(
        options->argument_count > 0 ? options->arguments[0] : path, error);
    if (file == NULL)
        return NULL;
    if (!apply_options(file, options, error)) {
        json_file_free(file);
        return NULL;
    }
    return experiment_read(file, error);
}

cJSON *command_simulate(const struct experiment *experiment, const struct options *options,
                        bool flat, struct error *error)
{
    struct progress progress;
    const struct run_options run = {.directory = options->directory,
                                    .flat = flat,
                                    .jobs = (size_t)options->jobs,
                                    .keep_going = true,
                                    .progress = progress_show,
                                    .progress_context = &progress};
    progress_begin(&progress, options->quiet);
    cJSON *methods = run_methods(experiment, &run, error);
    progress_end(&progress);
    if (methods == NULL)
        return NULL;
    cJSON *summary = summary_of_experiment(experiment, methods);
    if (summary == NULL) {
        error_memory(error, "summary");
    } else if (options->directory != NULL &&
               !summary_write(summary, options->directory, error)) {
        cJSON_Delete(summary);
        return NULL;
    }
    return summary;
}
