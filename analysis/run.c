#include "analysis/run.h"

#include "analysis/child.h"
#include "analysis/summary.h"
#include "base/checked.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
    pid_t process;
    int pipe; /* -1: not running */
    bool started, ended;
    char *bytes; /* received and not yet understood */
    size_t count, capacity;
    cJSON *summary; /* raw text: byte counts above 2^53 stay whole */
    struct error error;
    struct frame_progress progress;
};

struct pool {
    const struct experiment *experiment;
    const struct run_options *options;
    const struct dataset *dataset;
    struct job *jobs;
    struct pollfd *waits; /* one for each that may run */
    size_t count, running;
    pid_t process; /* our own */
};

static bool make_directory(const char *path, struct error *error)
{
    struct stat there;
    if (mkdir(path, 0777) == 0 || (stat(path, &there) == 0 && S_ISDIR(there.st_mode)))
        return true;
    return error_set(error, STATUS_HOST, "%s: cannot be made a folder: %s", path,
                     strerror(errno));
}

static bool trace_directory(const struct pool *pool, size_t method, char *path, size_t bytes,
                            struct error *error)
{
    const struct run_options *options = pool->options;
    const char *name = pool->experiment->plans[method]->name;
    int length = options->flat ? snprintf(path, bytes, "%s", options->directory)
                               : snprintf(path, bytes, "%s/%s", options->directory, name);
    if (length < 0 || (size_t)length >= bytes)
        return error_set(error, STATUS_BAD_INPUT, "%.200s...: the path is too long",
                         options->directory);
    return make_directory(path, error);
}

static void run_child(const struct pool *pool, size_t method, const char *directory, int pipe)
{
    for (size_t i = 0; i < pool->count; i++)
        if (pool->jobs[i].pipe >= 0)
            close(pool->jobs[i].pipe);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* writing tells of it */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would read the result */
    if (getppid() != pool->process)
        _exit(0); /* it has ended in between */
    child_run(pool->experiment, method, pool->dataset, directory, pipe);
    _exit(0); /* SimGrid's own clean-up is not wanted */
}

static bool start(struct pool *pool, size_t method, struct error *error)
{
    struct job *job = &pool->jobs[method];
    char directory[4096];
    int ends[2];
    bool traces = pool->options->directory != NULL;
    if (traces && !trace_directory(pool, method, directory, sizeof directory, error))
        return false;
    if (pipe(ends) != 0)
        return error_set(error, STATUS_HOST, "no pipe: %s", strerror(errno));
    fflush(NULL);
    job->process = fork();
    if (job->process == 0) {
        close(ends[0]);
        run_child(pool, method, traces ? directory : NULL, ends[1]);
    }
    close(ends[1]);
    if (job->process < 0) {
        close(ends[0]);
        return error_set(error, STATUS_HOST, "no child process: %s", strerror(errno));
    }
    job->pipe = ends[0];
    job->started = true;
    pool->running++;
    return true;
}

static void take_frame(struct job *job, const struct frame *frame, const char *data)
{
    switch ((enum frame_kind)frame->kind) {
    case FRAME_PROGRESS:
        memcpy(&job->progress, data, sizeof job->progress);
        break;
    case FRAME_SUMMARY:
        job->summary = cJSON_CreateRaw(data);
        break;
    case FRAME_ERROR:
        memcpy(&job->error, data, sizeof job->error);
        break;
    }
}

static void take_frames(struct job *job)
{
    struct frame frame;
    size_t at = 0;
    while (job->count - at >= sizeof frame) {
        memcpy(&frame, job->bytes + at, sizeof frame);
        if (job->count - at - sizeof frame < frame.length)
            break;
        take_frame(job, &frame, job->bytes + at + sizeof frame);
        at += sizeof frame + frame.length;
    }
    memmove(job->bytes, job->bytes + at, job->count - at);
    job->count -= at;
}

static void end(struct pool *pool, size_t method)
{
    struct job *job = &pool->jobs[method];
    int status = 0;
    close(job->pipe);
    job->pipe = -1;
    job->ended = true;
    pool->running--;
    while (waitpid(job->process, &status, 0) < 0 && errno == EINTR)
        ;
    if (job->summary != NULL || job->error.status != STATUS_OK)
        return;
    const char *name = pool->experiment->plans[method]->name;
    if (WIFSIGNALED(status))
        error_set(&job->error, STATUS_HOST, "method \"%s\": its process was ended by signal %d",
                  name, WTERMSIG(status));
    else
        error_set(&job->error, STATUS_HOST, "method \"%s\": its process told no result", name);
}

static void receive(struct pool *pool, size_t method)
{
    struct job *job = &pool->jobs[method];
    enum { CHUNK = 65536 };
    if (!checked_grow((void **)&job->bytes, &job->capacity, job->count + CHUNK, 1)) {
        error_memory(&job->error, "a result");
        kill(job->process, SIGKILL);
        end(pool, method);
        return;
    }
    ssize_t got = read(job->pipe, job->bytes + job->count, CHUNK);
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        end(pool, method);
        return;
    }
    job->count += (size_t)got;
    take_frames(job);
}

