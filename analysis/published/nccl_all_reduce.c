/* Times of NCCL's all-reduce on 2, 4 and 8 V100 of a DGX-1 and A100 of a DGX A100, as
 * published with vTrain (Bang et al., MICRO 2024). For each number of processors latency
 * and bandwidth are taken from the smallest and the largest array; the four between follow.
 */
#include "analysis/published.h"
#include "analysis/run.h"
#include "analysis/summary.h"
#include "sim/experiment.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZES = 6, RANKS = 3, LARGE = 2 }; /* LARGE: 16 MiB, from where one protocol is used */

/* Of a square matrix in fp32: 1 MiB to 1 GiB. */
static const uint64_t widths[SIZES] = {512, 1024, 2048, 4096, 8192, 16384};
static const unsigned ranks[RANKS] = {2, 4, 8};

struct machine {
    const char *experiment;
    double published_us[RANKS][SIZES];
    /* Rings that go their way at once, and their orders as JSON. */
    unsigned ring_count[RANKS];
    const char *rings[RANKS];
    unsigned links_a_route;
    double tolerance[SIZES], mean_tolerance;
};

static const struct machine v100 = {
    .experiment = "nccl-v100.json",
    .published_us = {{70.14, 208.6, 764.1, 2998.9, 11915, 47610},
                     {67.26, 142.1, 324.2, 1202.1, 4714, 18869},
                     {79.93, 150.9, 273.8, 911.3, 3527.4, 13969}},
    .ring_count = {1, 4, 6},
    .rings = {"[[0,1]]", "[[0,3,2,1],[1,2,3,0],[0,3,1,2],[2,1,3,0]]",
              "[[0,1,2,3,7,5,6,4],[4,6,5,7,3,2,1,0],[0,2,6,7,4,5,1,3],[3,1,5,4,7,6,2,0],"
              "[0,3,2,1,5,6,7,4],[4,7,6,5,1,2,3,0]]"},
    .links_a_route = 1,
    .tolerance = {0, 0.25, 0.10, 0.03, 0.03, 0},
    .mean_tolerance = 0.03,
};

static const struct machine a100 = {
    .experiment = "nccl-a100.json",
    .published_us = {{44.21, 61.18, 131.9, 404.7, 1455.8, 5442.8},
                     {51.40, 77.32, 179.6, 543.8, 1929, 7259.4},
                     {92.79, 95.80, 232.4, 579.9, 2162.3, 8193.0}},
    .ring_count = {1, 1, 1},
    .rings = {"[[0,1]]", "[[0,1,2,3]]", "[[0,1,2,3,4,5,6,7]]"},
    .links_a_route = 2,
    .tolerance = {0, 0.25, 0.15, 0.10, 0.05, 0},
    .mean_tolerance = 0.05,
};

/* What one ring gets, and the latency of one message. */
struct fit {
    double bandwidth_bytes_per_s, latency_s;
};

static double array_bytes(size_t size)
{
    return 4.0 * (double)widths[size] * (double)widths[size];
}

/* t = 2 (n - 1) latency + 2 (n - 1) / n bytes / (rings bandwidth), through the times of a
 * size and of the largest. */
static struct fit fit_from(const struct machine *m, size_t rank, size_t size)
{
    double n = ranks[rank];
    const double *us = m->published_us[rank];
    double bytes = 2 * (n - 1) / n * (array_bytes(SIZES - 1) - array_bytes(size));
    double whole = bytes / (1e-6 * (us[SIZES - 1] - us[size]));
    double rest_s = 1e-6 * us[size] - 2 * (n - 1) / n * array_bytes(size) / whole;
    return (struct fit){whole / m->ring_count[rank], rest_s / (2 * (n - 1))};
}

static bool set(struct json_file *file, struct error *error, const char *value,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
static bool set(struct json_file *file, struct error *error, const char *value,
                const char *format, ...)
{
    char path[128];
    va_list values;
    va_start(values, format);
    vsnprintf(path, sizeof path, format, values);
    va_end(values);
    return json_file_set(file, path, value, error);
}

static bool set_link(struct json_file *file, const char *path, const struct fit *fit,
                     unsigned links_a_route, struct error *error)
{
    char bandwidth[32], latency[32];
    snprintf(bandwidth, sizeof bandwidth, "%.17g", fit->bandwidth_bytes_per_s);
    snprintf(latency, sizeof latency, "%.17g", fit->latency_s / links_a_route);
    return set(file, error, bandwidth, "%s.bandwidth_bytes_per_s", path) &&
           set(file, error, latency, "%s.latency_s", path);
}

static bool set_links(struct json_file *file, const struct machine *m,
                      const struct fit *fit, struct error *error)
{
    cJSON *topology = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(json_file_tree(file), "platform"), "topology");
    int links = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(topology, "links"));
    if (links == 0)
        return set_link(file, "platform.topology.link", fit, m->links_a_route, error);
    for (int i = 0; i < links; i++) {
        char path[64];
        snprintf(path, sizeof path, "platform.topology.links.%d", i);
        if (!set_link(file, path, fit, m->links_a_route, error))
            return false;
    }
    return true;
}

static bool configure(struct json_file *file, const struct machine *m, size_t rank,
                      size_t size, const struct fit *fit, struct error *error)
{
    char number[32], width[32];
    snprintf(number, sizeof number, "%u", ranks[rank]);
    snprintf(width, sizeof width, "%llu", (unsigned long long)widths[size]);
    return set(file, error, number, "batch") &&
           set(file, error, number, "methods.0.replicas") &&
           set(file, error, m->rings[rank], "methods.0.rings") &&
           set(file, error, width, "model.input.0") &&
           set(file, error, width, "model.blocks.0.layers.0.out") &&
           set_links(file, m, fit, error);
}

