/* How much podsim costs beside a bare SimGrid program that issues the same transfers and
 * delays, and what an event costs as machines grow:
 *
 *     bench_scale PODSIM BARE_SIMGRID
 *
 * The two run alternately; medians of the wall times of the whole processes. An event is a
 * computation of an instruction or a message. */
#include "analysis/run.h"
#include "base/text.h"
#include "tests/bench/bare_program.h"

#include <cjson/cJSON.h>

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct scale {
    const char *name, *fidelity;
    int rounds;
    bool flat; /* one of those whose cost per event should not grow */
};

static const struct scale scales[] = {
    {"scale-64", "message", 15, true},
    {"scale-512", "message", 9, true},
    {"scale-4096", "message", 3, true},
    {"scale-pipeline-256", "message", 9, false},
    {"scale-allreduce-1024", "message", 3, false},
    {"scale-64", "auto", 9, false},
    {"scale-512", "auto", 9, false},
    {"scale-4096", "auto", 3, false},
    {"scale-8192", "auto", 3, false},
    {"scale-pipeline-256", "auto", 9, false},
    {"scale-allreduce-1024", "auto", 3, false},
};
enum { SCALES = sizeof scales / sizeof scales[0], ROUNDS = 15, PATH_BYTES = 4096 };

struct bench {
    const char *podsim, *bare;
    char directory[PATH_BYTES];
    double worst_ratio;
    double cheapest_event_s, dearest_event_s;
};

struct cost {
    double wall_s, cpu_s;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 == 1 ? values[count / 2]
                          : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Each of the two by itself. */
static struct cost medians(const struct cost *costs, int count)
{
    double wall_s[ROUNDS], cpu_s[ROUNDS];
    for (int i = 0; i < count; i++) {
        wall_s[i] = costs[i].wall_s;
        cpu_s[i] = costs[i].cpu_s;
    }
    return (struct cost){median(wall_s, count), median(cpu_s, count)};
}

static void path_of(const struct bench *b, const char *name, char path[PATH_BYTES])
{
    if (snprintf(path, PATH_BYTES, "%s/%s", b->directory, name) >= PATH_BYTES)
        exit(STATUS_HOST);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Wall time of a command whose standard output goes to a file, and the processor time of
 * all its processes. False: it failed. */
static bool run_timed(const struct bench *b, char *const *arguments, const char *output,
                      struct cost *cost)
{
    char path[PATH_BYTES];
    int status = -1;
    path_of(b, output, path);
    double start_s = now_s();
    pid_t child = fork();
    if (child == 0) {
        int out = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666);
        dup2(out, STDOUT_FILENO);
        execv(arguments[0], arguments);
        _exit(127);
    }
    struct rusage usage;
    wait4(child, &status, 0, &usage);
    cost->wall_s = now_s() - start_s;
    cost->cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    if (status != 0)
        fprintf(stderr, "bench-scale: %s failed\n", arguments[0]);
    return status == 0;
}

static bool run_podsim(const struct bench *b, const struct scale *s, const char *file,
                       struct cost *cost)
{
    char fidelity[64];
    snprintf(fidelity, sizeof fidelity, "fidelity=%s", s->fidelity);
    char *const arguments[] = {
        (char *)b->podsim, (char *)"run",   (char *)file, (char *)"--quiet",
        (char *)"--json",  (char *)"--set", fidelity,     NULL};
    return run_timed(b, arguments, "podsim.json", cost);
}

static bool run_bare(const struct bench *b, struct cost *cost)
{
    char platform[PATH_BYTES], program[PATH_BYTES];
    path_of(b, "platform.xml", platform);
    path_of(b, "program", program);
    char *const arguments[] = {(char *)b->bare, platform, program, NULL};
    return run_timed(b, arguments, "bare.txt", cost);
}

static char *read_text(const struct bench *b, const char *name)
{
    char path[PATH_BYTES], chunk[65536];
    struct text text = {0};
    path_of(b, name, path);
    FILE *file = fopen(path, "r");
    for (size_t got; file != NULL && (got = fread(chunk, 1, sizeof chunk, file)) > 0;)
        text_append_bytes(&text, chunk, got);
    if (file != NULL)
        fclose(file);
    return text.data;
}

static double podsim_simulated_s(const struct bench *b)
{
    char *text = read_text(b, "podsim.json");
    cJSON *summary = cJSON_Parse(text == NULL ? "" : text);
    const cJSON *method =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(summary, "methods"), 0);
    double time_s =
        cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(method, "time_s"));
    cJSON_Delete(summary);
    free(text);
    return time_s;
}

static double bare_simulated_s(const struct bench *b)
{
    char *text = read_text(b, "bare.txt");
    double time_s = text == NULL ? NAN : strtod(text, NULL);
    free(text);
    return time_s;
}

static bool write_file(const struct bench *b, const char *name, struct experiment *e,
                       struct bare_counts *counts, struct error *error)
{
    char path[PATH_BYTES];
    path_of(b, name, path);
    FILE *out = fopen(path, "wb");
    if (out == NULL)
        return error_set(error, STATUS_HOST, "cannot write %s", path);
    bool good = counts != NULL ? bare_program_write(e, out, counts, error)
                               : bare_platform_write(e, out, error);
    fclose(out);
    return good;
}

