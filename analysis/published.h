/* Published figures that podsim reproduces: one file in analysis/published/ and one line
 * in the table of analysis/published.c each. */
#ifndef PODSIM_ANALYSIS_PUBLISHED_H
#define PODSIM_ANALYSIS_PUBLISHED_H

#include "base/json.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

enum { PUBLISHED_MAX_FIGURES = 20 };

struct published_figure {
    const char *what;
    const char *unit;
    double published;
    double tolerance; /* relative; 0: exact */
    double ours;
    bool bound; /* nothing published: ours must not exceed `published`, a bound we set */
};

struct published_report {
    struct published_figure figures[PUBLISHED_MAX_FIGURES];
    size_t count;
};

struct published_result {
    const char *name;
    const char *source;
    /* The experiment that gives ours, in analysis/experiments/; NULL when there is run. */
    const char *experiment;
    /* What the source leaves open and what was chosen; lines of text. */
    const char *choices;
    /* From the experiment's methods (objects, as in summary.json). False when one that is
     * needed is not there. */
    bool (*measure)(const cJSON *methods, struct published_report *report,
                    struct error *error);
    /* In place of experiment and measure: does it all. */
    bool (*run)(struct published_report *report, struct error *error);
};

size_t published_count(void);
const struct published_result *published_get(size_t index);

/* Runs its experiment and measures. */
bool published_run(const struct published_result *result, struct published_report *report,
                   struct error *error);
bool published_within(const struct published_figure *figure);

/* For the files: an experiment of analysis/experiments/; adds a figure; the method of a name (NULL and error: not there). */
struct json_file *published_file(const char *name, struct error *error);
void published_add(struct published_report *report, const char *what, const char *unit,
                   double published, double tolerance, double ours);
/* A figure that must not exceed a bound of ours, such as a mean error. */
void published_add_bound(struct published_report *report, const char *what, const char *unit,
                         double bound, double ours);
const cJSON *published_method(const cJSON *methods, const char *name, struct error *error);

#endif
