#include "analysis/depth.h"

#include "analysis/bottleneck.h"
#include "analysis/summary.h"
#include "analysis/table.h"
#include "base/checked.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 16, EACH_END = 6, MOST_MOVES = 5, CELL_BYTES = 160, LINE_WIDTH = 100 };

typedef char cell[CELL_BYTES];

struct rows {
    cell *texts;
    const char **cells; /* what table_print takes */
    size_t count, columns;
};

static bool rows_create(struct rows *rows, size_t most, size_t columns,
                        const char *const *headings)
{
    *rows = (struct rows){.texts = checked_calloc((most + 1) * columns, sizeof(cell)),
                          .cells = checked_calloc((most + 1) * columns, sizeof(char *)),
                          .count = 1,
                          .columns = columns};
    if (rows->texts == NULL || rows->cells == NULL)
        return false;
    for (size_t i = 0; i < (most + 1) * columns; i++)
        rows->cells[i] = rows->texts[i];
    for (size_t c = 0; c < columns; c++)
        snprintf(rows->texts[c], CELL_BYTES, "%s", headings[c]);
    return true;
}

static cell *rows_add(struct rows *rows)
{
    return &rows->texts[rows->count++ * rows->columns];
}

static void rows_print(FILE *out, struct rows *rows, uint32_t left)
{
    table_print_left(out, rows->cells, rows->count, rows->columns, left);
}

static void rows_free(struct rows *rows)
{
    free(rows->texts);
    free(rows->cells);
}

static const cJSON *list_of(const cJSON *method, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(method, key);
}

static double share(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Breaks lines between words. */
static void print_wrapped(FILE *out, const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > LINE_WIDTH) {
            putc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%s%.*s", column > 0 ? " " : "", (int)word, text);
        text += word;
        text += strspn(text, " ");
    }
    putc('\n', out);
}

/* The first and last layers of its parts, teachers left out. */
static void append_layers(const cJSON *processor, struct text *text)
{
    const cJSON *part, *parts = cJSON_GetObjectItemCaseSensitive(processor, "parts");
    size_t told = 0;
    cJSON_ArrayForEach(part, parts) {
        const char *first = summary_string(part, "first_layer");
        const char *last = summary_string(part, "last_layer");
        if (first[0] == '\0' ||
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(part, "teacher")))
            continue;
        if (told++ == 2) {
            text_append(text, " ...");
            break;
        }
        text_append(text, "%s%s", told > 1 ? "; " : "", first);
        if (strcmp(first, last) != 0)
            text_append(text, " to %s", last);
    }
}

static void append_place_and_layers(const cJSON *method, const cJSON *processor,
                                    struct text *text)
{
    struct text place = {0};
    bottleneck_place(method, processor, &place);
    text_append(text, "%s: ", text_string(&place));
    text_free(&place);
    append_layers(processor, text);
}

enum { TIME_COLUMNS = 7 };

static void append_waits(const struct time_shares *shares, struct text *text)
{
    for (size_t i = 0; i < shares->wait_count && i < 4; i++)
        if (shares->waits[i].share >= 0.0005)
            text_append(text, "%s%s %.1f%%", text->length > 0 ? ", " : "",
                        wait_reason(shares->waits[i].name), 100 * shares->waits[i].share);
}

static void fill_time_row(cell *row, const char *name, const char *place,
                          const struct time_shares *shares)
{
    struct text waits = {0};
    append_waits(shares, &waits);
    const double numbers[] = {shares->computing, shares->communicating, shares->waiting,
                              shares->idle};
    snprintf(row[0], CELL_BYTES, "%s", name);
    snprintf(row[1], CELL_BYTES, "%s", place);
    for (size_t i = 0; i < 4; i++)
        snprintf(row[2 + i], CELL_BYTES, "%.1f%%", 100 * numbers[i]);
    snprintf(row[6], CELL_BYTES, "%s", text_string(&waits));
    text_free(&waits);
}