static bool prepare(const struct bench *b, const char *file, struct bare_counts *counts,
                    struct error *error)
{
    struct json_file *text = json_file_read(file, error);
    struct experiment *e = text == NULL ? NULL : experiment_read(text, error);
    bool good = e != NULL && write_file(b, "platform.xml", e, NULL, error) &&
                write_file(b, "program", e, counts, error);
    experiment_free(e);
    return good;
}

static bool message_row(struct bench *b, const struct scale *s, const char *file,
                        uint64_t events)
{
    struct cost podsim[ROUNDS], bare[ROUNDS];
    for (int i = 0; i < s->rounds; i++)
        if (!run_podsim(b, s, file, &podsim[i]) || !run_bare(b, &bare[i]))
            return false;
    struct cost ours = medians(podsim, s->rounds), theirs = medians(bare, s->rounds);
    double event_s = ours.wall_s / (double)events;
    printf("%-22s %-8s %9llu %8.3f %8.3f %6.2f %6.2f %9.2f %12.6g %12.6g\n", s->name,
           s->fidelity, (unsigned long long)events, ours.wall_s, theirs.wall_s,
           ours.wall_s / theirs.wall_s, ours.cpu_s / theirs.cpu_s, 1e6 * event_s,
           podsim_simulated_s(b), bare_simulated_s(b));
    b->worst_ratio = fmax(b->worst_ratio, ours.wall_s / theirs.wall_s);
    if (s->flat) {
        b->cheapest_event_s = fmin(b->cheapest_event_s, event_s);
        b->dearest_event_s = fmax(b->dearest_event_s, event_s);
    }
    return true;
}

static bool auto_row(struct bench *b, const struct scale *s, const char *file,
                     uint64_t events)
{
    struct cost podsim[ROUNDS];
    for (int i = 0; i < s->rounds; i++)
        if (!run_podsim(b, s, file, &podsim[i]))
            return false;
    struct cost ours = medians(podsim, s->rounds);
    printf("%-22s %-8s %9llu %8.3f %8s %6s %6s %9.2f %12.6g\n", s->name, s->fidelity,
           (unsigned long long)events, ours.wall_s, "-", "-", "-",
           1e6 * ours.wall_s / (double)events, podsim_simulated_s(b));
    return true;
}

static bool row(struct bench *b, const struct scale *s, struct error *error)
{
    char file[PATH_BYTES];
    struct bare_counts counts = {0};
    snprintf(file, sizeof file, "%s/analysis/experiments/%s.json", PODSIM_DATA_DIRECTORY,
             s->name);
    if (!prepare(b, file, &counts, error))
        return false;
    uint64_t events = counts.computations + counts.messages;
    bool done = strcmp(s->fidelity, "message") == 0 ? message_row(b, s, file, events)
                                                    : auto_row(b, s, file, events);
    fflush(stdout);
    return done || error_set(error, STATUS_HOST, "%s: a run failed", s->name);
}

static bool wanted(const struct scale *s, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], s->name) == 0)
            return true;
    return count == 0;
}

static void clean_up(const struct bench *b)
{
    static const char *const files[] = {"podsim.json", "bare.txt", "platform.xml",
                                        "program"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        path_of(b, files[i], path);
        unlink(path);
    }
    rmdir(b->directory);
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct bench b = {.cheapest_event_s = INFINITY};
    const char *temporary = getenv("TMPDIR");
    if (argc < 3) {
        fprintf(stderr, "usage: bench_scale PODSIM BARE_SIMGRID [NAME...]\n");
        return STATUS_BAD_INPUT;
    }
    b.podsim = argv[1];
    b.bare = argv[2];
    snprintf(b.directory, sizeof b.directory, "%s/bench-scale-XXXXXX",
             temporary == NULL ? "/tmp" : temporary);
    if (mkdtemp(b.directory) == NULL)
        return STATUS_HOST;
    printf("%-22s %-8s %9s %8s %8s %6s %6s %9s %12s %12s\n", "experiment", "fidelity",
           "events", "podsim s", "bare s", "ratio", "of CPU", "us/event", "simulated s",
           "bare's");
    bool good = true;
    for (size_t i = 0; good && i < SCALES; i++)
        if (wanted(&scales[i], argc - 3, argv + 3))
            good = row(&b, &scales[i], &error);
    if (getenv("BENCH_KEEP") == NULL)
        clean_up(&b);
    if (!good) {
        fprintf(stderr, "bench-scale: %s\n", error.message);
        return error.status;
    }
    printf("An event from 64 to 4,096 processors: %.2f to %.2f us, x %.2f\n",
           1e6 * b.cheapest_event_s, 1e6 * b.dearest_event_s,
           b.dearest_event_s / b.cheapest_event_s);
    printf("podsim / bare SimGrid: %.2f\n", b.worst_ratio);
    return 0;
}
