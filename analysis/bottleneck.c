#include "analysis/bottleneck.h"

#include "analysis/summary.h"

#include <math.h>
#include <string.h>

/* Busy for so much of the time is what holds the run up. */
static const double full = 0.9;
/* Computing that differs by less is even. */
static const double even = 1.1;

const char *wait_reason(const char *name)
{
    static const char *const before[] = {"wait for ", "wait at "};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        if (strncmp(name, before[i], strlen(before[i])) == 0)
            return name + strlen(before[i]);
    return name;
}

static void add_wait(struct time_shares *shares, const char *name, double share)
{
    size_t at = 0;
    while (at < shares->wait_count && strcmp(shares->waits[at].name, name) != 0)
        at++;
    if (at == BOTTLENECK_WAITS)
        return;
    if (at == shares->wait_count)
        shares->waits[shares->wait_count++] = (struct time_share){name, 0};
    shares->waits[at].share += share;
}

static void add_processor(struct time_shares *shares, const cJSON *processor, double time_s)
{
    const cJSON *wait;
    shares->processors++;
    if (!(time_s > 0))
        return;
    shares->computing += summary_number(processor, "computing_s") / time_s;
    shares->communicating += summary_number(processor, "communicating_s") / time_s;
    shares->idle += summary_number(processor, "idle_s") / time_s;
    cJSON_ArrayForEach(wait, cJSON_GetObjectItemCaseSensitive(processor, "waiting_s")) {
        shares->waiting += wait->valuedouble / time_s;
        add_wait(shares, wait->string, wait->valuedouble / time_s);
    }
}

static void sort_waits(struct time_shares *shares)
{
    for (size_t i = 1; i < shares->wait_count; i++) {
        struct time_share wait = shares->waits[i];
        size_t at = i;
        for (; at > 0 && shares->waits[at - 1].share < wait.share; at--)
            shares->waits[at] = shares->waits[at - 1];
        shares->waits[at] = wait;
    }
}

void time_shares_of_processor(const cJSON *processor, double time_s,
                              struct time_shares *shares)
{
    *shares = (struct time_shares){0};
    add_processor(shares, processor, time_s);
    sort_waits(shares);
}

void time_shares_of(const cJSON *method, struct time_shares *shares)
{
    const cJSON *processor;
    double time_s = summary_number(method, "time_s");
    *shares = (struct time_shares){0};
    cJSON_ArrayForEach(processor,
                       cJSON_GetObjectItemCaseSensitive(method, "processor_time"))
        add_processor(shares, processor, time_s);
    double n = shares->processors > 0 ? (double)shares->processors : 1;
    shares->computing /= n;
    shares->communicating /= n;
    shares->waiting /= n;
    shares->idle /= n;
    for (size_t i = 0; i < shares->wait_count; i++)
        shares->waits[i].share /= n;
    sort_waits(shares);
}

static const cJSON *largest(const cJSON *list, const char *key)
{
    const cJSON *best = NULL, *item;
    cJSON_ArrayForEach(item, list)
        if (best == NULL || summary_number(item, key) > summary_number(best, key))
            best = item;
    return best;
}

static bool is_teacher(const cJSON *part)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(part, "teacher"));
}

/* Are there parts with another number than 0? */
static bool any(const cJSON *method, const char *key)
{
    const cJSON *processor, *part;
    cJSON_ArrayForEach(processor,
                       cJSON_GetObjectItemCaseSensitive(method, "processor_time"))
        cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(processor, "parts"))
            if (summary_number(part, key) > 0)
                return true;
    return false;
}

/* The numbers of its parts, each run of equal ones once: "stage 0, 4". */
static void append_numbers(const cJSON *parts, const char *key, struct text *text)
{
    const cJSON *part;
    double last = -1;
    size_t told = 0;
    cJSON_ArrayForEach(part, parts) {
        double number = summary_number(part, key);
        if (number == last || is_teacher(part))
            continue;
        last = number;
        if (told == 0)
            text_append(text, "%s%s %.0f", text->length > 0 ? ", " : "", key, number);
        else if (told < 4)
            text_append(text, "+%.0f", number);
        else if (told == 4)
            text_append(text, "+...");
        told++;
    }
}

void bottleneck_place(const cJSON *method, const cJSON *processor, struct text *text)
{
    static const char *const keys[] = {"model", "replica", "stage", "rank"};
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(processor, "parts");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i], "stage") == 0 || any(method, keys[i]))
            append_numbers(parts, keys[i], text);
}

