/* podsim model: a model layer by layer. */
#include "analysis/table.h"
#include "base/checked.h"
#include "base/text.h"
#include "command/command.h"
#include "engine/models/presets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 7, CELL_BYTES = 64 };
typedef char cell[CELL_BYTES];

/* "resnet34", or a file that holds what an experiment has under "model". */
static struct model *read_model(const struct options *options, struct error *error)
{
    const char *name = options->arguments[0];
    char text[256];
    struct json_file *file;
    if (model_preset_find(name) != NULL) {
        snprintf(text, sizeof text, "{\"preset\": \"%s\"}", name);
        file = json_file_parse(name, text, error);
    } else if (strchr(name, '.') == NULL && strchr(name, '/') == NULL) {
        struct text names = {0};
        for (size_t i = 0; i < model_preset_count(); i++)
            text_append(&names, "%s%s", i > 0 ? ", " : "", model_preset_name(i));
        error_set(error, STATUS_BAD_INPUT,
                  "model \"%.100s\" is not known; there are %s, or give a FILE.json", name,
                  text_string(&names));
        text_free(&names);
        return NULL;
    } else {
        file = json_file_read(name, error);
    }
    if (file == NULL)
        return NULL;
    bool set = true;
    for (size_t i = 0; set && i < options->set_count; i++) {
        const char *equals = strchr(options->sets[i], '=');
        char *key = strndup(options->sets[i], (size_t)(equals - options->sets[i]));
        set = key != NULL ? json_file_set(file, key, equals + 1, error)
                          : error_memory(error, "--set");
        free(key);
    }
    struct json_at root = json_root(file);
    struct model *model = set ? model_read(&root, error) : NULL;
    json_file_free(file);
    return model;
}

static void fill_row(cell *row, const struct model *model, size_t index, const char *block)
{
    const struct layer *layer = &model->layers[index];
    snprintf(row[0], CELL_BYTES, "%s", block);
    snprintf(row[1], CELL_BYTES, "%s", layer->name);
    snprintf(row[2], CELL_BYTES, "%s", layer->kind->name);
    shape_text(&layer->output_shape, row[3]);
    snprintf(row[4], CELL_BYTES, "%" PRIu64, layer_parameter_count(layer));
    snprintf(row[5], CELL_BYTES, "%" PRIu64, layer->forward_flops);
    snprintf(row[6], CELL_BYTES, "%" PRIu64, 4 * shape_count(&layer->output_shape));
}

static void print_totals(const struct model *model)
{
    struct stash_size stash = model_stash(model, 0, model->layer_count);
    uint64_t flops = 0, activations = 0;
    for (size_t i = 0; i < model->layer_count; i++) {
        flops += model->layers[i].forward_flops;
        activations += 4 * shape_count(&model->layers[i].output_shape);
    }
    printf("\n%s: %zu blocks, %zu layers\n", model->name, model->block_count,
           model->layer_count);
    printf("parameters                 %" PRIu64 "\n", model_parameter_count(model));
    printf("multiply-adds, forward     %" PRIu64 " (%.4g GMAC), matrix products and "
           "convolutions, a sample\n",
           model_macs(model), (double)model_macs(model) / 1e9);
    printf("FLOPs, forward             %" PRIu64 ", everything, a sample\n", flops);
    printf("outputs of all layers      %" PRIu64 " bytes, a sample in fp32\n", activations);
    printf("kept for backward          %" PRIu64 " bytes, a sample in fp32\n", 4 * stash.count);
}

static bool print_model(const struct model *model)
{
    static const char *const headings[COLUMNS] = {
        "block", "layer", "kind", "output", "parameters", "forward FLOPs", "output bytes"};
    size_t rows = model->layer_count + 1;
    cell *texts = checked_calloc(rows * COLUMNS, sizeof *texts);
    const char **cells = checked_calloc(rows * COLUMNS, sizeof *cells);
    bool made = texts != NULL && cells != NULL;
    for (size_t b = 0; made && b < model->block_count; b++)
        for (size_t i = model->blocks[b].first_layer; i < model->blocks[b].end_layer; i++)
            fill_row(texts + (i + 1) * COLUMNS, model, i,
                     i == model->blocks[b].first_layer ? model->blocks[b].name : "");
    for (size_t i = 0; made && i < rows * COLUMNS; i++)
        cells[i] = i < COLUMNS ? headings[i] : texts[i];
    if (made) {
        table_print(stdout, cells, rows, COLUMNS);
        print_totals(model);
    }
    free(texts);
    free(cells);
    return made;
}

static enum status describe(const struct options *options, struct error *error)
{
    struct model *model = read_model(options, error);
    if (model == NULL)
        return error->status;
    bool printed = print_model(model);
    model_free(model);
    if (!printed)
        error_memory(error, "table");
    return printed ? STATUS_OK : error->status;
}

const struct command command_model = {
    .name = "model",
    .arguments = "NAME|FILE.json",
    .summary = "shapes, parameters, FLOPs and bytes of a model's layers",
    .min_arguments = 1,
    .max_arguments = 1,
    .uses = OPTION_SET,
    .run = describe,
};
