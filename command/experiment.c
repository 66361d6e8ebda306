/* What the commands that run an experiment share. */
#include "analysis/run.h"
#include "analysis/summary.h"
#include "base/text.h"
#include "command/command.h"
#include "command/progress.h"
#include "sim/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char built_in[] = "analysis/experiments/built-in.json";

/* The machine's own file takes the place of its name. */
static bool load_platform(struct json_file *file, cJSON *place, struct error *error)
{
    struct text path = {0};
    struct json_file *machine = NULL;
    if (experiment_find_platform(file, place->valuestring, &path, error))
        machine = json_file_read(text_string(&path), error);
    text_free(&path);
    if (machine == NULL)
        return false;
    cJSON *tree = json_file_tree(machine);
    bool is_object = cJSON_IsObject(tree);
    if (is_object) {
        cJSON_free(place->valuestring);
        place->valuestring = NULL;
        place->type = cJSON_Object;
        place->child = tree->child;
        tree->child = NULL;
    } else {
        error_set(error, STATUS_BAD_INPUT, "%s: must be an object",
                  json_file_name(machine));
    }
    json_file_free(machine);
    return is_object;
}

static bool spell_out_methods(const struct json_at *list, struct error *error)
{
    struct json_at method;
    for (size_t i = 0; json_element(list, i, &method); i++)
        if (!json_expand(&method, "kind", error))
            return false;
    return true;
}

/* What a name stands for, where something below it is to be set. */
static bool spell_out(struct json_file *file, const char *key, struct error *error)
{
    static const struct {
        const char *place, *key;
    } names[] = {{"data", "kind"}, {"optimizer", "kind"}, {"model", "preset"}};
    const struct json_at root = json_root(file);
    struct json_at at;
    const char *dot = strchr(key, '.');
    char place[16] = "";
    if (dot == NULL || (size_t)(dot - key) >= sizeof place)
        return true;
    memcpy(place, key, (size_t)(dot - key));
    if (!json_optional(&root, place, &at))
        return true;
    if (strcmp(place, "methods") == 0 && strchr(dot + 1, '.') != NULL)
        return spell_out_methods(&at, error);
    if (!json_is_string(&at))
        return true;
    if (strcmp(place, "platform") == 0)
        return load_platform(file, at.node, error);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(place, names[i].place) == 0)
            return json_expand(&at, names[i].key, error);
    return true;
}

static bool apply_set(struct json_file *file, const char *set, struct error *error)
{
    const char *equals = strchr(set, '=');
    char *key = strndup(set, (size_t)(equals - set));
    if (key == NULL)
        return error_memory(error, "--set");
    bool done = spell_out(file, key, error) ? json_file_set(file, key, equals + 1, error)
                                            : error_prefix(error, "--set %.100s", key);
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
    return ((options->given & OPTION_SEED) == 0 ||
            json_file_set(file, "seed", seed, error)) &&
           (!options->cost_only || json_file_set(file, "numerics", "false", error));
}

/* What a method of the file is called; "" where the reader will complain. */
static const char *method_name(const cJSON *method)
{
    const char *name = summary_string(method, "name");
    if (cJSON_IsString(method))
        return method->valuestring;
    return name[0] != '\0' ? name : summary_string(method, "kind");
}

static bool no_such_method(const struct json_file *file, const cJSON *methods,
                           const char *wanted, struct error *error)
{
    struct text names = {0};
    const cJSON *method;
    cJSON_ArrayForEach(method, methods)
        text_append(&names, "%s%s", names.length > 0 ? ", " : "", method_name(method));
    if (wanted == NULL)
        error_set(
            error, STATUS_BAD_INPUT,
            "%s: \"podsim run\" takes one method; pick one with --method NAME (there are "
            "%s), or use \"podsim compare\"",
            json_file_name(file), text_string(&names));
    else
        error_set(error, STATUS_BAD_INPUT, "%s: no method is called \"%s\"; there are %s",
                  json_file_name(file), wanted, text_string(&names));
    text_free(&names);
    return false;
}

/* Leaves the one method that is to be run. What is no list of methods the reader refuses.
 */
static bool pick_method(struct json_file *file, const char *wanted, struct error *error)
{
    cJSON *methods = cJSON_GetObjectItemCaseSensitive(json_file_tree(file), "methods");
    if (!cJSON_IsArray(methods) || (wanted == NULL && cJSON_GetArraySize(methods) <= 1))
        return true;
    int place = 0;
    const cJSON *method = methods->child;
    while (wanted != NULL && method != NULL && strcmp(method_name(method), wanted) != 0) {
        method = method->next;
        place++;
    }
    if (wanted == NULL || method == NULL)
        return no_such_method(file, methods, wanted, error);
    while (cJSON_GetArraySize(methods) > place + 1)
        cJSON_DeleteItemFromArray(methods, place + 1);
    while (cJSON_GetArraySize(methods) > 1)
        cJSON_DeleteItemFromArray(methods, 0);
    return true;
}

struct experiment *command_experiment(const struct options *options, bool single,
                                      struct error *error)
{
    char path[4096];
    const char *data = getenv("PODSIM_DATA");
    snprintf(path, sizeof path, "%s/%s", data != NULL ? data : PODSIM_DATA_DIRECTORY,
             built_in);
    struct json_file *file =
        json_file_read(options->argument_count > 0 ? options->arguments[0] : path, error);
    if (file == NULL)
        return NULL;
    if (!apply_options(file, options, error) ||
        (single && !pick_method(file, options->method, error))) {
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
