/* What "podsim run" tells: where time goes against closed forms, and what is named as what
 * holds a run up. */
#include "analysis/bottleneck.h"
#include "analysis/depth.h"
#include "analysis/table.h"
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const struct text_link free_link = {INFINITY, 0};
static const double forward_s = 1.5, backward_s = 2.75;

/* Summaries of a cost-only experiment. */
static cJSON *summaries(const char *model, const char *machine, uint64_t micro_batches,
                        const char *more, const char *methods)
{
    char *text = NULL;
    struct error error;
    CU_ASSERT_FATAL(asprintf(&text,
                             "{\"model\": %s, \"platform\": %s, \"numerics\": false, "
                             "\"batch\": %llu, \"micro_batch\": 3, %s, \"methods\": [%s]}",
                             model, machine, (unsigned long long)(3 * micro_batches), more,
                             methods) >= 0);
    struct experiment *e = read_experiment(text, &error);
    if (e == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    cJSON *list = simulate_summaries(e, 1);
    experiment_free(e);
    free(text);
    return list;
}

static const cJSON *processor_of(const cJSON *method, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(method, "processor_time"),
                              index);
}

static double wait_of(const cJSON *processor, const char *name)
{
    double wait_s =
        summary_number(cJSON_GetObjectItemCaseSensitive(processor, "waiting_s"), name);
    return isnan(wait_s) ? 0 : wait_s;
}

static double all_waits(const cJSON *processor)
{
    double sum = 0;
    const cJSON *wait;
    cJSON_ArrayForEach(wait, cJSON_GetObjectItemCaseSensitive(processor, "waiting_s"))
        sum += wait->valuedouble;
    return sum;
}

static void check_complete(const cJSON *method)
{
    const cJSON *p;
    double time_s = summary_number(method, "time_s"), busy_s = 0;
    cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(method, "processor_time")) {
        double parts[] = {summary_number(p, "computing_s"),
                          summary_number(p, "communicating_s"), summary_number(p, "idle_s"),
                          all_waits(p)};
        for (size_t i = 0; i < 4; i++)
            CU_ASSERT(parts[i] >= 0);
        CHECK_CLOSE(parts[0] + parts[1] + parts[2] + parts[3], time_s, 1e-12);
        busy_s += parts[0];
    }
    double used = summary_number(method, "processors");
    CHECK_CLOSE(busy_s / (time_s * used), summary_number(method, "busy_fraction"), 1e-12);
}

/* GPipe over p equal stages, free links, one step: processor i waits i F for its first
 * activations, then until gradients have come down to it, and is done i B before the end.
 */
static void check_gpipe(size_t p, uint64_t m)
{
    char method[128];
    snprintf(method, sizeof method,
             "{\"kind\": \"pipeline\", \"schedule\": \"gpipe\", \"stages\": %zu}", p);
    cJSON *list = summaries(
        even_model(5, p), table_machine(p, "line", true, forward_s, backward_s, free_link),
        m, "\"steps\": 1", method);
    const cJSON *only = list->child;
    double both = forward_s + backward_s;
    check_complete(only);
    CHECK_CLOSE(summary_number(only, "time_s"), (double)(m + p - 1) * both, 1e-9);
    for (size_t i = 0; i < p; i++) {
        const cJSON *processor = processor_of(only, (int)i);
        CHECK_CLOSE(summary_number(processor, "computing_s"), (double)m * both, 1e-9);
        CHECK_CLOSE(summary_number(processor, "communicating_s"), 0, 0);
        CHECK_CLOSE(wait_of(processor, "wait for activations"), (double)i * forward_s,
                    1e-9);
        CHECK_CLOSE(wait_of(processor, "wait for gradients"), (double)(p - 1 - i) * both,
                    1e-9);
        CHECK_CLOSE(summary_number(processor, "idle_s"), (double)i * backward_s, 1e-9);
    }
    cJSON_Delete(list);
}

static void pipeline_closed_form(void)
{
    for (size_t p = 1; p <= 6; p++)
        for (uint64_t m = 1; m <= 7; m += 3)
            check_gpipe(p, m);
}

