#include "analysis/published.h"

#include "analysis/run.h"
#include "analysis/summary.h"
#include "sim/experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct published_result published_laskin2020_bytes, published_nccl_v100,
    published_nccl_a100, published_sodhani2020_traffic;

static const struct published_result *const results[] = {
    &published_laskin2020_bytes,
    &published_nccl_v100,
    &published_nccl_a100,
    &published_sodhani2020_traffic,
};

size_t published_count(void)
{
    return sizeof results / sizeof results[0];
}

const struct published_result *published_get(size_t index)
{
    return results[index];
}

void published_add(struct published_report *report, const char *what, const char *unit,
                   double published, double tolerance, double ours)
{
    if (report->count < PUBLISHED_MAX_FIGURES)
        report->figures[report->count++] =
            (struct published_figure){what, unit, published, tolerance, ours, false};
}

void published_add_bound(struct published_report *report, const char *what, const char *unit,
                         double bound, double ours)
{
    if (report->count < PUBLISHED_MAX_FIGURES)
        report->figures[report->count++] =
            (struct published_figure){what, unit, bound, 0, ours, true};
}

const cJSON *published_method(const cJSON *methods, const char *name, struct error *error)
{
    const cJSON *method;
    cJSON_ArrayForEach(method, methods) {
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(method, "name");
        if (cJSON_IsString(own) && strcmp(own->valuestring, name) == 0)
            return method;
    }
    error_set(error, STATUS_BAD_INPUT, "the experiment has no method \"%s\"", name);
    return NULL;
}

bool published_within(const struct published_figure *figure)
{
    if (figure->bound)
        return figure->ours <= figure->published;
    return fabs(figure->ours - figure->published) <=
           figure->tolerance * fabs(figure->published);
}

struct json_file *published_file(const char *name, struct error *error)
{
    char path[4096];
    const char *data = getenv("PODSIM_DATA");
    snprintf(path, sizeof path, "%s/analysis/experiments/%s",
             data != NULL ? data : PODSIM_DATA_DIRECTORY, name);
    return json_file_read(path, error);
}

bool published_run(const struct published_result *result, struct published_report *report,
                   struct error *error)
{
    const struct run_options options = {0};
    memset(report, 0, sizeof *report);
    if (result->run != NULL)
        return result->run(report, error);
    struct json_file *file = published_file(result->experiment, error);
    struct experiment *experiment = file == NULL ? NULL : experiment_read(file, error);
    if (experiment == NULL)
        return false;
    cJSON *raw = run_methods(experiment, &options, error);
    cJSON *methods = raw == NULL ? NULL : summary_parsed(raw);
    bool measured = raw != NULL && (methods != NULL || error_memory(error, "summary")) &&
                    result->measure(methods, report, error);
    cJSON_Delete(raw);
    cJSON_Delete(methods);
    experiment_free(experiment);
    return measured;
}
