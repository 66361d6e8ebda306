#include "sim/experiment.h"

#include "base/checked.h"
#include "base/text.h"
#include "engine/models/presets.h"
#include "sim/automatic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const keys[] = {
    "name",  "model",     "data",    "platform",       "precision",       "batch",
    "micro_batch", "steps", "seed",  "optimizer",      "methods",         "evaluate_every",
    "target_accuracy", "trace_steps", "numerics", "fidelity", "offload", "label_smoothing",
};

static bool read_data(struct json_at *root, struct experiment *e, struct error *error)
{
    struct json_at at;
    e->has_data = json_optional(root, "data", &at);
    if (!e->has_data) {
        if (e->numerics)
            return json_fail(root, error,
                             "\"data\" is missing; it is needed to train (or set "
                             "\"numerics\": false, or use --cost-only)");
        return true;
    }
    return dataset_describe(&at, &e->data, error);
}

static bool preset_takes(const struct model_preset *preset, const char *key)
{
    for (size_t i = 0; i < preset->key_count; i++)
        if (strcmp(preset->keys[i], key) == 0)
            return true;
    return false;
}

static bool add_number(cJSON *object, const char *key, uint64_t value)
{
    return cJSON_GetObjectItemCaseSensitive(object, key) != NULL ||
           cJSON_AddNumberToObject(object, key, (double)value) != NULL;
}

static bool add_input(cJSON *object, const struct shape *shape)
{
    if (cJSON_GetObjectItemCaseSensitive(object, "input") != NULL)
        return true;
    cJSON *list = cJSON_AddArrayToObject(object, "input");
    bool added = list != NULL;
    for (size_t i = 0; added && i < shape->rank; i++)
        added = cJSON_AddItemToArray(list, cJSON_CreateNumber((double)shape->extent[i]));
    return added;
}

/* A preset takes its input shape and classes from the data, unless the file says them. */
static bool fit_preset(struct json_at *at, const struct dataset_description *data,
                       struct error *error)
{
    if (json_is_string(at)) {
        char *name = at->node->valuestring;
        if (model_preset_find(name) == NULL)
            return true;
        at->node->type = cJSON_Object;
        at->node->valuestring = NULL;
        bool moved = cJSON_AddStringToObject(at->node, "preset", name) != NULL;
        cJSON_free(name);
        if (!moved)
            return error_memory(error, "model");
    }
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(at->node, "preset");
    const struct model_preset *preset =
        cJSON_IsString(name) ? model_preset_find(name->valuestring) : NULL;
    if (preset == NULL)
        return true;
    bool fitted = (!preset_takes(preset, "input") || add_input(at->node, &data->input_shape)) &&
                  (!preset_takes(preset, "classes") ||
                   add_number(at->node, "classes", data->classes)) &&
                  (!preset_takes(preset, "vocabulary") || data->vocabulary == 0 ||
                   add_number(at->node, "vocabulary", data->vocabulary)) &&
                  (!preset_takes(preset, "length") || data->vocabulary == 0 ||
                   add_number(at->node, "length", data->input_shape.extent[0])) &&
                  (!preset_takes(preset, "source_length") || data->vocabulary == 0 ||
                   data->labels >= data->input_shape.extent[0] ||
                   (add_number(at->node, "source_length",
                               data->input_shape.extent[0] - data->labels) &&
                    add_number(at->node, "target_length", data->labels)));
    return fitted || error_memory(error, "model");
}

static bool check_fit(const struct json_at *at, const struct experiment *e,
                      struct error *error)
{
    char model[64], data[64];
    uint64_t rows = shape_count(model_value_shape(e->model, model_output_value(e->model))) /
                    e->model->classes;
    shape_text(&e->model->input_shape, model);
    shape_text(&e->data.input_shape, data);
    if (!shape_equal(&e->model->input_shape, &e->data.input_shape))
        return json_fail(at, error, "the model takes inputs of shape %s, but data \"%s\" has %s",
                         model, e->data.name, data);
    if (e->model->classes != e->data.classes)
        return json_fail(at, error, "the model has %llu outputs, but data \"%s\" has %llu classes",
                         (unsigned long long)e->model->classes, e->data.name,
                         (unsigned long long)e->data.classes);
    if (rows != e->data.labels)
        return json_fail(at, error,
                         "the model makes %llu predictions a sample, but data \"%s\" has %llu "
                         "labels",
                         (unsigned long long)rows, e->data.name,
                         (unsigned long long)e->data.labels);
    if ((e->model->vocabulary > 0) != (e->data.vocabulary > 0) ||
        e->model->vocabulary < e->data.vocabulary)
        return json_fail(at, error,
                         "the model's vocabulary is %llu, that of data \"%s\" is %llu",
                         (unsigned long long)e->model->vocabulary, e->data.name,
                         (unsigned long long)e->data.vocabulary);
    return true;
}