static const char various[] =
    "\"backprop\", {\"name\": \"a\", \"kind\": \"pipeline\", \"stages\": 4},"
    "{\"name\": \"b\", \"kind\": \"pipeline\", \"stages\": [1, 2, 3], \"schedule\": "
    "\"grouped\"},"
    "{\"name\": \"c\", \"kind\": \"pipeline\", \"stages\": [2, 4], \"queue_capacity\": 1},"
    "{\"name\": \"d\", \"kind\": \"local\", \"stages\": [1, 3, 2]},"
    "{\"name\": \"e\", \"kind\": \"data_parallel\", \"replicas\": 4},"
    "{\"name\": \"f\", \"kind\": \"data_parallel\", \"replicas\": 2, \"buckets\": 3,"
    " \"inner\": {\"kind\": \"pipeline\", \"stages\": 2}},"
    "{\"name\": \"g\", \"kind\": \"data_parallel\", \"replicas\": 3, \"shard\": "
    "\"optimizer\"},"
    "{\"name\": \"h\", \"kind\": \"codistillation\", \"models\": 3},"
    "{\"name\": \"i\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\","
    " \"period\": 2, \"inner\": {\"kind\": \"pipeline\", \"stages\": 2}},"
    "{\"name\": \"j\", \"kind\": \"pipeline\", \"stages\": 6, \"schedule\": \"pipedream\"},"
    "{\"name\": \"k\", \"kind\": \"pipeline\", \"stages\": 3, \"schedule\": "
    "\"interleaved\"},"
    "{\"name\": \"l\", \"kind\": \"pipeline\", \"stages\": 3, \"schedule\": "
    "\"zero_bubble\"}";

static bool collectives(const cJSON *method)
{
    return summary_number(cJSON_GetObjectItemCaseSensitive(method, "fidelity"),
                          "collectives") > 0;
}

/* Worked out, a collective does not tell its waits apart. */
static void check_same_processor(const cJSON *p, const cJSON *q, double time_s,
                                 bool each_wait)
{
    const cJSON *wait;
    double others_p = all_waits(p) + summary_number(p, "communicating_s");
    double others_q = all_waits(q) + summary_number(q, "communicating_s");
    CU_ASSERT(fabs(others_p - others_q) <= 1e-9 * time_s);
    CU_ASSERT(fabs(summary_number(p, "idle_s") - summary_number(q, "idle_s")) <=
              1e-9 * time_s);
    cJSON_ArrayForEach(wait, cJSON_GetObjectItemCaseSensitive(q, "waiting_s"))
        if (each_wait)
            CU_ASSERT(fabs(wait_of(p, wait->string) - wait->valuedouble) <= 1e-9 * time_s);
}

/* Steps multiplied out give what all of them simulated give. */
static void repeated_steps(bool overlap)
{
    const struct text_link link = {1e6, 3e-6};
    const char *machine = roofline_machine(6, "ring", overlap, 1 << 30, link);
    cJSON *cut = summaries(even_model(64, 6), machine, 12, "\"steps\": 60", various);
    cJSON *all = summaries(even_model(64, 6), machine, 12,
                           "\"steps\": 60, \"fidelity\": \"message\"", various);
    size_t shorter = 0;
    for (const cJSON *a = cut->child, *b = all->child; a != NULL;
         a = a->next, b = b->next) {
        double told = summary_number(cJSON_GetObjectItemCaseSensitive(a, "fidelity"),
                                     "steps_simulated");
        shorter += told < 60;
        check_complete(a);
        check_complete(b);
        double time_s = summary_number(b, "time_s");
        CHECK_CLOSE(summary_number(a, "time_s"), time_s, 1e-9);
        for (int i = 0; overlap && i < (int)summary_number(a, "processors"); i++)
            check_same_processor(processor_of(a, i), processor_of(b, i), time_s,
                                 !collectives(a));
    }
    CU_ASSERT(shorter >= 5);
    cJSON_Delete(cut);
    cJSON_Delete(all);
}

static void parts_make_up_the_whole(void)
{
    repeated_steps(true);
    repeated_steps(false);
}