static void add_time_row(struct rows *rows, const cJSON *method, const cJSON *processor)
{
    struct time_shares shares;
    struct text place = {0};
    bottleneck_place(method, processor, &place);
    time_shares_of_processor(processor, summary_number(method, "time_s"), &shares);
    fill_time_row(rows_add(rows), summary_string(processor, "processor"),
                  text_string(&place), &shares);
    text_free(&place);
}

static double computing(const cJSON *processor)
{
    return summary_number(processor, "computing_s");
}

/* The processors by computing time, the most first; equal ones in the platform's order. */
static int by_computing(const void *a, const void *b)
{
    const cJSON *const *x = a, *const *y = b;
    if (computing(*x) != computing(*y))
        return computing(*x) > computing(*y) ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool add_ends(struct rows *rows, const cJSON *method, size_t count)
{
    const cJSON **sorted = checked_calloc(count, sizeof *sorted), *processor;
    size_t n = 0;
    if (sorted == NULL)
        return false;
    cJSON_ArrayForEach(processor, list_of(method, "processor_time"))
        sorted[n++] = processor;
    qsort(sorted, count, sizeof *sorted, by_computing);
    for (size_t i = 0; i < EACH_END; i++)
        add_time_row(rows, method, sorted[i]);
    for (size_t i = count - EACH_END; i < count; i++)
        add_time_row(rows, method, sorted[i]);
    free(sorted);
    return true;
}

static bool print_time(FILE *out, const cJSON *method)
{
    static const char *const headings[TIME_COLUMNS] = {
        "processor", "part", "computing",  "communicating",
        "waiting",   "idle", "waiting for"};
    const cJSON *list = list_of(method, "processor_time"), *processor;
    size_t count = (size_t)cJSON_GetArraySize(list);
    double time_s = summary_number(method, "time_s");
    char text[TEXT_QUANTITY_BYTES];
    struct time_shares all;
    struct rows rows;
    bool made = rows_create(&rows, MOST_ROWS + 1, TIME_COLUMNS, headings);
    fprintf(out, "\nWhere the time goes, shares of %s", text_seconds(text, time_s));
    if (count > MOST_ROWS)
        fprintf(
            out,
            " (of %zu processors the %d that compute most and the %d that compute least)",
            count, EACH_END, EACH_END);
    fprintf(out, ":\n");
    if (made && count > MOST_ROWS)
        made = add_ends(&rows, method, count);
    else if (made)
        cJSON_ArrayForEach(processor, list)
            add_time_row(&rows, method, processor);
    if (made && count > 1) {
        time_shares_of(method, &all);
        fill_time_row(rows_add(&rows), "mean", "all", &all);
    }
    if (made)
        rows_print(out, &rows, 1 | 1 << 1 | 1 << (TIME_COLUMNS - 1));
    rows_free(&rows);
    return made;
}

/* By what part of its memory is taken at its peak; by bytes where memory has no end. */
static double fullness(const cJSON *memory)
{
    double capacity = (double)summary_u64(memory, "capacity_bytes");
    return (double)summary_u64(memory, "peak_bytes") / (capacity > 0 ? capacity : 1);
}

static const cJSON *processor_named(const cJSON *method, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list_of(method, "processor_time"))
        if (strcmp(summary_string(item, "processor"), name) == 0)
            return item;
    return NULL;
}

static void print_fullest(FILE *out, const cJSON *method, const cJSON *memory)
{
    char peak[TEXT_QUANTITY_BYTES], capacity[TEXT_QUANTITY_BYTES],
        when[TEXT_QUANTITY_BYTES];
    struct text text = {0};
    const char *name = summary_string(memory, "processor");
    const cJSON *processor = processor_named(method, name);
    text_append(&text,
                "Where the memory goes: %s is the fullest, at its peak %s of %s (%.1f%%), "
                "first after %s. It has ",
                name, text_bytes(peak, summary_u64(memory, "peak_bytes")),
                text_bytes(capacity, summary_u64(memory, "capacity_bytes")),
                100 * fullness(memory),
                text_seconds(when, summary_number(memory, "peak_time_s")));
    append_place_and_layers(method, processor, &text);
    text_append(&text, ".");
    putc('\n', out);
    print_wrapped(out, text_string(&text));
    text_free(&text);
}

