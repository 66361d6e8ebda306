/* podsim validate: published figures beside ours. */
#include "analysis/published.h"
#include "analysis/table.h"
#include "base/checked.h"
#include "command/command.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 6, CELL_BYTES = 64 };

static void print_figures(const struct published_report *report)
{
    static const char *const headings[COLUMNS] = {"figure",     "published", "ours",
                                                  "difference", "tolerance", "within"};
    char texts[PUBLISHED_MAX_FIGURES][COLUMNS][CELL_BYTES];
    const char *cells[(PUBLISHED_MAX_FIGURES + 1) * COLUMNS];
    for (size_t c = 0; c < COLUMNS; c++)
        cells[c] = headings[c];
    for (size_t i = 0; i < report->count; i++) {
        const struct published_figure *f = &report->figures[i];
        char(*row)[CELL_BYTES] = texts[i];
        snprintf(row[0], CELL_BYTES, "%s", f->what);
        snprintf(row[1], CELL_BYTES, f->bound ? "-" : "%.6g %s", f->published, f->unit);
        snprintf(row[2], CELL_BYTES, "%.6g %s", f->ours, f->unit);
        if (f->bound) {
            snprintf(row[3], CELL_BYTES, "-");
            snprintf(row[4], CELL_BYTES, "at most %.3g %s", f->published, f->unit);
        } else {
            snprintf(row[3], CELL_BYTES, "%+.2f %%",
                     100 * (f->ours - f->published) / fabs(f->published));
            snprintf(row[4], CELL_BYTES, f->tolerance > 0 ? "%.3g %%" : "exact",
                     100 * f->tolerance);
        }
        snprintf(row[5], CELL_BYTES, "%s", published_within(f) ? "yes" : "NO");
        for (size_t c = 0; c < COLUMNS; c++)
            cells[(i + 1) * COLUMNS + c] = row[c];
    }
    table_print(stdout, cells, report->count + 1, COLUMNS);
}

static bool validate_one(const struct published_result *result, bool *within,
                         struct error *error)
{
    struct published_report report;
    if (!published_run(result, &report, error))
        return error_prefix(error, "%s", result->name);
    printf("%s\n%s\n\n", result->name, result->source);
    print_figures(&report);
    printf("\n%s\n", result->choices);
    for (size_t i = 0; i < report.count; i++)
        *within = *within && published_within(&report.figures[i]);
    return true;
}

static const struct published_result *find(const char *name, struct error *error)
{
    char names[512] = "";
    for (size_t i = 0; i < published_count(); i++) {
        if (strcmp(published_get(i)->name, name) == 0)
            return published_get(i);
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                 published_get(i)->name);
    }
    error_set(error, STATUS_BAD_INPUT, "no published result \"%.100s\"; there are %s", name,
              names);
    return NULL;
}

static enum status validate(const struct options *options, struct error *error)
{
    bool within = true;
    for (size_t i = 0; i < options->argument_count; i++)
        if (find(options->arguments[i], error) == NULL)
            return error->status;
    for (size_t i = 0; options->argument_count == 0 && i < published_count(); i++)
        if (!validate_one(published_get(i), &within, error))
            return error->status;
    for (size_t i = 0; i < options->argument_count; i++)
        if (!validate_one(find(options->arguments[i], error), &within, error))
            return error->status;
    puts(within ? "All figures are within their tolerance."
                : "At least one figure is outside its tolerance.");
    return within ? STATUS_OK : STATUS_FAILED;
}

const struct command command_validate = {
    .name = "validate",
    .arguments = "[NAME...]",
    .summary = "published figures beside ours (default: all)",
    .max_arguments = 64,
    .run = validate,
};