static bool tells(const cJSON *method, const char *what)
{
    struct text text = {0};
    bottleneck_text(method, &text);
    bool found = strstr(text_string(&text), what) != NULL;
    if (!found)
        printf("\n  no \"%s\" in: %s\n", what, text_string(&text));
    text_free(&text);
    return found;
}

static void slowest_stage_is_named(void)
{
    cJSON *list = summaries(
        even_model(5, 6), table_machine(3, "line", true, forward_s, backward_s, free_link),
        32, "\"steps\": 2",
        "{\"kind\": \"pipeline\", \"stages\": [1, 4, 1]},"
        "{\"name\": \"even\", \"kind\": \"pipeline\", \"stages\": [2, 2, 2]},"
        "\"backprop\"");
    CU_ASSERT(tells(list->child, "Computing: p1 (stage 1) computes 9"));
    CU_ASSERT(tells(list->child, "it has the most work"));
    CU_ASSERT(
        tells(list->child->next, "all 3 processors 94.1% in the mean: there is nothing"));
    CU_ASSERT(tells(list->child->next->next, "p0 (stage 0) computes 100.0% of the time."));
    cJSON_Delete(list);
}

/* A message takes a hundred times as long as a pass. */
static void full_link_is_named(void)
{
    const struct text_link slow = {3 * 5 * 4 / 100.0, 0};
    cJSON *list =
        summaries(even_model(5, 2), table_machine(2, "line", true, 0.5, 0.5, slow), 16,
                  "\"steps\": 2", "{\"kind\": \"local\", \"stages\": 2}");
    CU_ASSERT(tells(list->child, "The link p0->p1: over the whole run it carries 99."));
    cJSON_Delete(list);
}

static void nothing_full_tells_what_is_lost(void)
{
    cJSON *list = summaries(
        even_model(5, 4), table_machine(4, "line", true, forward_s, backward_s, free_link),
        1, "\"steps\": 1", "{\"kind\": \"pipeline\", \"stages\": 4}");
    CU_ASSERT(tells(list->child, "No processor and no link is busy all the time."));
    CU_ASSERT(tells(list->child, "25.0% of the time"));
    CU_ASSERT(tells(list->child, "waiting for gradients, 37.5%"));
    CU_ASSERT(tells(list->child, "The work is even"));
    CU_ASSERT(tells(list->child, "the run would take 4.25 s"));
    cJSON_Delete(list);
}

/* Bytes of a link: once for each message that crosses it, hop by hop. */
static void links_count_hops(void)
{
    const struct text_link link = {1e9, 0};
    cJSON *list = summaries(even_model(5, 2), table_machine(3, "line", true, 1, 1, link), 4,
                            "\"steps\": 2",
                            "{\"kind\": \"local\", \"stages\": 2, \"placement\": [0, 2]}");
    const cJSON *links = cJSON_GetObjectItemCaseSensitive(list->child, "links"), *item;
    CU_ASSERT_EQUAL(cJSON_GetArraySize(links), 2);
    cJSON_ArrayForEach(item, links) {
        CU_ASSERT_EQUAL(summary_u64(item, "bytes"),
                        summary_u64(list->child, "bytes_total"));
        CU_ASSERT_EQUAL(summary_u64(item, "messages"), 8);
        CHECK_CLOSE(summary_number(item, "utilisation"),
                    (double)summary_u64(item, "bytes") / 1e9 /
                        summary_number(list->child, "time_s"),
                    1e-12);
    }
    cJSON_Delete(list);
}

/* Lines of the output from the one that begins with `from` to an empty one. */
static size_t lines_after(const char *text, const char *from)
{
    const char *at = strstr(text, from);
    size_t lines = 0;
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    for (; at != NULL && *at != '\n'; lines++) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
        if (at == NULL)
            break;
    }
    return lines;
}

