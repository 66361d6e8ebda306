/* Models written down layer by layer: {"input": [...], "blocks": [{"name", "repeat",
 * "layers": [{"kind", "name", "inputs", "tied_to", options...}]}]}. Layer "b" of block "a"
 * is called "a.b"; in a block that is repeated, "a0.b", "a1.b" and so on. */
#include "engine/models/presets.h"

#include <stdio.h>
#include <string.h>

/* Where a layer is being added. */
struct place {
    struct model *model;
    const char *block;  /* its full name */
    size_t first_layer; /* the block's */
    size_t block_input; /* the value that the block begins with */
};

/* Gives the message of a model_... function its place in the file. */
static bool fail_at(const struct json_at *at, struct error *error)
{
    struct error inner = *error;
    json_fail(at, error, "%s", inner.message);
    error->status = inner.status;
    return false;
}

static const struct layer_kind *read_kind(const struct json_at *at, struct error *error)
{
    enum { MAX_KINDS = 128 };
    const char *names[MAX_KINDS];
    size_t count = layer_kind_count() < MAX_KINDS ? layer_kind_count() : MAX_KINDS, chosen;
    struct json_at kind;
    for (size_t i = 0; i < count; i++)
        names[i] = layer_kind_get(i)->name;
    if (!json_member(at, "kind", &kind, error) ||
        !json_choice(&kind, names, count, &chosen, error))
        return NULL;
    return layer_kind_get(chosen);
}

static bool check_keys(const struct json_at *at, const struct layer_kind *kind,
                       struct error *error)
{
    const char *keys[4 + LAYER_MAX_OPTIONS] = {"kind", "name", "inputs", "tied_to"};
    size_t count = 4;
    for (size_t i = 0; kind->options[i].name != NULL; i++)
        keys[count++] = kind->options[i].name;
    return json_keys(at, keys, count, error);
}

static bool read_option(const struct json_at *at, const struct layer_option *option,
                        double *value, struct error *error)
{
    struct json_at member;
    bool given = json_optional(at, option->name, &member), flag;
    if (!given && option->required)
        return json_fail(at, error, "the key \"%s\" is missing", option->name);
    if (given && option->integer && option->maximum == 1 && !json_is_number(&member)) {
        if (!json_boolean(&member, &flag, error))
            return false;
        *value = flag;
        return true;
    }
    if (!option->integer)
        return json_read_number(at, option->name, option->minimum, option->maximum, value,
                                error);
    const double exact = 0x1p53; /* above, doubles are no longer all the integers */
    uint64_t whole = (uint64_t)*value;
    uint64_t maximum = (uint64_t)(option->maximum < exact ? option->maximum : exact);
    if (!json_read_u64(at, option->name, (uint64_t)option->minimum, maximum, &whole, error))
        return false;
    *value = (double)whole;
    return true;
}

static bool read_options(const struct json_at *at, const struct layer_kind *kind,
                         struct option_value values[LAYER_MAX_OPTIONS + 1],
                         struct error *error)
{
    size_t count = 0;
    for (; kind->options[count].name != NULL; count++) {
        values[count] =
            (struct option_value){kind->options[count].name, kind->options[count].fallback};
        if (!read_option(at, &kind->options[count], &values[count].value, error))
            return false;
    }
    values[count] = (struct option_value){0};
    return true;
}

/* The index of the layer that a name means at this place: one of the same block, or by
 * its full name; the model's layer_count when there is none. */
static size_t find_layer(const struct place *place, const char *name)
{
    const struct model *model = place->model;
    size_t length = strlen(place->block);
    for (size_t i = place->first_layer; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name + length + 1, name) == 0)
            return i;
    for (size_t i = 0; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name, name) == 0)
            return i;
    return model->layer_count;
}

static bool read_layer_name(const struct json_at *at, const struct place *place,
                            size_t *layer, struct error *error)
{
    const char *name = NULL;
    if (!json_string(at, &name, error))
        return false;
    *layer = find_layer(place, name);
    return *layer < place->model->layer_count ||
           json_fail(at, error, "there is no layer \"%.60s\" before this one", name);
}

static bool read_input(const struct json_at *at, const struct place *place, size_t *value,
                       struct error *error)
{
    const char *name = NULL;
    if (!json_string(at, &name, error))
        return false;
    if (strcmp(name, "previous") == 0)
        *value = place->model->layer_count;
    else if (strcmp(name, "input") == 0)
        *value = 0;
    else if (strcmp(name, "block_input") == 0)
        *value = place->block_input;
    else if (read_layer_name(at, place, value, error))
        ++*value;
    else
        return false;
    return true;
}

static bool read_inputs(const struct json_at *at, const struct place *place,
                        size_t inputs[LAYER_MAX_INPUTS], size_t *count, struct error *error)
{
    struct json_at list, element;
    *count = 0;
    if (!json_optional(at, "inputs", &list))
        return true;
    *count = json_length(&list);
    if (*count == 0 || *count > LAYER_MAX_INPUTS)
        return json_fail(&list, error,
                         "must be a list of 1 to %d names of layers, \"previous\", "
                         "\"block_input\" or \"input\"",
                         LAYER_MAX_INPUTS);
    for (size_t i = 0; i < *count; i++)
        if (!json_element(&list, i, &element) ||
            !read_input(&element, place, &inputs[i], error))
            return false;
    return true;
}