static bool print_categories(FILE *out, const cJSON *memory)
{
    static const char *const headings[] = {"category", "bytes", "share"};
    const cJSON *categories = cJSON_GetObjectItemCaseSensitive(memory, "at_peak_bytes"),
                *item;
    uint64_t peak = summary_u64(memory, "peak_bytes");
    struct rows rows;
    bool made = rows_create(&rows, (size_t)cJSON_GetArraySize(categories), 3, headings);
    if (made) {
        cJSON_ArrayForEach(item, categories) {
            uint64_t bytes = summary_u64(categories, item->string);
            if (bytes == 0)
                continue;
            cell *row = rows_add(&rows);
            snprintf(row[0], CELL_BYTES, "%s", item->string);
            text_bytes(row[1], bytes);
            snprintf(row[2], CELL_BYTES, "%.1f%%", share((double)bytes, (double)peak));
        }
        rows_print(out, &rows, 1);
    }
    rows_free(&rows);
    return made;
}

static bool print_memory(FILE *out, const cJSON *method)
{
    const cJSON *list = list_of(method, "memory"), *item, *fullest = NULL, *emptiest = NULL;
    char peak[TEXT_QUANTITY_BYTES];
    cJSON_ArrayForEach(item, list) {
        if (fullest == NULL || fullness(item) > fullness(fullest))
            fullest = item;
        if (emptiest == NULL || fullness(item) < fullness(emptiest))
            emptiest = item;
    }
    if (fullest == NULL)
        return true;
    print_fullest(out, method, fullest);
    if (!print_categories(out, fullest))
        return false;
    if (emptiest != fullest)
        fprintf(out, "The emptiest is %s, with %s (%.1f%%).\n",
                summary_string(emptiest, "processor"),
                text_bytes(peak, summary_u64(emptiest, "peak_bytes")),
                100 * fullness(emptiest));
    return true;
}

/* The elements with the largest numbers under `key`, the first of equal ones first. */
static size_t top(const cJSON *list, const char *key, const cJSON *found[MOST_MOVES])
{
    const cJSON *item;
    size_t count = 0;
    cJSON_ArrayForEach(item, list) {
        double value = summary_number(item, key);
        size_t at = count;
        while (at > 0 && summary_number(found[at - 1], key) < value)
            at--;
        if (at == MOST_MOVES || summary_u64(item, "messages") == 0)
            continue;
        count += count < MOST_MOVES;
        for (size_t i = count - 1; i > at; i--)
            found[i] = found[i - 1];
        found[at] = item;
    }
    return count;
}

static bool print_edges(FILE *out, const cJSON *method)
{
    static const char *const headings[] = {"busiest edges", "payload", "bytes", "messages",
                                           "carrying"};
    const cJSON *found[MOST_MOVES];
    size_t count = top(list_of(method, "edges"), "transfer_s", found);
    double time_s = summary_number(method, "time_s");
    struct rows rows;
    bool made = rows_create(&rows, count, 5, headings);
    for (size_t i = 0; made && i < count; i++) {
        cell *row = rows_add(&rows);
        snprintf(row[0], CELL_BYTES, "%s -> %s", summary_string(found[i], "from"),
                 summary_string(found[i], "to"));
        snprintf(row[1], CELL_BYTES, "%s", summary_string(found[i], "payload"));
        text_bytes(row[2], summary_u64(found[i], "bytes"));
        snprintf(row[3], CELL_BYTES, "%.0f", summary_number(found[i], "messages"));
        snprintf(row[4], CELL_BYTES, "%.1f%%",
                 share(summary_number(found[i], "transfer_s"), time_s));
    }
    if (made && count > 0)
        rows_print(out, &rows, 1 | 1 << 1);
    rows_free(&rows);
    return made;
}