static void check_printed(size_t processors, size_t lines)
{
    char method[96], *printed = NULL;
    size_t bytes = 0;
    snprintf(method, sizeof method, "{\"kind\": \"data_parallel\", \"replicas\": %zu}",
             processors);
    cJSON *list = summaries(
        even_model(5, 1), table_machine(processors, "ring", false, 1, 1, free_link),
        processors, "\"steps\": 1", processors == 1 ? "\"backprop\"" : method);
    FILE *out = open_memstream(&printed, &bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT(depth_print(out, list->child));
    fclose(out);
    CU_ASSERT_EQUAL(lines_after(printed, "Where the time goes"), lines);
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, "Where the memory goes: p0 is the fullest"));
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, "What holds it up: "));
    CU_ASSERT_PTR_NULL(strstr(printed, " \n"));
    CU_ASSERT_PTR_NULL(strstr(printed, "nan"));
    free(printed);
    cJSON_Delete(list);
}

/* Two lines of headings; the mean in the last. */
static void rows_are_few(void)
{
    check_printed(1, 2 + 1);
    check_printed(2, 2 + 2 + 1);
    check_printed(16, 2 + 16 + 1);
    check_printed(17, 2 + 12 + 1);
    check_printed(50, 2 + 12 + 1);
}

/* A method that was stopped has nothing to tell. */
static void stopped_prints_nothing(void)
{
    char *printed = NULL;
    size_t bytes = 0;
    cJSON *stopped =
        cJSON_Parse("{\"name\": \"x\", \"processors\": 2, \"stopped\": \"why\"}");
    FILE *out = open_memstream(&printed, &bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT(depth_print(out, stopped));
    fclose(out);
    CU_ASSERT_EQUAL(bytes, 0);
    free(printed);
    cJSON_Delete(stopped);
}

/* A table of methods with these accuracies, by so many predictions each. */
static void check_best(const double *accuracies, size_t count, const char *predictions,
                       const char *expected)
{
    char *printed = NULL;
    size_t bytes = 0;
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"name\": \"m%zu\", \"processors\": 1, \"fits\": true, \"loss\": 1, "
                 "\"accuracy\": %.17g, \"test_predictions\": %s, \"time_s\": 1, "
                 "\"time_per_step_s\": 1, \"bytes_total\": 0, \"target_accuracy\": 0.85}",
                 i, accuracies[i], predictions);
        cJSON_AddItemToArray(list, cJSON_Parse(text));
    }
    FILE *out = open_memstream(&printed, &bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT(table_compare(out, list, true));
    fclose(out);
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, expected));
    if (strstr(printed, expected) == NULL)
        printf("\n  no \"%s\" in:\n%s\n", expected, printed);
    free(printed);
    cJSON_Delete(list);
}

/* One standard error of 0.9 by 10,000 is 0.3 points. */
static void accuracies_within_the_sampling_error_are_ties(void)
{
    const double apart[] = {0.8, 0.9, 0.8969}, close[] = {0.8, 0.9, 0.8971};
    const double many[] = {0.9, 0.8999, 0.8998, 0.8997, 0.8996}, all[] = {1, 1, 0.99};
    check_best(apart, 3, "10000", "highest accuracy: m1;");
    check_best(close, 3, "10000", "highest accuracy (to 0.30 points): m1, m2;");
    check_best(close, 3, "1000000", "highest accuracy: m1;");
    check_best(many, 5, "10000",
               "highest accuracy (to 0.30 points): m0, m1, m2 and 2 more;");
    check_best(all, 3, "100", "highest accuracy (to 0.00 points): m0, m1;");
    check_best(apart, 3, "0", "highest accuracy: m1;");
}

static const struct check checks[] = {
    {"a pipeline's waits are those of its closed form", pipeline_closed_form},
    {"computing, communicating, waits and idle are the time", parts_make_up_the_whole},
    {"the slowest stage is named", slowest_stage_is_named},
    {"a full link is named", full_link_is_named},
    {"where nothing is full, what is lost is told", nothing_full_tells_what_is_lost},
    {"links count every hop", links_count_hops},
    {"rows are few", rows_are_few},
    {"a stopped method prints nothing", stopped_prints_nothing},
    {"accuracies within the sampling error are ties",
     accuracies_within_the_sampling_error_are_ties},
};

CHECK_MAIN("depth", checks)
