#include "analysis/table.h"

#include "analysis/summary.h"
#include "base/checked.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void table_print(FILE *out, const char *const *cells, size_t rows, size_t columns)
{
    table_print_left(out, cells, rows, columns, 1);
}

void table_print_left(FILE *out, const char *const *cells, size_t rows, size_t columns,
                      uint32_t left)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            const char *text = cells[r * columns + c];
            bool to_left = (left >> c & 1) != 0, last = c + 1 == columns;
            size_t width = 0;
            for (size_t i = 0; i < rows; i++)
                if (strlen(cells[i * columns + c]) > width)
                    width = strlen(cells[i * columns + c]);
            if (last && to_left)
                width = 0; /* no blanks at the end of a line */
            if (c > 0 && !(last && text[0] == '\0'))
                fprintf(out, "  ");
            fprintf(out, "%*s", to_left ? -(int)width : (int)width, text);
        }
        putc('\n', out);
    }
}

static const char *name_of(const cJSON *method)
{
    return cJSON_GetObjectItemCaseSensitive(method, "name")->valuestring;
}

static bool fits(const cJSON *method)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(method, "fits"));
}

/* The processor whose peak is highest. */
static const cJSON *worst_memory(const cJSON *method)
{
    const cJSON *worst = NULL, *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(method, "memory"))
        if (worst == NULL ||
            summary_u64(item, "peak_bytes") > summary_u64(worst, "peak_bytes"))
            worst = item;
    return worst;
}

static uint64_t peak_bytes(const cJSON *method)
{
    const cJSON *worst = worst_memory(method);
    return worst == NULL ? 0 : summary_u64(worst, "peak_bytes");
}

enum { COLUMNS = 11, CELL_BYTES = 64 };

typedef char cell[CELL_BYTES];

static void seconds_cell(char *text, double seconds)
{
    if (isnan(seconds))
        snprintf(text, CELL_BYTES, "-");
    else
        text_seconds(text, seconds);
}

static void number_cell(char *text, const char *format, double value)
{
    if (isnan(value))
        snprintf(text, CELL_BYTES, "-");
    else
        snprintf(text, CELL_BYTES, format, value); /* formats are this file's */
}

static const cJSON *stopped(const cJSON *method)
{
    return cJSON_GetObjectItemCaseSensitive(method, "stopped");
}

static void fill_row(cell *row, const cJSON *method)
{
    snprintf(row[0], CELL_BYTES, "%s", name_of(method));
    snprintf(row[1], CELL_BYTES, "%.0f", summary_number(method, "processors"));
    if (stopped(method) != NULL) {
        for (size_t c = 2; c < COLUMNS; c++)
            snprintf(row[c], CELL_BYTES, "%s", c == 4 ? "stopped" : "-");
        return;
    }
    number_cell(row[2], "%.4f", summary_number(method, "loss"));
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(method, "diverged")))
        snprintf(row[2], CELL_BYTES, "diverged");
    number_cell(row[3], "%.2f%%", 100 * summary_number(method, "accuracy"));
    seconds_cell(row[4], summary_number(method, "time_s"));
    seconds_cell(row[5], summary_number(method, "time_per_step_s"));
    seconds_cell(row[6], summary_number(method, "time_to_target_s"));
    text_bytes(row[7], summary_u64(method, "bytes_total"));
    text_bytes(row[8], peak_bytes(method));
    snprintf(row[9], CELL_BYTES, "%s", fits(method) ? "yes" : "NO");
    number_cell(row[10], "%.1f%%", 100 * summary_number(method, "busy_fraction"));
}

static void print_rows(FILE *out, const cJSON *methods, cell *texts, const char **cells)
{
    static const char *const headings[COLUMNS] = {
        "method",    "processors",  "loss",        "accuracy", "time", "time/step",
        "to target", "bytes moved", "peak memory", "fits",     "busy"};
    size_t rows = 1;
    const cJSON *method;
    for (size_t c = 0; c < COLUMNS; c++)
        cells[c] = headings[c];
    cJSON_ArrayForEach(method, methods) {
        fill_row(texts + rows * COLUMNS, method);
        for (size_t c = 0; c < COLUMNS; c++)
            cells[rows * COLUMNS + c] = texts[rows * COLUMNS + c];
        rows++;
    }
    table_print(out, cells, rows, COLUMNS);
}

