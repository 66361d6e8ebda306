/* podsim compare: several methods on the same model, data and machine. */
#include "analysis/depth.h"
#include "analysis/summary.h"
#include "analysis/table.h"
#include "command/command.h"
#include "sim/experiment.h"

#include <stdio.h>

static void print_heading(const struct experiment *e)
{
    printf("%s: %s on %s, batch %llu in micro-batches of %llu, %llu steps%s\n\n", e->name,
           e->model->name, platform_name(e->platform), (unsigned long long)e->setting.batch,
           (unsigned long long)e->setting.micro_batch, (unsigned long long)e->steps,
           e->numerics ? "" : ", cost only");
}

static bool print_json(const cJSON *summary)
{
    char *text = cJSON_Print(summary);
    if (text != NULL)
        puts(text);
    cJSON_free(text);
    return text != NULL;
}

static bool print_table(const struct experiment *e, const cJSON *methods, bool single)
{
    print_heading(e);
    return table_compare(stdout, methods, e->numerics) &&
           (!single || depth_print(stdout, cJSON_GetArrayItem(methods, 0)));
}

/* Status 4 when this computer could not do a method, 3 when nothing fits. */
static enum status outcome(const cJSON *methods)
{
    const cJSON *method;
    enum status status = STATUS_IMPOSSIBLE;
    cJSON_ArrayForEach(method, methods) {
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(method, "failed")))
            return STATUS_HOST;
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(method, "fits")))
            status = STATUS_OK;
    }
    return status;
}

static enum status print_result(const struct experiment *e, const cJSON *summary,
                                const struct options *options, bool single,
                                struct error *error)
{
    cJSON *methods = summary_parsed(cJSON_GetObjectItemCaseSensitive(summary, "methods"));
    enum status status = outcome(methods);
    if (methods == NULL ||
        !(options->json ? print_json(summary) : print_table(e, methods, single))) {
        error_memory(error, "table");
        status = STATUS_HOST;
    }
    cJSON_Delete(methods);
    if (options->directory != NULL && !options->json)
        printf("\nWritten to %s: summary.json, and the traces%s (trace.json opens in "
               "ui.perfetto.dev).\n",
               options->directory, single ? "" : " in a folder for each method");
    return status;
}

static enum status simulate_and_print(const struct options *options, bool single,
                                      struct error *error)
{
    struct experiment *e = command_experiment(options, single, error);
    if (e == NULL)
        return error->status;
    cJSON *summary = command_simulate(e, options, single, error);
    enum status status =
        summary == NULL ? error->status : print_result(e, summary, options, single, error);
    cJSON_Delete(summary);
    experiment_free(e);
    return status;
}

static enum status compare(const struct options *options, struct error *error)
{
    return simulate_and_print(options, false, error);
}

static enum status run(const struct options *options, struct error *error)
{
    return simulate_and_print(options, true, error);
}

const struct command command_compare = {
    .name = "compare",
    .arguments = "[EXPERIMENT.json]",
    .summary = "several methods on the same model, data and machine (default: built in)",
    .max_arguments = 1,
    .uses = OPTIONS_OF_EXPERIMENTS,
    .run = compare,
};

const struct command command_run = {
    .name = "run",
    .arguments = "[EXPERIMENT.json]",
    .summary = "one method in depth: time, memory, traffic, what holds it up (--method)",
    .max_arguments = 1,
    .uses = OPTIONS_OF_EXPERIMENTS | OPTION_METHOD,
    .run = run,
};
