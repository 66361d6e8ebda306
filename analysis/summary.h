/* One method's result as JSON: what summary.json holds and every table is made of. */
#ifndef PODSIM_ANALYSIS_SUMMARY_H
#define PODSIM_ANALYSIS_SUMMARY_H

#include "analysis/learning.h"
#include "sim/executor.h"
#include "sim/experiment.h"

/* NULL only for want of memory. */
cJSON *summary_of_method(const struct experiment *experiment, size_t method,
                         const struct trace_header *header,
                         const struct execution_result *result,
                         const struct trace_totals *totals, const struct learning *learning);
/* Of a method that the simulated machine could not run to its end. */
cJSON *summary_of_stopped(const struct plan *plan, const char *message);
/* The whole summary: version, seed, resolved experiment, and the methods' list, which it
 * takes over. */
cJSON *summary_of_experiment(const struct experiment *experiment, cJSON *methods);
/* The text of a method's summary, indented as an element of summary.json's list. The
 * caller calls cJSON_free. NULL: no memory. */
char *summary_text(const cJSON *method);
/* A list of raw texts as a list of objects, for tables. NULL: no memory. */
cJSON *summary_parsed(const cJSON *raw_list);
/* Writes DIR/summary.json. */
bool summary_write(const cJSON *summary, const char *directory, struct error *error);

/* Bytes may exceed what a double holds exactly: written as an integer all the same. */
bool summary_add_u64(cJSON *object, const char *key, uint64_t value);
uint64_t summary_u64(const cJSON *object, const char *key);
/* The shortest text that reads back as the same double; null when it is not finite. */
bool summary_add_number(cJSON *object, const char *key, double value);
/* Of a summary that was parsed: NaN and "" when absent or null. */
double summary_number(const cJSON *object, const char *key);
const char *summary_string(const cJSON *object, const char *key);

/* analysis/summary_time.c: "processor_time", where each processor's time went and which
 * parts of the model it has; "links", what each link that was used carried. */
bool summary_add_processors(cJSON *object, const struct plan *plan,
                            const struct trace_header *header,
                            const struct trace_totals *totals);
bool summary_add_links(cJSON *object, const struct trace_header *header,
                       const struct trace_totals *totals);

#endif
