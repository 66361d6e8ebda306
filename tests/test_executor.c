/* The executor: transfers, shared links, occupancy, memory, and what must not matter. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const uint64_t widths[] = {40, 80, 20, 10};

/* Every transfer of a chain, which shares no link, takes latency + bytes / bandwidth. */
static void check_transfers(bool overlap, struct text_link link)
{
    struct simulation *s = simulate("{\"model\": %s, \"platform\": %s, \"numerics\": "
                                    "false, \"steps\": 2, \"batch\": 9, "
                                    "\"micro_batch\": 3, \"methods\": [{\"kind\": "
                                    "\"pipeline\", \"stages\": [1, 1, 1, 1]}, "
                                    "{\"kind\": \"local\", \"stages\": [1, 1, 1, 1]}]}",
                                    linear_model(16, widths, 4),
                                    roofline_machine(4, "line", overlap, 1 << 30, link));
    double sync_s = overlap ? 0 : 2e-7;
    for (size_t m = 0; m < s->count; m++) {
        const struct simulated *own = s->methods[m];
        size_t transfers = 0;
        for (size_t i = 0; i < own->event_count; i++) {
            const struct event *e = &own->events[i];
            if (e->kind != EVENT_TRANSFER)
                continue;
            double expected =
                link.latency_s + sync_s + (double)e->bytes / link.bandwidth_bytes_per_s;
            /* the clock's own rounding, where an instant is the sum of many durations */
            CU_ASSERT(fabs(e->end_s - e->start_s - expected) <= 1e-14 * e->end_s);
            transfers++;
        }
        CU_ASSERT_EQUAL(transfers, own->messages);
        CU_ASSERT_EQUAL(transfers, (m == 0 ? 2 : 1) * 3u * 3u * 2u);
    }
    simulation_free(s);
}

static void transfers(void)
{
    static const struct text_link links[] = {{1e9, 1e-6},      {3.7e6, 0},    {1e21, 5e-5},
                                             {INFINITY, 1e-6}, {INFINITY, 0}, {7, 0.25}};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        check_transfers(true, links[i]);
        check_transfers(false, links[i]);
    }
}

/* Three models on a bus or a fat pipe exchange logits at one moment: on a bus six flows
 * have a sixth of the bandwidth each. */
static void check_sharing(const char *sharing, double flows)
{
    char platform[2048];
    snprintf(
        platform, sizeof platform,
        "{\"name\": \"shared\", \"processors\": {\"name\": \"p\", \"count\": 3, \"kind\": "
        "\"roofline\", \"peak_flops_per_s\": 1e9, \"memory_bytes\": 1000000, "
        "\"memory_bandwidth_bytes_per_s\": 1e9}, \"topology\": {\"kind\": \"links\", "
        "\"links\": ["
        "{%s, \"bandwidth_bytes_per_s\": 1e6, \"latency_s\": 0.001}]}}",
        sharing);
    struct simulation *s =
        simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 1, "
                 "\"batch\": 8, "
                 "\"methods\": [{\"kind\": \"codistillation\", \"models\": 3}]}",
                 linear_model(16, widths, 4), platform);
    size_t seen = 0;
    for (size_t i = 0; i < s->methods[0]->event_count; i++) {
        const struct event *e = &s->methods[0]->events[i];
        if (e->kind != EVENT_TRANSFER)
            continue;
        CHECK_CLOSE(e->end_s - e->start_s, 0.001 + flows * (8 * 10 * 4) / 1e6, 1e-9);
        seen++;
    }
    CU_ASSERT_EQUAL(seen, 6);
    simulation_free(s);
}

static void sharing(void)
{
    check_sharing("\"sharing\": \"bus\", \"between\": [0, 1, 2]", 6);
}

static double time_on(const char *platform, const char *method)
{
    struct simulation *s =
        simulate("{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 3, "
                 "\"batch\": 12, \"micro_batch\": 2, \"methods\": [%s]}",
                 linear_model(16, widths, 4), platform, method);
    double time_s = s->methods[0]->result.time_s;
    simulation_free(s);
    return time_s;
}

