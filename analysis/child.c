#include "analysis/child.h"

#include "analysis/summary.h"
#include "base/checked.h"
#include "sim/header.h"

#include <cblas.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SINKS = 16 };

struct child {
    const struct experiment *experiment;
    const struct plan *plan;
    size_t method;
    int pipe;
    struct timespec last_progress;
    struct trace_header *header;
    struct trainer *trainer;
    struct event_sink *sinks[MAX_SINKS];
    size_t sink_count;
    struct event_sink *totals, *learning;
};

static bool write_all(int file, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(file, at, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        bytes -= (size_t)written;
    }
    return true;
}

static bool send_frame(int file, enum frame_kind kind, const void *data, size_t bytes)
{
    struct frame frame = {(uint32_t)kind, (uint32_t)bytes};
    return write_all(file, &frame, sizeof frame) && write_all(file, data, bytes);
}

/* At most ten times a second of real time; nothing simulated depends on it. */
static void progress(void *context, double now_s, uint64_t steps_done)
{
    struct child *c = context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double since_s = (double)(now.tv_sec - c->last_progress.tv_sec) +
                     1e-9 * (double)(now.tv_nsec - c->last_progress.tv_nsec);
    if (since_s < 0.1)
        return;
    c->last_progress = now;
    struct frame_progress frame = {now_s, steps_done};
    send_frame(c->pipe, FRAME_PROGRESS, &frame, sizeof frame);
}

static bool add_sink(struct child *c, struct event_sink *sink)
{
    if (sink != NULL)
        c->sinks[c->sink_count++] = sink;
    return sink != NULL;
}

static bool open_traces(struct child *c, const char *directory, struct error *error)
{
    for (size_t i = 0; directory != NULL && i < trace_format_count(); i++) {
        const struct trace_format *format = trace_format_get(i);
        char path[4096];
        if (snprintf(path, sizeof path, "%s/%s", directory, format->file_name) >=
            (int)sizeof path)
            return error_set(error, STATUS_BAD_INPUT, "%.200s...: the path is too long",
                             directory);
        if (!add_sink(c, format->open(path, c->header, error)))
            return false;
    }
    return true;
}

static bool prepare(struct child *c, const struct dataset *dataset, const char *directory,
                    struct error *error)
{
    const struct experiment *e = c->experiment;
    c->header = header_create(c->plan, e->platform, e->trace_steps, error);
    if (c->header == NULL || !add_sink(c, c->totals = totals_open(c->header, error)) ||
        !add_sink(c, c->learning = learning_open(error)) || !open_traces(c, directory, error))
        return false;
    if (!e->numerics)
        return true;
    const struct trainer_options options = {.plan = c->plan,
                                            .model = e->model,
                                            .dataset = dataset,
                                            .steps = e->steps,
                                            .seed = e->seed};
    c->trainer = trainer_create(&options, error);
    return c->trainer != NULL;
}

/* OpenBLAS tries for ever to get the buffer that its first product wants. */
static bool matrix_library_has_memory(struct error *error)
{
    const size_t wanted = (size_t)192 << 20;
    void *buffer = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    if (buffer == MAP_FAILED)
        return error_set(error, STATUS_HOST,
                         "no memory left for the matrix library, which needs %zu MiB",
                         wanted >> 20);
    munmap(buffer, wanted);
    return true;
}

static char *simulate(struct child *c, struct error *error)
{
    const struct experiment *e = c->experiment;
    const struct execution execution = {
        .plan = c->plan,
        .platform = e->platform,
        .steps = e->steps,
        .fidelity = e->fidelity,
        .every_step = e->has_data && e->fidelity != FIDELITY_CLOSED_FORM,
        .evaluate_every = e->evaluate_every,
        .trainer = c->trainer,
        .sinks = c->sinks,
        .sink_count = c->sink_count,
        .header = c->header,
        .progress = progress,
        .progress_context = c,
    };
    struct execution_result result;
    if (e->numerics && !matrix_library_has_memory(error))
        return NULL;
    if (!execute(&execution, &result, error))
        return NULL;
    cJSON *summary = summary_of_method(e, c->method, c->header, &result,
                                       totals_get(c->totals), learning_get(c->learning));
    char *text = summary == NULL ? NULL : summary_text(summary);
    cJSON_Delete(summary);
    if (text == NULL)
        error_memory(error, "summary");
    return text;
}

static void clean_up(struct child *c)
{
    for (size_t i = 0; i < c->sink_count; i++)
        c->sinks[i]->free(c->sinks[i]);
    trainer_free(c->trainer);
    header_free(c->header);
}

void child_run(const struct experiment *experiment, size_t method,
               const struct dataset *dataset, const char *trace_directory, int pipe)
{
    struct error error = {STATUS_OK, ""};
    struct child c = {.experiment = experiment,
                      .plan = experiment->plans[method],
                      .method = method,
                      .pipe = pipe};
    if (experiment->numerics)
        openblas_set_num_threads(1); /* the same bits on any machine */
    char *text = prepare(&c, dataset, trace_directory, &error) ? simulate(&c, &error) : NULL;
    clean_up(&c);
    if (text != NULL) {
        send_frame(pipe, FRAME_SUMMARY, text, strlen(text) + 1);
    } else {
        error_prefix(&error, "method \"%s\"", experiment->plans[method]->name);
        send_frame(pipe, FRAME_ERROR, &error, sizeof error);
    }
    cJSON_free(text);
}