/* Without a name a layer is called by its kind, the second of a block "kind_2". */
static bool read_name(const struct json_at *at, const struct place *place, const char *kind,
                      char full[LAYER_NAME_BYTES], struct error *error)
{
    static const char *const reserved[] = {"previous", "input", "block_input"};
    char fallback[LAYER_NAME_BYTES];
    const char *name = fallback;
    snprintf(fallback, sizeof fallback, "%s", kind);
    for (size_t i = 2; find_layer(place, fallback) < place->model->layer_count; i++)
        snprintf(fallback, sizeof fallback, "%s_%zu", kind, i);
    if (!json_read_string(at, "name", &name, error))
        return false;
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strcmp(name, reserved[i]) == 0)
            return json_fail(at, error, "a layer cannot be called \"%s\"", name);
    if (name[0] == '\0')
        return json_fail(at, error, "the name is empty");
    int length = snprintf(full, LAYER_NAME_BYTES, "%s.%s", place->block, name);
    return (length > 0 && length < LAYER_NAME_BYTES) ||
           json_fail(at, error, "the name \"%.40s.%.40s\" is longer than %d characters",
                     place->block, name, LAYER_NAME_BYTES - 1);
}

static bool read_layer(const struct json_at *at, const struct place *place,
                       struct error *error)
{
    struct option_value options[LAYER_MAX_OPTIONS + 1];
    size_t inputs[LAYER_MAX_INPUTS], input_count, tied = SIZE_MAX;
    char name[LAYER_NAME_BYTES];
    struct json_at tied_to;
    const struct layer_kind *kind = read_kind(at, error);
    if (kind == NULL || !check_keys(at, kind, error) ||
        !read_name(at, place, kind->name, name, error) ||
        !read_inputs(at, place, inputs, &input_count, error) ||
        !read_options(at, kind, options, error))
        return false;
    if (json_optional(at, "tied_to", &tied_to) &&
        !read_layer_name(&tied_to, place, &tied, error))
        return false;
    return model_add(place->model, kind->name, name, options, inputs, input_count, tied,
                     NULL, error) ||
           fail_at(at, error);
}

static bool read_block_once(const struct json_at *layers, struct model *model,
                            const char *name, struct error *error)
{
    struct place place = {model, name, model->layer_count, model->layer_count};
    struct json_at layer;
    if (!model_begin_block(model, name, error))
        return fail_at(layers->parent, error);
    if (!json_element(layers, 0, &layer))
        return json_fail(layers, error, "must be a list of at least one layer");
    do {
        if (!read_layer(&layer, &place, error))
            return false;
    } while (json_next(&layer));
    return true;
}

static bool read_block(const struct json_at *at, struct model *model, struct error *error)
{
    static const char *const keys[] = {"name", "repeat", "layers"};
    struct json_at name_at, layers;
    const char *name = NULL;
    char full[LAYER_NAME_BYTES];
    uint64_t repeat = 1;
    if (!json_keys(at, keys, 3, error) || !json_member(at, "name", &name_at, error) ||
        !json_string(&name_at, &name, error) ||
        !json_read_u64(at, "repeat", 1, MODEL_MAX_LAYERS, &repeat, error) ||
        !json_member(at, "layers", &layers, error))
        return false;
    for (uint64_t i = 0; i < repeat; i++) {
        int length = repeat == 1 ? snprintf(full, sizeof full, "%s", name)
                                 : snprintf(full, sizeof full, "%s%llu", name,
                                            (unsigned long long)i);
        if (length < 0 || (size_t)length >= sizeof full)
            return json_fail(&name_at, error, "is longer than %d characters",
                             LAYER_NAME_BYTES - 1);
        if (!read_block_once(&layers, model, full, error))
            return false;
    }
    return true;
}

static bool read_blocks(const struct json_at *at, struct model *model, struct error *error)
{
    struct json_at blocks, block;
    if (!json_member(at, "blocks", &blocks, error))
        return false;
    if (!json_element(&blocks, 0, &block))
        return json_fail(&blocks, error, "must be a list of at least one block");
    do {
        if (!read_block(&block, model, error))
            return false;
    } while (json_next(&block));
    return model_finish(model, error) || fail_at(&blocks, error);
}

struct model *model_read_blocks(const struct json_at *at, struct error *error)
{
    static const char *const keys[] = {"name", "input", "vocabulary", "blocks"};
    struct json_at input;
    struct shape shape = {0};
    uint64_t vocabulary = 0;
    const char *name = "custom";
    if (!json_keys(at, keys, 4, error) || !json_member(at, "input", &input, error) ||
        !model_read_shape(at, "input", &shape, error) ||
        !json_read_string(at, "name", &name, error) ||
        !json_read_u64(at, "vocabulary", 0, INT32_MAX, &vocabulary, error))
        return NULL;
    struct model *model = model_create(name, &shape, vocabulary, error);
    if (model == NULL) {
        fail_at(at, error);
        return NULL;
    }
    if (!read_blocks(at, model, error)) {
        model_free(model);
        return NULL;
    }
    return model;
}