static const char *square(char text[2048], double last_bandwidth, double first_bandwidth)
{
    snprintf(
        text, 2048,
        "{\"name\": \"square\", \"processors\": {\"name\": \"p\", \"count\": 4, \"kind\": "
        "\"roofline\", \"peak_flops_per_s\": 1e9, \"memory_bytes\": 1000000, "
        "\"memory_bandwidth_bytes_per_s\": 1e9}, \"topology\": {\"kind\": \"links\", "
        "\"links\": ["
        "{\"from\": 0, \"to\": 1, \"bandwidth_bytes_per_s\": %g, \"latency_s\": 1e-6}, "
        "{\"from\": 1, \"to\": 2, \"bandwidth_bytes_per_s\": 1e7, \"latency_s\": 1e-6}, "
        "{\"from\": 2, \"to\": 3, \"bandwidth_bytes_per_s\": 1e7, \"latency_s\": 1e-6}, "
        "{\"from\": 3, \"to\": 0, \"bandwidth_bytes_per_s\": %g, \"latency_s\": 1e-6}]}}",
        first_bandwidth, last_bandwidth);
    return text;
}

/* A chain of four stages around a square leaves its last link unused. */
static void unused_link(void)
{
    static const char method[] = "{\"kind\": \"pipeline\", \"stages\": [1, 1, 1, 1]}";
    char text[2048];
    double whole = time_on(square(text, 1e7, 1e7), method);
    CU_ASSERT(time_on(square(text, 0.5e7, 1e7), method) == whole);
    CU_ASSERT(time_on(square(text, 1, 1e7), method) == whole);
    CU_ASSERT(time_on(square(text, 1e7, 0.5e7), method) > whole);
}

/* The same events but for what was learned. */
static void check_same_events(const struct simulated *a, const struct simulated *b)
{
    size_t k = 0, compared = 0;
    for (size_t i = 0; i < a->event_count; i++) {
        if (a->events[i].kind == EVENT_METRIC)
            continue;
        while (k < b->event_count && b->events[k].kind == EVENT_METRIC)
            k++;
        CU_ASSERT_FATAL(k < b->event_count);
        const struct event *x = &a->events[i], *y = &b->events[k++];
        bool same = x->kind == y->kind && x->start_s == y->start_s &&
                    x->end_s == y->end_s && x->processor == y->processor &&
                    x->stream == y->stream && x->layer == y->layer && x->edge == y->edge &&
                    x->step == y->step && x->micro_batch == y->micro_batch &&
                    x->bytes == y->bytes && x->flops == y->flops &&
                    x->memory_after_bytes == y->memory_after_bytes;
        CU_ASSERT(same);
        compared++;
    }
    CU_ASSERT(compared > 100);
    CU_ASSERT(a->result.time_s == b->result.time_s);
    CU_ASSERT_EQUAL(a->bytes, b->bytes);
}

static struct simulation *with_numerics(bool numerics, bool overlap)
{
    struct text_link link = {1e7, 1e-6};
    return simulate("{\"model\": %s, \"data\": {\"kind\": \"synthetic\", \"features\": 16, "
                    "\"classes\": 10, "
                    "\"train_samples\": 100, \"test_samples\": 20}, \"platform\": %s, "
                    "\"numerics\": %s, "
                    "\"steps\": 4, \"batch\": 12, \"micro_batch\": 3, \"precision\": "
                    "\"fp16\", \"methods\": "
                    "[\"backprop\", {\"name\": \"g\", \"kind\": \"pipeline\", "
                    "\"schedule\": \"gpipe\"}, "
                    "{\"name\": \"f\", \"kind\": \"pipeline\", \"schedule\": \"1f1b\", "
                    "\"recompute\": \"stage\"}, "
                    "\"local\", {\"kind\": \"codistillation\", \"models\": 2, \"inner\": "
                    "{\"kind\": \"pipeline\", "
                    "\"stages\": 3}}, \"data_parallel\"]}",
                    linear_model(16, widths, 4),
                    roofline_machine(6, "ring", overlap, 1 << 20, link),
                    numerics ? "true" : "false");
}

static void cost_only(void)
{
    for (int overlap = 0; overlap < 2; overlap++) {
        struct simulation *costs = with_numerics(false, overlap == 1);
        struct simulation *trained = with_numerics(true, overlap == 1);
        struct simulation *again = with_numerics(true, overlap == 1);
        for (size_t i = 0; i < costs->count; i++) {
            check_same_events(costs->methods[i], trained->methods[i]);
            check_same_events(trained->methods[i], again->methods[i]);
            double loss = simulated_metric(trained->methods[i], "test loss", 0, 0);
            double twin = simulated_metric(again->methods[i], "test loss", 0, 0);
            CU_ASSERT(loss == twin || (isnan(loss) && isnan(twin)));
            CU_ASSERT(isnan(simulated_metric(costs->methods[i], "loss", 0, 0)));
        }
        simulation_free(costs);
        simulation_free(trained);
        simulation_free(again);
    }
}