/* "ipu3 (stage 3)" */
static void append_processor(const cJSON *method, const cJSON *processor, struct text *text)
{
    struct text place = {0};
    bottleneck_place(method, processor, &place);
    text_append(text, "%s (%s)", summary_string(processor, "processor"),
                text_string(&place));
    text_free(&place);
}

/* What takes most time besides computing: "waiting for gradients". */
static double append_largest_loss(const struct time_shares *shares, struct text *text)
{
    double wait = shares->wait_count > 0 ? shares->waits[0].share : 0;
    if (shares->communicating >= wait && shares->communicating >= shares->idle)
        text_append(text, "sending and collectives");
    else if (shares->idle >= wait)
        text_append(text, "idling after the last work");
    else if (strncmp(shares->waits[0].name, "wait", 4) == 0)
        text_append(text, "waiting%s", shares->waits[0].name + 4);
    else
        text_append(text, "\"%s\"", shares->waits[0].name);
    return fmax(fmax(shares->communicating, shares->idle), wait);
}

/* What the sentences are made of. */
struct finding {
    const cJSON *method, *slowest, *link; /* link: the fullest, or NULL */
    double computing, carrying;           /* of the time, by these */
    double time_s;
    struct time_shares shares;
};

static void tell_full_link(const struct finding *f, struct text *text)
{
    text_append(text,
                "The link %s: over the whole run it carries %.1f%% of what it can. The "
                "processor that computes most, ",
                summary_string(f->link, "link"), 100 * f->carrying);
    append_processor(f->method, f->slowest, text);
    text_append(text, ", does so %.1f%% of the time.", 100 * f->computing);
}

static void tell_full_processor(const struct finding *f, struct text *text)
{
    text_append(text, "Computing: ");
    append_processor(f->method, f->slowest, text);
    text_append(text, " computes %.1f%% of the time", 100 * f->computing);
    if (f->shares.processors == 1) {
        text_append(text, ".");
        return;
    }
    text_append(text, ", all %zu processors %.1f%% in the mean", f->shares.processors,
                100 * f->shares.computing);
    if (f->shares.computing >= full) {
        text_append(text,
                    ": there is nothing else to gain than by computing less or faster.");
        return;
    }
    text_append(text, ": it has the most work. Of what is not computing, most goes to ");
    double loss = append_largest_loss(&f->shares, text);
    text_append(text, " (%.1f%% of time x processors).", 100 * loss);
}

/* Nothing is busy all the time. */
static void tell_losses(const struct finding *f, struct text *text)
{
    char bound[TEXT_QUANTITY_BYTES];
    text_append(text, "No processor and no link is busy all the time. ");
    append_processor(f->method, f->slowest, text);
    text_append(text, " computes most, %.1f%% of the time", 100 * f->computing);
    if (f->link != NULL)
        text_append(text, "; the fullest link, %s, carries %.1f%% of what it can",
                    summary_string(f->link, "link"), 100 * f->carrying);
    text_append(text, ". Of what is not computing, most goes to ");
    double loss = append_largest_loss(&f->shares, text);
    text_append(text, ", %.1f%% of time x processors. ", 100 * loss);
    if (f->shares.processors == 1)
        text_append(text, "There is one processor");
    else if (f->computing <= even * f->shares.computing)
        text_append(text,
                    "The work is even (%.1f%% in the mean): the order of work and the "
                    "messages cost the time, not how it is divided",
                    100 * f->shares.computing);
    else
        text_append(text, "The work is uneven (%.1f%% in the mean)",
                    100 * f->shares.computing);
    text_append(text,
                "; with nothing but that processor's computing the run would take %s.",
                text_seconds(bound, f->computing * f->time_s));
}

void bottleneck_text(const cJSON *method, struct text *text)
{
    struct finding f = {
        .method = method,
        .slowest = largest(cJSON_GetObjectItemCaseSensitive(method, "processor_time"),
                           "computing_s"),
        .link = largest(cJSON_GetObjectItemCaseSensitive(method, "links"), "utilisation"),
        .time_s = summary_number(method, "time_s")};
    if (f.slowest == NULL || !(f.time_s > 0))
        return;
    time_shares_of(method, &f.shares);
    f.computing = summary_number(f.slowest, "computing_s") / f.time_s;
    f.carrying = f.link == NULL ? 0 : summary_number(f.link, "utilisation");
    if (f.carrying >= full && f.carrying >= f.computing)
        tell_full_link(&f, text);
    else if (f.computing >= full)
        tell_full_processor(&f, text);
    else
        tell_losses(&f, text);
}
