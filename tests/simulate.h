/* For tests of the simulation: runs an experiment given as JSON text and gives back all
 * events and totals of each method. SimGrid allows one simulation a process, so each runs
 * in a child, which leaves what it saw in shared memory. */
#ifndef PODSIM_TESTS_SIMULATE_H
#define PODSIM_TESTS_SIMULATE_H

#include "analysis/run.h"
#include "analysis/summary.h"
#include "sim/executor.h"
#include "sim/experiment.h"
#include "sim/header.h"
#include "tests/check.h"

#include <cblas.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SIMULATED_EVENTS = 400000,
    SIMULATED_EDGES = 1024,
    SIMULATED_PROCESSORS = 64,
    SIMULATED_METHODS = 16,
    SIMULATED_WEIGHTS = 1 << 20,
    SIMULATED_PARTS = 256
};

struct simulated {
    struct event_sink sink; /* first */
    bool done;
    struct error error;
    struct execution_result result;
    uint64_t bytes, messages;
    struct trace_edge_total edges[SIMULATED_EDGES];
    struct trace_processor_total processors[SIMULATED_PROCESSORS];
    size_t edge_count, processor_count;
    /* Of the plan's parts, when all is done: part i's from weight_first[i] on. */
    scalar weights[SIMULATED_WEIGHTS];
    size_t weight_first[SIMULATED_PARTS + 1];
    size_t event_count;
    struct event events[SIMULATED_EVENTS]; /* names are static text, the same after fork */
};

struct simulation {
    struct experiment *experiment;
    size_t count;
    struct simulated *methods[SIMULATED_METHODS];
};

static inline bool simulated_event(struct event_sink *sink, const struct event *event,
                                   struct error *error)
{
    struct simulated *s = (struct simulated *)sink;
    if (s->event_count >= SIMULATED_EVENTS)
        return error_set(error, STATUS_FAILED, "the test makes too many events");
    s->events[s->event_count++] = *event;
    return true;
}

static inline bool simulated_finish(struct event_sink *sink, double total_s,
                                    struct error *error)
{
    (void)sink;
    (void)total_s;
    (void)error;
    return true;
}

static inline void simulated_keep(struct simulated *s, const struct trace_header *header,
                                  const struct trace_totals *totals)
{
    s->bytes = totals->bytes;
    s->messages = totals->messages;
    s->edge_count = header->edge_count;
    s->processor_count = header->processor_count;
    for (size_t i = 0; i < s->edge_count && i < SIMULATED_EDGES; i++)
        s->edges[i] = totals->edges[i];
    for (size_t i = 0; i < s->processor_count && i < SIMULATED_PROCESSORS; i++)
        s->processors[i] = totals->processors[i];
}

static inline void simulated_keep_weights(struct simulated *s, const struct plan *plan,
                                          struct trainer *trainer)
{
    if (plan->part_count > SIMULATED_PARTS)
        return;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        size_t count, first = s->weight_first[i];
        const scalar *weights = network_parameters(trainer_network(trainer, i), &count);
        if (first + count > SIMULATED_WEIGHTS)
            return;
        memcpy(s->weights + first, weights, count * sizeof *weights);
        s->weight_first[i + 1] = first + count;
    }
}

static inline void simulated_child(const struct experiment *e, const struct plan *plan,
                                   const struct dataset *dataset, struct simulated *s)
{
    struct trainer *trainer = NULL;
    struct trace_header *header = header_create(plan, e->platform, 0, &s->error);
    struct event_sink *totals = header == NULL ? NULL : totals_open(header, &s->error);
    openblas_set_num_threads(1);
    s->sink = (struct event_sink){simulated_event, simulated_finish, NULL, NULL};
    struct event_sink *sinks[] = {totals, &s->sink};
    if (totals != NULL && dataset != NULL) {
        const struct trainer_options options = {.plan = plan,
                                                .model = e->model,
                                                .dataset = dataset,
                                                .steps = e->steps,
                                                .seed = e->seed};
        trainer = trainer_create(&options, &s->error);
    }
    const struct execution execution = {.plan = plan,
                                        .platform = e->platform,
                                        .steps = e->steps,
                                        .fidelity = e->fidelity,
                                        .evaluate_every = e->evaluate_every,
                                        .trainer = trainer,
                                        .sinks = sinks,
                                        .sink_count = 2,
                                        .header = header};
    if (totals != NULL && (trainer != NULL || dataset == NULL) &&
        execute(&execution, &s->result, &s->error)) {
        simulated_keep(s, header, totals_get(totals));
        if (trainer != NULL)
            simulated_keep_weights(s, plan, trainer);
        s->done = true;
    }
}