static cJSON *summary_with_memory(uint64_t memory_bytes, const char *method, bool numerics)
{
    struct text_link link = {1e7, 1e-6};
    struct error error;
    char text[8192];
    snprintf(
        text, sizeof text,
        "{\"model\": %s, \"data\": {\"kind\": \"synthetic\", \"features\": 16, "
        "\"classes\": 10, \"train_samples\": 100, \"test_samples\": 20}, \"platform\": %s, "
        "\"steps\": 2, \"batch\": 8, \"micro_batch\": 2, \"numerics\": %s, \"methods\": "
        "[%s]}",
        linear_model(16, widths, 4), roofline_machine(4, "line", true, memory_bytes, link),
        numerics ? "true" : "false", method);
    struct experiment *e = read_experiment(text, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    cJSON *list = simulate_summaries(e, 1);
    experiment_free(e);
    return list;
}

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* The processor with the highest peak. */
static uint64_t highest_peak(const cJSON *summary, char name[64])
{
    uint64_t most = 0;
    const cJSON *own;
    cJSON_ArrayForEach(own,
                       member(summary, "memory")) if (summary_u64(own, "peak_bytes") > most)
    {
        most = summary_u64(own, "peak_bytes");
        snprintf(name, 64, "%s", member(own, "processor")->valuestring);
    }
    return most;
}

/* Fits to the byte; one byte less does not: followed to its end in time and bytes, says
 * what and where, and has learned nothing. */
static void check_shortage(const char *method, bool numerics)
{
    char name[64] = "", same[64] = "";
    cJSON *ample = summary_with_memory(1 << 30, method, numerics);
    uint64_t peak = highest_peak(cJSON_GetArrayItem(ample, 0), name);
    cJSON *just = summary_with_memory(peak, method, numerics);
    cJSON *less = summary_with_memory(peak - 1, method, numerics);
    const cJSON *a = cJSON_GetArrayItem(ample, 0), *j = cJSON_GetArrayItem(just, 0),
                *l = cJSON_GetArrayItem(less, 0);
    CU_ASSERT(cJSON_IsTrue(member(a, "fits")) && member(a, "shortage") == NULL);
    CU_ASSERT(cJSON_IsTrue(member(j, "fits")) && member(j, "shortage") == NULL);
    CU_ASSERT(cJSON_IsFalse(member(l, "fits")));
    CU_ASSERT_EQUAL(highest_peak(l, same), peak);
    CU_ASSERT_STRING_EQUAL(same, name);
    const cJSON *lacks = member(l, "shortage");
    CU_ASSERT_FATAL(cJSON_IsObject(lacks));
    CU_ASSERT_EQUAL(summary_u64(lacks, "lacks_bytes"), 1);
    CU_ASSERT_STRING_EQUAL(member(lacks, "processor")->valuestring, name);
    CU_ASSERT(cJSON_IsString(member(lacks, "largest_category")));
    CU_ASSERT(cJSON_IsString(member(lacks, "first_asked_for")));
    CU_ASSERT(member(lacks, "first_time_s")->valuedouble <=
              member(l, "time_s")->valuedouble);
    CU_ASSERT(member(a, "time_s")->valuedouble == member(l, "time_s")->valuedouble);
    CU_ASSERT_EQUAL(summary_u64(a, "bytes_total"), summary_u64(l, "bytes_total"));
    static const char *const learned[] = {"loss", "accuracy", "test_loss"};
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(cJSON_IsNumber(member(j, learned[i])), numerics);
        CU_ASSERT(cJSON_IsNull(member(l, learned[i])));
    }
    CU_ASSERT(cJSON_IsNull(member(l, "time_to_target_s")));
    CU_ASSERT_EQUAL(cJSON_GetArraySize(member(l, "curve")), 0);
    cJSON_Delete(ample);
    cJSON_Delete(just);
    cJSON_Delete(less);
}

static void shortage(void)
{
    static const char *const methods[] = {
        "\"backprop\"",
        "{\"kind\": \"pipeline\", \"stages\": [1, 1, 1, 1], \"schedule\": \"gpipe\"}",
        "{\"kind\": \"local\", \"stages\": [2, 1, 1]}",
        "{\"kind\": \"codistillation\", \"models\": 3}"};
    for (size_t i = 0; i < 4; i++) {
        check_shortage(methods[i], true);
        check_shortage(methods[i], false);
    }
}

static const struct check checks[] = {
    {"transfers take latency + bytes / bandwidth", transfers},
    {"flows share a bus", sharing},
    {"an unused link does not matter", unused_link},
    {"with and without numerics the same events; twice the same", cost_only},
    {"what does not fit", shortage},
};

CHECK_MAIN("executor", checks)