static bool read_model(struct json_at *root, struct experiment *e, struct error *error)
{
    struct json_at at;
    if (!json_member(root, "model", &at, error))
        return false;
    if (e->has_data && !fit_preset(&at, &e->data, error))
        return false;
    e->model = model_read(&at, error);
    return e->model != NULL && (!e->has_data || check_fit(&at, e, error));
}

/* Puts the place in front of what went wrong there. */
static bool fail_at(const struct json_at *at, struct error *error)
{
    struct error cause = *error;
    json_fail(at, error, "%s", cause.message);
    error->status = cause.status;
    return false;
}

bool experiment_find_platform(const struct json_file *file, const char *name,
                              struct text *path, struct error *error)
{
    const char *own = json_file_name(file), *slash = strrchr(own, '/');
    char beside[4096];
    struct stat there;
    int written = name[0] == '/' || slash == NULL
                      ? -1
                      : snprintf(beside, sizeof beside, "%.*s%s", (int)(slash - own + 1), own,
                                 name);
    bool is_beside = written > 0 && (size_t)written < sizeof beside &&
                     stat(beside, &there) == 0 && S_ISREG(there.st_mode);
    return platform_find(is_beside ? beside : name, path, error);
}

/* A name, a file, or the machine itself as an object. */
static bool read_platform(struct json_at *root, struct experiment *e, struct error *error)
{
    const char *name;
    struct json_at at;
    struct text path = {0};
    if (!json_member(root, "platform", &at, error))
        return false;
    if (json_is_object(&at)) {
        e->platform = platform_parse(&at, error);
        return e->platform != NULL;
    }
    if (!json_is_string(&at))
        return json_fail(&at, error, "must be a name, a file or an object that describes it");
    json_string(&at, &name, error);
    if (experiment_find_platform(e->file, name, &path, error))
        e->platform = platform_read(text_string(&path), error);
    text_free(&path);
    return e->platform != NULL || fail_at(&at, error);
}

static bool read_sizes(struct json_at *root, struct experiment *e, struct error *error)
{
    const uint64_t most = UINT64_C(1) << 53;
    struct json_at at;
    e->setting.batch = 128;
    if (!json_read_u64(root, "batch", 1, UINT64_C(1) << 40, &e->setting.batch, error))
        return false;
    e->setting.micro_batch = e->setting.batch;
    e->steps = 100;
    e->trace_steps = 3;
    e->target_accuracy = 0.85;
    if (!json_read_u64(root, "micro_batch", 1, UINT64_C(1) << 40, &e->setting.micro_batch,
                       error) ||
        !json_read_u64(root, "steps", 1, most, &e->steps, error) ||
        !json_read_u64(root, "seed", 0, most, &e->seed, error) ||
        !json_read_u64(root, "trace_steps", 0, most, &e->trace_steps, error) ||
        !json_read_number(root, "target_accuracy", 0, 1, &e->target_accuracy, error) ||
        !json_read_number(root, "label_smoothing", 0, 1, &e->setting.label_smoothing, error))
        return false;
    e->evaluate_every = e->steps < 20 ? 1 : e->steps / 20;
    if (!json_read_u64(root, "evaluate_every", 0, most, &e->evaluate_every, error))
        return false;
    json_optional(root, "micro_batch", &at);
    if (e->setting.batch % e->setting.micro_batch != 0)
        return json_fail(&at, error, "%llu does not divide the batch of %llu",
                         (unsigned long long)e->setting.micro_batch,
                         (unsigned long long)e->setting.batch);
    return true;
}

static bool read_optimizer(struct json_at *root, struct experiment *e, struct error *error)
{
    struct json_at at;
    optimizer_defaults(&e->setting.optimizer);
    if (!json_optional(root, "optimizer", &at)) {
        if (cJSON_AddObjectToObject(root->node, "optimizer") == NULL)
            return error_memory(error, "optimizer");
        json_optional(root, "optimizer", &at);
    }
    return optimizer_read(&at, &e->setting.optimizer, error);
}