/* Runs one plan of an experiment; munmap() the result. */
static inline struct simulated *simulate_plan(const struct experiment *e,
                                              const struct plan *plan,
                                              const struct dataset *dataset)
{
    struct simulated *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CU_ASSERT_FATAL(s != MAP_FAILED);
    fflush(NULL);
    pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        simulated_child(e, plan, dataset, s);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0 || !s->done)
        printf("\n  method %s: wait status %d: %s\n", plan->name, status, s->error.message);
    CU_ASSERT(status == 0 && s->done);
    CU_ASSERT(s->edge_count <= SIMULATED_EDGES &&
              s->processor_count <= SIMULATED_PROCESSORS);
    return s;
}

static inline struct experiment *read_experiment(const char *text, struct error *error)
{
    *error = (struct error){0};
    struct json_file *file = json_file_parse("e.json", text, error);
    return file == NULL ? NULL : experiment_read(file, error);
}

static inline void simulation_free(struct simulation *simulation)
{
    for (size_t i = 0; i < simulation->count; i++)
        munmap(simulation->methods[i], sizeof *simulation->methods[i]);
    experiment_free(simulation->experiment);
    free(simulation);
}

/* Every method of the experiment that the format and its values describe. */
__attribute__((format(printf, 1, 2))) static inline struct simulation *
simulate(const char *format, ...)
{
    char *text = NULL;
    va_list values;
    va_start(values, format);
    CU_ASSERT_FATAL(vasprintf(&text, format, values) >= 0);
    va_end(values);
    struct error error;
    struct simulation *simulation = calloc(1, sizeof *simulation);
    CU_ASSERT_PTR_NOT_NULL_FATAL(simulation);
    struct experiment *e = simulation->experiment = read_experiment(text, &error);
    if (e == NULL)
        printf("\n  %s\n  in %s\n", error.message, text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    CU_ASSERT_FATAL(e->method_count <= SIMULATED_METHODS);
    struct dataset *dataset = NULL;
    if (e->numerics) {
        dataset = experiment_open_data(e, &error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(dataset);
    }
    for (; simulation->count < e->method_count; simulation->count++)
        simulation->methods[simulation->count] =
            simulate_plan(e, e->plans[simulation->count], dataset);
    dataset_free(dataset);
    free(text);
    return simulation;
}

/* The same through run_methods, as the command does: a list of the methods' summaries. */
static inline cJSON *simulate_summaries(const struct experiment *e, size_t jobs)
{
    struct error error = {0};
    const struct run_options options = {.jobs = jobs};
    cJSON *raw = run_methods(e, &options, &error);
    if (raw == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(raw);
    cJSON *parsed = summary_parsed(raw);
    cJSON_Delete(raw);
    CU_ASSERT_PTR_NOT_NULL_FATAL(parsed);
    return parsed;
}

/* Of two methods' summaries: the same peaks. When a peak is first reached may depend on which
 * of two things that happen at one instant is told first. */
static inline bool same_memory(const cJSON *a, const cJSON *b)
{
    cJSON *all = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(a, "memory"), true);
    cJSON *others = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(b, "memory"), true);
    for (cJSON *item = all->child; item != NULL; item = item->next)
        cJSON_DeleteItemFromObjectCaseSensitive(item, "peak_time_s");
    for (cJSON *item = others->child; item != NULL; item = item->next)
        cJSON_DeleteItemFromObjectCaseSensitive(item, "peak_time_s");
    bool same = cJSON_Compare(all, others, true);
    cJSON_Delete(all);
    cJSON_Delete(others);
    return same;
}

/* Of two methods' summaries: the same bytes and messages, and about the same times: the
 * first steps, in which links are shared otherwise, weigh more when others repeat. */
static inline void check_same_edges(const cJSON *a, const cJSON *b)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(a, "edges");
    const cJSON *others = cJSON_GetObjectItemCaseSensitive(b, "edges");
    static const char *const keys[] = {"bytes", "messages", "transfer_s"};
    CU_ASSERT_EQUAL(cJSON_GetArraySize(all), cJSON_GetArraySize(others));
    for (int i = 0; i < cJSON_GetArraySize(all); i++)
        for (size_t k = 0; k < 3; k++) {
            const cJSON *one = cJSON_GetObjectItemCaseSensitive(
                cJSON_GetArrayItem(all, i), keys[k]);
            const cJSON *other = cJSON_GetObjectItemCaseSensitive(
                cJSON_GetArrayItem(others, i), keys[k]);
            CU_ASSERT_FATAL(one != NULL && other != NULL);
            CHECK_CLOSE(one->valuedouble, other->valuedouble, k < 2 ? 0 : 0.02);
        }
}

/* The number-th metric of this name that a processor told; NaN when there is none. */
static inline double simulated_metric(const struct simulated *s, const char *name,
                                      uint32_t processor, size_t number)
{
    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *event = &s->events[i];
        if (event->kind == EVENT_METRIC && event->processor == processor &&
            strcmp(event->name, name) == 0 && number-- == 0)
            return event->value;
    }
    return NAN;
}

#endif