static void tell_progress(const struct pool *pool)
{
    const struct experiment *e = pool->experiment;
    double done = 0, simulated_s = 0;
    uint64_t steps = 0;
    const char *method = "";
    for (size_t i = 0; i < pool->count; i++) {
        const struct job *job = &pool->jobs[i];
        done += job->ended ? 1 : (double)job->progress.steps / (double)e->steps;
        if (!job->ended && job->progress.now_s > simulated_s) {
            simulated_s = job->progress.now_s;
            steps = job->progress.steps;
            method = e->plans[i]->name;
        }
    }
    if (pool->options->progress != NULL)
        pool->options->progress(pool->options->progress_context, done / (double)pool->count,
                                method, steps, simulated_s);
}

/* Waits for something from any child. */
static bool attend(struct pool *pool, struct error *error)
{
    nfds_t running = 0;
    for (size_t i = 0; i < pool->count; i++)
        if (pool->jobs[i].pipe >= 0)
            pool->waits[running++] =
                (struct pollfd){.fd = pool->jobs[i].pipe, .events = POLLIN};
    if (poll(pool->waits, running, -1) < 0 && errno != EINTR)
        return error_set(error, STATUS_HOST, "cannot wait for children: %s",
                         strerror(errno));
    for (size_t i = 0, k = 0; i < pool->count; i++)
        if (pool->jobs[i].pipe >= 0 && pool->waits[k++].revents != 0)
            receive(pool, i);
    tell_progress(pool);
    return true;
}

static bool run_pool(struct pool *pool, size_t jobs, struct error *error)
{
    size_t next = 0;
    while (next < pool->count || pool->running > 0) {
        while (next < pool->count && pool->running < jobs)
            if (!start(pool, next++, error))
                return false;
        if (!attend(pool, error))
            return false;
    }
    return true;
}

/* What the simulated machine could not do is a result like any other. */
static void note_stopped(const struct pool *pool, size_t method)
{
    struct job *job = &pool->jobs[method];
    const struct plan *plan = pool->experiment->plans[method];
    bool failed = job->error.status == STATUS_HOST && pool->options->keep_going;
    if (job->summary != NULL || (job->error.status != STATUS_IMPOSSIBLE && !failed))
        return;
    cJSON *stopped = summary_of_stopped(plan, job->error.message);
    if (failed && cJSON_AddTrueToObject(stopped, "failed") == NULL) {
        cJSON_Delete(stopped);
        return;
    }
    char *text = stopped == NULL ? NULL : summary_text(stopped);
    cJSON_Delete(stopped);
    job->summary = text == NULL ? NULL : cJSON_CreateRaw(text);
    cJSON_free(text);
}

static cJSON *collect(struct pool *pool, struct error *error)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; list != NULL && i < pool->count; i++) {
        struct job *job = &pool->jobs[i];
        note_stopped(pool, i);
        if (job->summary == NULL) {
            *error = job->error;
            if (error->status == STATUS_BAD_INPUT)
                error_prefix(error, "%s", json_file_name(pool->experiment->file));
            cJSON_Delete(list);
            return NULL;
        }
        if (!cJSON_AddItemToArray(list, job->summary)) {
            cJSON_Delete(list);
            list = NULL;
            break;
        }
        job->summary = NULL;
    }
    if (list == NULL)
        error_memory(error, "results");
    return list;
}

static void stop(struct pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) {
        struct job *job = &pool->jobs[i];
        if (job->pipe >= 0) {
            kill(job->process, SIGKILL);
            end(pool, i);
        }
        free(job->bytes);
        cJSON_Delete(job->summary);
    }
    free(pool->jobs);
    free(pool->waits);
}

/* Beside new traces an old summary would tell of others. */
static bool clear_directory(const char *path, struct error *error)
{
    char old[4096];
    if (path == NULL)
        return true;
    return make_directory(path, error) &&
           (snprintf(old, sizeof old, "%s/summary.json", path) >= (int)sizeof old ||
            unlink(old) == 0 || errno == ENOENT ||
            error_set(error, STATUS_HOST, "%s: cannot be replaced: %s", old,
                      strerror(errno)));
}

static size_t job_limit(const struct run_options *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (options->jobs > 0)
        return options->jobs;
    return cores > 0 ? (size_t)cores : 1;
}

cJSON *run_methods(const struct experiment *experiment, const struct run_options *options,
                   struct error *error)
{
    struct dataset *dataset = NULL;
    if (experiment->numerics && (dataset = experiment_open_data(experiment, error)) == NULL)
        return NULL;
    struct pool pool = {.experiment = experiment,
                        .options = options,
                        .dataset = dataset,
                        .jobs = checked_calloc(experiment->method_count, sizeof *pool.jobs),
                        .count = experiment->method_count,
                        .process = getpid()};
    cJSON *list = NULL;
    pool.waits = checked_calloc(pool.count, sizeof *pool.waits);
    if (pool.jobs == NULL || pool.waits == NULL) {
        pool.count = 0;
        error_memory(error, "children");
    } else {
        for (size_t i = 0; i < pool.count; i++)
            pool.jobs[i].pipe = -1;
        if (clear_directory(options->directory, error) &&
            run_pool(&pool, job_limit(options), error))
            list = collect(&pool, error);
    }
    stop(&pool);
    dataset_free(dataset);
    return list;
}