static bool read_precision(struct json_at *root, struct experiment *e, struct error *error)
{
    struct json_at at;
    if (!json_optional(root, "precision", &at)) {
        if (cJSON_AddStringToObject(root->node, "precision", "fp32") == NULL)
            return error_memory(error, "precision");
        json_optional(root, "precision", &at);
    }
    return precision_read(&at, &e->setting.precision, error);
}

static bool read_offload(struct json_at *root, struct experiment *e, struct error *error)
{
    struct json_at at;
    return !json_optional(root, "offload", &at) ||
           offload_read(&at, &e->setting.offload, error);
}

static bool read_method(const struct json_at *list, size_t index, struct experiment *e,
                        struct error *error)
{
    struct json_at at;
    json_element(list, index, &at);
    if (!automatic_stages(&at, platform_processor_count(e->platform), e->model->block_count,
                          error))
        return false;
    e->methods[index] = method_read(&at, error);
    if (e->methods[index] == NULL)
        return false;
    e->method_count = index + 1;
    for (size_t i = 0; i < index; i++)
        if (strcmp(e->methods[i]->name, e->methods[index]->name) == 0)
            return json_fail(&at, error,
                             "two methods are named \"%s\"; give each a \"name\" of its own",
                             e->methods[index]->name);
    e->plans[index] = method_plan(e->methods[index], &e->setting, error);
    return e->plans[index] != NULL || fail_at(&at, error);
}

static bool read_methods(struct json_at *root, struct experiment *e, struct error *error)
{
    struct json_at at;
    if (!json_member(root, "methods", &at, error))
        return false;
    size_t count = json_length(&at);
    if (!json_is_array(&at) || count == 0)
        return json_fail(&at, error, "must be a list of at least one method");
    e->methods = checked_calloc(count, sizeof *e->methods);
    e->plans = checked_calloc(count, sizeof *e->plans);
    if (e->methods == NULL || e->plans == NULL)
        return error_memory(error, "methods");
    for (size_t i = 0; i < count; i++)
        if (!read_method(&at, i, e, error))
            return false;
    return true;
}

static bool read_all(struct experiment *e, struct error *error)
{
    struct json_at root = json_root(e->file);
    const char *name = "experiment";
    e->numerics = true;
    if (!json_keys(&root, keys, sizeof keys / sizeof keys[0], error) ||
        !json_read_string(&root, "name", &name, error) ||
        !json_read_boolean(&root, "numerics", &e->numerics, error))
        return false;
    strncpy(e->name, name, sizeof e->name - 1);
    size_t fidelity = FIDELITY_AUTO;
    if (!json_read_choice(&root, "fidelity", fidelity_names, FIDELITY_COUNT, &fidelity, error))
        return false;
    e->fidelity = (enum fidelity)fidelity;
    if (!read_sizes(&root, e, error) || !read_data(&root, e, error) ||
        !read_model(&root, e, error) || !read_platform(&root, e, error) ||
        !read_precision(&root, e, error) || !read_offload(&root, e, error) || !read_optimizer(&root, e, error))
        return false;
    e->setting.model = e->model;
    e->setting.platform = e->platform;
    return read_methods(&root, e, error);
}

struct experiment *experiment_read(struct json_file *file, struct error *error)
{
    struct experiment *e = checked_calloc(1, sizeof *e);
    if (e == NULL) {
        json_file_free(file);
        error_memory(error, "experiment");
        return NULL;
    }
    e->file = file;
    if (!read_all(e, error)) {
        experiment_free(e);
        return NULL;
    }
    return e;
}

void experiment_free(struct experiment *e)
{
    if (e == NULL)
        return;
    for (size_t i = 0; i < e->method_count; i++) {
        plan_free(e->plans[i]);
        method_free(e->methods[i]);
    }
    free(e->methods);
    free(e->plans);
    model_free(e->model);
    platform_free(e->platform);
    json_file_free(e->file);
    free(e);
}

struct dataset *experiment_open_data(const struct experiment *e, struct error *error)
{
    struct json_at root = json_root(e->file), at;
    if (!json_member(&root, "data", &at, error))
        return NULL;
    return dataset_open(&at, error);
}