static void print_shortages(FILE *out, const cJSON *methods)
{
    const cJSON *method;
    cJSON_ArrayForEach(method, methods) {
        const cJSON *shortage = cJSON_GetObjectItemCaseSensitive(method, "shortage");
        char lacks[TEXT_QUANTITY_BYTES], when[TEXT_QUANTITY_BYTES];
        if (shortage == NULL)
            continue;
        const cJSON *processor = cJSON_GetObjectItemCaseSensitive(shortage, "processor");
        const cJSON *largest =
            cJSON_GetObjectItemCaseSensitive(shortage, "largest_category");
        const cJSON *first = cJSON_GetObjectItemCaseSensitive(shortage, "first_asked_for");
        fprintf(out,
                "%s does not fit: processor %s lacks %s, most of it for %s; first at %s, "
                "for %s.\n",
                name_of(method), processor->valuestring,
                text_bytes(lacks, summary_u64(shortage, "lacks_bytes")),
                largest->valuestring,
                text_seconds(when, summary_number(shortage, "first_time_s")),
                first->valuestring);
    }
}

static void print_notes(FILE *out, const cJSON *methods)
{
    const cJSON *method;
    cJSON_ArrayForEach(method, methods) {
        const cJSON *note = cJSON_GetObjectItemCaseSensitive(method, "note");
        if (note != NULL)
            fprintf(out, "%s: %s.\n", name_of(method), note->valuestring);
        if (stopped(method) != NULL)
            fprintf(out, "%s.\n", stopped(method)->valuestring);
    }
}

/* Where the platform file gives watts. */
static void print_energy(FILE *out, const cJSON *methods)
{
    const cJSON *method;
    bool any = false;
    cJSON_ArrayForEach(method, methods) {
        char energy[TEXT_QUANTITY_BYTES];
        if (isnan(summary_number(method, "energy_j")))
            continue;
        fprintf(out, "%s %s %s", any ? "," : "Energy:", name_of(method),
                text_si(energy, summary_number(method, "energy_j"), "J"));
        any = true;
    }
    if (any)
        fprintf(out, ".\n");
}

/* The method with the least of something, among those that fit and have it. */
static const cJSON *least(const cJSON *methods, double (*of)(const cJSON *method))
{
    const cJSON *best = NULL, *method;
    cJSON_ArrayForEach(method, methods)
        if (fits(method) && !isnan(of(method)) && (best == NULL || of(method) < of(best)))
            best = method;
    return best;
}

static double to_target(const cJSON *method)
{
    return summary_number(method, "time_to_target_s");
}
static double error_rate(const cJSON *method)
{
    return 1 - summary_number(method, "accuracy");
}
/* How far a test set of that many predictions lets the error rate be known: one standard
 * error of the share that was counted. */
static double sampling_error(const cJSON *method)
{
    double wrong = error_rate(method), count = summary_number(method, "test_predictions");
    return count > 0 ? sqrt(wrong * (1 - wrong) / count) : 0;
}
static double step_time(const cJSON *method)
{
    return summary_number(method, "time_per_step_s");
}
static double bytes(const cJSON *method)
{
    return (double)summary_u64(method, "bytes_total");
}
static double memory(const cJSON *method)
{
    return (double)peak_bytes(method);
}

/* Those that fit, the least first; equal ones in the experiment's order. */
static size_t rank(const cJSON *methods, double (*of)(const cJSON *method),
                   const cJSON **ranked)
{
    size_t count = 0;
    const cJSON *method;
    cJSON_ArrayForEach(method, methods) {
        size_t at = count;
        if (!fits(method) || isnan(of(method)))
            continue;
        for (; at > 0 && of(ranked[at - 1]) > of(method); at--)
            ranked[at] = ranked[at - 1];
        ranked[at] = method;
        count++;
    }
    return count;
}

/* Accuracies that the test set cannot tell apart are as good as each other. There is one.
 */