static bool print_links(FILE *out, const cJSON *method)
{
    static const char *const headings[] = {"busiest links", "bytes", "messages",
                                           "utilisation"};
    const cJSON *found[MOST_MOVES];
    size_t count = top(list_of(method, "links"), "utilisation", found);
    struct rows rows;
    bool made = rows_create(&rows, count, 4, headings);
    for (size_t i = 0; made && i < count; i++) {
        cell *row = rows_add(&rows);
        snprintf(row[0], CELL_BYTES, "%s", summary_string(found[i], "link"));
        text_bytes(row[1], summary_u64(found[i], "bytes"));
        snprintf(row[2], CELL_BYTES, "%.0f", summary_number(found[i], "messages"));
        snprintf(row[3], CELL_BYTES, "%.1f%%",
                 100 * summary_number(found[i], "utilisation"));
    }
    if (made && count > 0)
        rows_print(out, &rows, 1);
    rows_free(&rows);
    return made;
}

static bool print_moves(FILE *out, const cJSON *method)
{
    char all[TEXT_QUANTITY_BYTES], step[TEXT_QUANTITY_BYTES], host[TEXT_QUANTITY_BYTES];
    uint64_t bytes = summary_u64(method, "bytes_total");
    uint64_t steps = summary_u64(method, "steps");
    fprintf(out, "\nWhat moves: %s between processors in %.0f messages, %s a step",
            text_bytes(all, bytes), summary_number(method, "messages"),
            text_bytes(step, steps > 0 ? bytes / steps : 0));
    if (summary_u64(method, "host_bytes") > 0)
        fprintf(out, "; %s from the host",
                text_bytes(host, summary_u64(method, "host_bytes")));
    fprintf(out, ".\n");
    return print_edges(out, method) && print_links(out, method);
}

static bool print_bottleneck(FILE *out, const cJSON *method)
{
    struct text text = {0};
    text_append(&text, "What holds it up: ");
    bottleneck_text(method, &text);
    putc('\n', out);
    print_wrapped(out, text_string(&text));
    bool made = !text.failed;
    text_free(&text);
    return made;
}

static void print_fidelity(FILE *out, const cJSON *method)
{
    const cJSON *fidelity = cJSON_GetObjectItemCaseSensitive(method, "fidelity");
    double steps = summary_number(method, "steps");
    double simulated = summary_number(fidelity, "steps_simulated");
    fprintf(out,
            "\nSimulated: %.0f of %.0f steps%s;\nworked out instead: %.0f of %.0f edges, "
            "%.0f of %.0f collectives (fidelity \"%s\").\n",
            simulated, steps, simulated < steps ? ", which the others repeat" : "",
            summary_number(fidelity, "edges_closed_form"),
            summary_number(fidelity, "edges"),
            summary_number(fidelity, "collectives_closed_form"),
            summary_number(fidelity, "collectives"), summary_string(fidelity, "asked"));
}

bool depth_print(FILE *out, const cJSON *method)
{
    if (list_of(method, "processor_time") == NULL)
        return true;
    bool printed = print_time(out, method) && print_memory(out, method) &&
                   print_moves(out, method) && print_bottleneck(out, method);
    print_fidelity(out, method);
    fprintf(out,
            "\ncomputing: passes of layers; communicating: its program is in a send or a "
            "collective; waiting: for what\nothers do, the transfer of it included; idle: "
            "after "
            "its last work; carrying: a message of the edge is\nunder way; utilisation: of "
            "bandwidth x time. docs/output.md says more.\n");
    return printed;
}