static bool simulate(const struct machine *m, size_t rank, size_t size,
                     const struct fit *fit, double *us, struct error *error)
{
    const struct run_options options = {0};
    struct json_file *file = published_file(m->experiment, error);
    if (file != NULL && !configure(file, m, rank, size, fit, error)) {
        json_file_free(file);
        return false;
    }
    struct experiment *experiment = file == NULL ? NULL : experiment_read(file, error);
    cJSON *raw = experiment == NULL ? NULL : run_methods(experiment, &options, error);
    cJSON *methods = raw == NULL ? NULL : summary_parsed(raw);
    const cJSON *time_s =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(methods, 0), "time_s");
    bool told = cJSON_IsNumber(time_s);
    if (told)
        *us = 1e6 * time_s->valuedouble;
    else if (raw != NULL)
        error_memory(error, "summary");
    cJSON_Delete(raw);
    cJSON_Delete(methods);
    experiment_free(experiment);
    return told;
}

static bool add_table(const struct machine *m, struct published_report *report,
                      struct error *error)
{
    static const char *const names[RANKS][SIZES] = {
        {"", "2 processors, 4 MiB", "2 processors, 16 MiB", "2 processors, 64 MiB",
         "2 processors, 256 MiB", ""},
        {"", "4 processors, 4 MiB", "4 processors, 16 MiB", "4 processors, 64 MiB",
         "4 processors, 256 MiB", ""},
        {"", "8 processors, 4 MiB", "8 processors, 16 MiB", "8 processors, 64 MiB",
         "8 processors, 256 MiB", ""}};
    double off[2] = {0, 0}, ours_us; /* of those fitted, of the others */
    for (size_t r = 0; r < RANKS; r++) {
        struct fit fit = fit_from(m, r, 0);
        for (size_t s = 0; s < SIZES; s++) {
            if (!simulate(m, r, s, &fit, &ours_us, error))
                return false;
            off[m->tolerance[s] > 0] += fabs(ours_us / m->published_us[r][s] - 1);
            if (m->tolerance[s] > 0) /* else it was fitted */
                published_add(report, names[r][s], "us", m->published_us[r][s],
                              m->tolerance[s], ours_us);
        }
    }
    published_add_bound(report, "mean relative error of all 18 times", "%",
                        100 * m->mean_tolerance, 100 * (off[0] + off[1]) / (RANKS * SIZES));
    published_add_bound(report, "mean of the 12 that were not fitted", "%",
                        100 * m->mean_tolerance * SIZES / (SIZES - 2),
                        100 * off[1] / (RANKS * (SIZES - 2)));
    return true;
}

/* Where one latency and one bandwidth can hold. */
static bool add_large(const struct machine *m, struct published_report *report,
                      struct error *error)
{
    double off = 0, ours_us;
    for (size_t r = 0; r < RANKS; r++) {
        struct fit fit = fit_from(m, r, LARGE);
        for (size_t s = LARGE; s < SIZES; s++) {
            if (!simulate(m, r, s, &fit, &ours_us, error))
                return false;
            off += fabs(ours_us / m->published_us[r][s] - 1);
        }
    }
    published_add_bound(report, "mean from 16 MiB on, set from 16 MiB and 1 GiB", "%", 3,
                        100 * off / (RANKS * (SIZES - LARGE)));
    return true;
}

static bool run_v100(struct published_report *report, struct error *error)
{
    if (!add_table(&v100, report, error) || !add_large(&v100, report, error))
        return false;
    /* Nothing fitted but the one ring of two processors: the rest is the cube mesh. */
    struct fit fit = fit_from(&v100, 0, 0);
    static const char *const names[RANKS] = {"",
                                             "4 processors, 1 GiB, links as fitted on 2",
                                             "8 processors, 1 GiB, links as fitted on 2"};
    for (size_t r = 1; r < RANKS; r++) {
        double ours_us;
        if (!simulate(&v100, r, SIZES - 1, &fit, &ours_us, error))
            return false;
        published_add(report, names[r], "us", v100.published_us[r][SIZES - 1], 0.06,
                      ours_us);
    }
    return true;
}

static bool run_a100(struct published_report *report, struct error *error)
{
    return add_table(&a100, report, error) && add_large(&a100, report, error);
}

#define SOURCE "NCCL's all-reduce, out of place, as measured and published with vTrain"

const struct published_result published_nccl_v100 = {
    .name = "nccl-v100",
    .source = SOURCE ": 2, 4, 8 V100",
    .choices = "Latency and bandwidth are set for each number of processors from its 1 MiB "
               "and 1 GiB;\n"
               "the sizes between are ours. The source does not say which processors were "
               "used, nor\n"
               "NCCL's rings. Chosen: processors 0, 1, ...; on the cube mesh there are "
               "then 1, 4 and 6\n"
               "directed rings that share no link (found by search), each with its share "
               "of the array.\n"
               "Between 1 and 16 MiB NCCL changes its protocol, which one latency and one "
               "bandwidth\n"
               "cannot follow: hence the wide tolerance at 4 MiB.\n",
    .run = run_v100,
};

const struct published_result published_nccl_a100 = {
    .name = "nccl-a100",
    .source = SOURCE ": 2, 4, 8 A100",
    .choices = "Latency and bandwidth are set for each number of processors from its 1 MiB "
               "and 1 GiB;\n"
               "the sizes between are ours: one ring over the switch. The measured times "
               "are not one\n"
               "line (8 processors take as long for 1 MiB as for 4): no straight line for "
               "each number of\n"
               "processors comes below 3.95 % over all sizes, whichever two points it is "
               "set from.\n",
    .run = run_a100,
};