static void print_accurate(FILE *out, const cJSON *methods, const cJSON **ranked)
{
    enum { MOST_NAMES = 3 };
    size_t count = rank(methods, error_rate, ranked), good = 1;
    double limit = error_rate(ranked[0]) + sampling_error(ranked[0]);
    while (good < count && error_rate(ranked[good]) <= limit)
        good++;
    fprintf(out, "highest accuracy");
    if (good > 1)
        fprintf(out, " (to %.2f points)", 100 * sampling_error(ranked[0]));
    for (size_t i = 0; i < good && i < MOST_NAMES; i++)
        fprintf(out, "%s %s", i > 0 ? "," : ":", name_of(ranked[i]));
    if (good > MOST_NAMES)
        fprintf(out, " and %zu more", good - MOST_NAMES);
}

static void print_best(FILE *out, const cJSON *methods, const cJSON **ranked)
{
    static const struct {
        const char *what;
        double (*of)(const cJSON *method);
    } criteria[] = {{"soonest at the target accuracy", to_target},
                    {"highest accuracy", error_rate},
                    {"shortest step", step_time},
                    {"fewest bytes moved", bytes},
                    {"lowest peak memory", memory}};
    fprintf(out, "\nBest of those that fit:");
    bool any = false;
    for (size_t i = 0; i < sizeof criteria / sizeof criteria[0]; i++) {
        const cJSON *best = least(methods, criteria[i].of);
        if (best == NULL)
            continue;
        fprintf(out, "%s ", any ? ";" : "");
        any = true;
        if (criteria[i].of == error_rate)
            print_accurate(out, methods, ranked);
        else
            fprintf(out, "%s: %s", criteria[i].what, name_of(best));
    }
    fprintf(out, "%s\n", any ? "." : " none.");
}

/* By what the user asks: time to the target where training has shown it, else a step's. */
static void print_ranking(FILE *out, const cJSON *methods, bool numerics,
                          const cJSON **ranked)
{
    double (*of)(const cJSON *method) = numerics ? to_target : step_time;
    size_t count = rank(methods, of, ranked);
    char seconds[TEXT_QUANTITY_BYTES];
    if (count < 2)
        return;
    fprintf(out, "Ranking by %s:", numerics ? "time to target" : "time of a step");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s %s (%s)", i > 0 ? "," : "", name_of(ranked[i]),
                text_seconds(seconds, of(ranked[i])));
    fprintf(out, ".\n");
}

static void print_meaning(FILE *out, const cJSON *methods, bool numerics)
{
    const cJSON *trained = cJSON_GetArrayItem(methods, 0);
    while (trained != NULL && stopped(trained) != NULL)
        trained = trained->next;
    fprintf(out,
            "\ntime: simulated, all steps; bytes moved: over all edges between processors; "
            "peak memory: of the\nprocessor that needs most; busy: computing, share of "
            "time x processors used.\n");
    if (numerics && trained != NULL)
        fprintf(
            out,
            "loss: training loss of the last step; accuracy: test set, after the last "
            "step; "
            "to target: simulated\ntime at the first evaluation with %.4g %% or more.\n",
            100 * summary_number(trained, "target_accuracy"));
    else if (!numerics)
        fprintf(out,
                "Cost only: nothing was trained, so loss, accuracy and time to target are "
                "not known.\n");
}

bool table_compare(FILE *out, const cJSON *methods, bool numerics)
{
    size_t rows = (size_t)cJSON_GetArraySize(methods) + 1;
    cell *texts = checked_calloc(rows * COLUMNS, sizeof *texts);
    const char **cells = checked_calloc(rows * COLUMNS, sizeof *cells);
    const cJSON **ranked = checked_calloc(rows, sizeof *ranked);
    bool made = texts != NULL && cells != NULL && ranked != NULL;
    if (made) {
        print_rows(out, methods, texts, cells);
        print_shortages(out, methods);
        print_notes(out, methods);
        print_energy(out, methods);
        if (rows > 2) {
            print_best(out, methods, ranked);
            print_ranking(out, methods, numerics, ranked);
        }
        print_meaning(out, methods, numerics);
    }
    free(texts);
    free(cells);
    free(ranked);
    return made;
}
