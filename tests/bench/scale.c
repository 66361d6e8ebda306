/* How much podsim costs beside a bare SimGrid program that issues the same transfers and
 * delays, and what an event costs as machines grow:
 *
 *     bench_scale PODSIM BARE_SIMGRID [NAME...]
 *
 * The two run alternately; medians of whole processes, wall time and processor time. Both
 * must come to the same simulated time. An event is a computation of an instruction or a
 * message. What one costs is measured twice: the whole process's time over the events of
 * one step, and the time that a second step adds, free of the start. */
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
    {"scale-64", "auto", 9, true},
    {"scale-512", "auto", 9, true},
    {"scale-4096", "auto", 3, true},
    {"scale-8192", "auto", 3, false},
    {"scale-pipeline-256", "auto", 9, false},
    {"scale-allreduce-1024", "auto", 3, false},
};
enum { SCALES = sizeof scales / sizeof scales[0], ROUNDS = 15, PATH_BYTES = 4096 };

struct bench {
    const char *podsim, *bare;
    char directory[PATH_BYTES];
    double worst_ratio;   /* of processor time */
    double worst_mistake; /* relative, of simulated times */
    struct range {        /* of an event's cost */
        double least_s, most_s;
    } whole[2], further[2]; /* a fidelity: message, auto */
    struct range bare_event;
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
                       int steps_run, struct cost *cost)
{
    char fidelity[64], steps[64];
    snprintf(fidelity, sizeof fidelity, "fidelity=%s", s->fidelity);
    snprintf(steps, sizeof steps, "steps=%d", steps_run);
    char *const arguments[] = {(char *)b->podsim,
                               (char *)"run",
                               (char *)file,
                               (char *)"--quiet",
                               (char *)"--json",
                               (char *)"--set",
                               fidelity,
                               (char *)"--set",
                               steps,
                               NULL};
    return run_timed(b, arguments, steps_run == 1 ? "podsim.json" : "further.json", cost);
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

/* SimGrid runs once a process: a child does it. */
static bool in_child(const struct bench *b, const char *name, struct experiment *e,
                     bool (*write)(const struct experiment *, FILE *, struct error *))
{
    char path[PATH_BYTES];
    int status = -1;
    path_of(b, name, path);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct error error = {0};
        FILE *out = fopen(path, "wb");
        bool good = out != NULL && write(e, out, &error) && fclose(out) == 0;
        if (!good)
            fprintf(stderr, "bench-scale: %s: %s\n", path, error.message);
        fflush(NULL);
        _exit(good ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool prepare(const struct bench *b, const char *file, bool program, uint64_t *events,
                    struct error *error)
{
    struct json_file *text = json_file_read(file, error);
    struct experiment *e = text == NULL ? NULL : experiment_read(text, error);
    if (e == NULL)
        return false;
    *events = bare_events(e);
    bool good = !program || (in_child(b, "platform.xml", e, bare_platform_write) &&
                             in_child(b, "program", e, bare_program_write));
    experiment_free(e);
    return good || error_set(error, STATUS_HOST, "%s: no program for bare SimGrid", file);
}

static void extend(struct range *range, double event_s)
{
    range->least_s = range->most_s > 0 ? fmin(range->least_s, event_s) : event_s;
    range->most_s = fmax(range->most_s, event_s);
}

/* What an event costs, as a column and for the comparison of sizes. */
static bool event_costs(struct bench *b, const struct scale *s, const char *file,
                        uint64_t events, const struct cost *one, double *further_s)
{
    struct cost two[ROUNDS];
    bool message = strcmp(s->fidelity, "message") == 0;
    *further_s = NAN;
    if (!s->flat)
        return true;
    for (int i = 0; i < s->rounds; i++)
        if (!run_podsim(b, s, file, 2, &two[i]))
            return false;
    *further_s = (medians(two, s->rounds).cpu_s - one->cpu_s) / (double)events;
    extend(&b->whole[!message], one->cpu_s / (double)events);
    extend(&b->further[!message], *further_s);
    return true;
}

static void print_row(const struct bench *b, const struct scale *s, uint64_t events,
                      const struct cost *ours, double further_s)
{
    char further[32] = "-";
    if (!isnan(further_s))
        snprintf(further, sizeof further, "%.2f", 1e6 * further_s);
    printf("%-20s %-8s %8llu %8.3f %8.3f %9.2f %9s %12.6g", s->name, s->fidelity,
           (unsigned long long)events, ours->wall_s, ours->cpu_s,
           1e6 * ours->cpu_s / (double)events, further, podsim_simulated_s(b));
}

static bool message_row(struct bench *b, const struct scale *s, const char *file,
                        uint64_t events)
{
    struct cost podsim[ROUNDS], bare[ROUNDS];
    double further_s;
    for (int i = 0; i < s->rounds; i++)
        if (!run_podsim(b, s, file, 1, &podsim[i]) || !run_bare(b, &bare[i]))
            return false;
    struct cost ours = medians(podsim, s->rounds), theirs = medians(bare, s->rounds);
    if (!event_costs(b, s, file, events, &ours, &further_s))
        return false;
    print_row(b, s, events, &ours, further_s);
    printf(" %12.6g %8.3f %8.3f %6.2f %6.2f\n", bare_simulated_s(b), theirs.wall_s,
           theirs.cpu_s, ours.wall_s / theirs.wall_s, ours.cpu_s / theirs.cpu_s);
    double mistake = fabs(podsim_simulated_s(b) / bare_simulated_s(b) - 1);
    b->worst_mistake = mistake <= b->worst_mistake ? b->worst_mistake : mistake; /* NaN */
    b->worst_ratio = fmax(b->worst_ratio, ours.cpu_s / theirs.cpu_s);
    if (s->flat)
        extend(&b->bare_event, theirs.cpu_s / (double)events);
    return true;
}

static bool auto_row(struct bench *b, const struct scale *s, const char *file,
                     uint64_t events)
{
    struct cost podsim[ROUNDS];
    double further_s;
    for (int i = 0; i < s->rounds; i++)
        if (!run_podsim(b, s, file, 1, &podsim[i]))
            return false;
    struct cost ours = medians(podsim, s->rounds);
    if (!event_costs(b, s, file, events, &ours, &further_s))
        return false;
    print_row(b, s, events, &ours, further_s);
    printf("\n");
    return true;
}

static bool row(struct bench *b, const struct scale *s, struct error *error)
{
    char file[PATH_BYTES];
    uint64_t events;
    bool message = strcmp(s->fidelity, "message") == 0;
    snprintf(file, sizeof file, "%s/analysis/experiments/%s.json", PODSIM_DATA_DIRECTORY,
             s->name);
    if (!prepare(b, file, message, &events, error))
        return false;
    bool done = message ? message_row(b, s, file, events) : auto_row(b, s, file, events);
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
    static const char *const files[] = {"podsim.json", "further.json", "bare.txt",
                                        "platform.xml", "program"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        path_of(b, files[i], path);
        unlink(path);
    }
    rmdir(b->directory);
}

static void print_range(const char *fidelity, const char *what, const struct range *range)
{
    if (range->most_s > range->least_s)
        printf("%s: an event%s costs %.2f to %.2f us, x %.2f\n", fidelity, what,
               1e6 * range->least_s, 1e6 * range->most_s, range->most_s / range->least_s);
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct bench b = {0};
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
    printf("us/event: processor time of the whole process; further: that a second step "
           "adds\n");
    printf("%-20s %-8s %8s %8s %8s %9s %9s %12s %12s %8s %8s %6s %6s\n", "experiment",
           "fidelity", "events", "wall s", "CPU s", "us/event", "further", "simulated s",
           "bare's", "bare's s", "CPU s", "ratio", "of CPU");
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
    static const char *const fidelities[] = {"message", "auto"};
    for (int f = 0; f < 2; f++) {
        print_range(fidelities[f], "", &b.whole[f]);
        print_range(fidelities[f], " of a further step", &b.further[f]);
    }
    print_range("bare SimGrid", "", &b.bare_event);
    printf("Simulated times of podsim and bare SimGrid: at most %.1e apart%s\n",
           b.worst_mistake, b.worst_mistake <= 1e-9 ? "" : ": NOT THE SAME");
    printf("podsim / bare SimGrid: %.2f\n", b.worst_ratio);
    return b.worst_mistake <= 1e-9 ? 0 : STATUS_FAILED;
}
