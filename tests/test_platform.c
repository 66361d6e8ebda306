/* Platform files: what is refused and how, where they are found, how large they may be. */
#include "sim/platform.h"
#include "sim/topology.h"
#include "tests/platform_sample.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINK "{'bandwidth_bytes_per_s': 100, 'latency_s': 1}"
#define LINE "{'kind': 'line', 'link': " LINK "}"

static void check_message(const struct error *error, const char *expected)
{
    bool found = strstr(error->message, expected) != NULL;
    CU_ASSERT_EQUAL(error->status, STATUS_BAD_INPUT);
    CU_ASSERT_TRUE(found);
    if (!found)
        fprintf(stderr, "\nexpected: %s\nfound:    %s\n", expected, error->message);
}

static void check_refused(size_t count, const char *topology, const char *further,
                          const char *message)
{
    struct error error = {0};
    struct platform *platform = sample_try(count, topology, further, &error);
    CU_ASSERT_PTR_NULL(platform);
    check_message(&error, message);
    platform_free(platform);
}

static void check_text_refused(const char *text, const char *message)
{
    struct error error = {0};
    struct platform *platform = sample_parse(text, &error);
    CU_ASSERT_PTR_NULL(platform);
    check_message(&error, message);
    platform_free(platform);
}

static void test_bad_files(void)
{
    check_text_refused("", "test");
    check_text_refused("{\"name\": \"a\", ", "test:1");
    check_text_refused("[]", "test: must be an object, not a list");
    check_text_refused("{}", "test: the key \"name\" is missing");
    check_text_refused("{\"name\": \"a\"}", "test: the key \"processors\" is missing");
    check_text_refused("{\"name\": \"a b\", \"processors\": []}",
                       "test: name: must not contain spaces");
    check_text_refused("{\"name\": \"\", \"processors\": []}",
                       "test: name: must have 1 to 40 characters, not 0");
    check_text_refused("{\"name\": \"a\", \"processors\": []}",
                       "test: processors: must be a group of processors or a list");
    check_text_refused("{\"name\": \"a\", \"processors\": 4}", "test: processors: must be");
    check_text_refused("{\"name\": \"a\", \"processor\": []}",
                       "test: unknown key \"processor\", nearest known is \"processors\"");
    check_text_refused("{\"name\": \"a\", \"name\": \"b\"}", "name");
}

static void test_bad_counts(void)
{
    check_refused(0, LINE, "", "processors.count: must be an integer from 1 to 100000");
    check_refused(100001, LINE, "",
                  "processors.count: must be an integer from 1 to 100000");
    check_refused(4000, "{'kind': 'full', 'link': " LINK "}", "",
                  "topology: 4000 processors need 15996000 links; at most 4000000");
    check_text_refused(
        "{\"name\": \"a\", \"processors\": [{\"name\": \"a\", \"count\": 60000, \"kind\": "
        "\"table\", \"memory_bytes\": 1, \"kinds\": {\"x\": {\"forward\": 1}}}, {\"name\": "
        "\"b\", \"count\": 60000, \"kind\": \"table\", \"memory_bytes\": 1, \"kinds\": "
        "{\"x\": {\"forward\": 1}}}]}",
        "processors[1]: makes 120000 processors; at most 100000");
}

static void test_bad_links(void)
{
    static const struct {
        const char *link, *message;
    } bad[] = {
        {"{'bandwidth_bytes_per_s': 0, 'latency_s': 1}",
         "topology.link.bandwidth_bytes_per_s: must be above 0"},
        {"{'bandwidth_bytes_per_s': -5, 'latency_s': 1}",
         "bandwidth_bytes_per_s: must be a "},
        {"{'bandwidth_bytes_per_s': 1e30, 'latency_s': 1}",
         "bandwidth_bytes_per_s: must be"},
        {"{'bandwidth_bytes_per_s': 'fast', 'latency_s': 1}", "unknown value \"fast\""},
        {"{'bandwidth_bytes_per_s': null, 'latency_s': 1}", "must be a number"},
        {"{'bandwidth_bytes_per_s': 1, 'latency_s': -1e-9}", "latency_s: must be a number"},
        {"{'bandwidth_bytes_per_s': 1}", "topology.link: the key \"latency_s\" is missing"},
        {"{'latency_s': 1}", "the key \"bandwidth_bytes_per_s\" is missing"},
        {"{'bandwidth_bytes_per_s': 1, 'latency_s': 1, 'count': 0}", "count: must be an"},
        {"{'bandwidth_bytes_per_s': 1, 'latency_s': 1, 'count': 1.5}", "count: must be an"},
        {"{'bandwidth_bytes_per_s': 1, 'latency_s': 1, 'efficiency': 2}",
         "efficiency: must be a number from 0 to 1"},
        {"{'bandwidth_gbit_per_s': 1, 'latency_s': 1}",
         "topology.link: unknown key \"bandwidth_gbit_per_s\""},
        {"{'bandwidth_bytes_per_s': 1, 'latency_s': 1, 'reverse_bandwidth_bytes_per_s': 0}",
         "reverse_bandwidth_bytes_per_s: must be above 0"},
        {"7", "topology.link: must be an object"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct text text = {0};
        text_append(&text, "{'kind': 'line', 'link': %s}", bad[i].link);
        check_refused(3, text_string(&text), "", bad[i].message);
        text_free(&text);
    }
}

static void test_bad_topologies(void)
{
    check_refused(3, "{'kind': 'rign'}", "",
                  "unknown value \"rign\", nearest known is \"ring\"");
    check_refused(3, "{'link': 3}", "", "topology: the key \"kind\" is missing");
    check_refused(3, "{'kind': 'ring', 'rail': 3}", "", "topology: unknown key \"rail\"");
    check_refused(3, "{'kind': 'ladder', 'rung': " LINK ", 'rail': " LINK ", 'wrap': true}",
                  "", "topology: \"wrap\" needs an even number of processors, not 3");
    check_refused(6, "{'kind': 'torus', 'dimensions': [2, 4], 'link': " LINK "}", "",
                  "topology.dimensions: make 8 places, but there are 6 to connect");
    check_refused(6, "{'kind': 'torus', 'dimensions': [], 'link': " LINK "}", "",
                  "must be a list of 1 to 8 numbers");
    check_refused(6, "{'kind': 'torus', 'dimensions': [0, 6], 'link': " LINK "}", "",
                  "topology.dimensions[0]: must be an integer from 1");
    check_refused(6, "{'kind': 'mesh', 'dimensions': [2, 3], 'links': [" LINK "]}", "",
                  "topology.links: must be a list of 2 links, one for each dimension");
    check_refused(
        6, "{'kind': 'mesh', 'dimensions': [6], 'link': " LINK ", 'links': [" LINK "]}", "",
        "topology: gives both \"link\" and \"links\"");
    check_refused(8, "{'kind': 'fat_tree', 'down': [4, 2], 'up': [1], 'link': " LINK "}",
                  "", "topology.up: must have as many levels as \"down\", 2");
    check_refused(8, "{'kind': 'fat_tree', 'down': [4, 3], 'up': [1, 1], 'link': " LINK "}",
                  "", "topology: level 2 is too large for 8 processors");
    check_refused(8, "{'kind': 'fat_tree', 'down': [4], 'up': [1], 'link': " LINK "}", "",
                  "\"down\" makes 4 places, but there are 8 to connect");
    check_refused(
        8,
        "{'kind': 'dragonfly', 'groups': 2, 'routers': 2, 'processors_per_router': "
        "3, 'terminal': " LINK ", 'local': " LINK ", 'global': " LINK "}",
        "", "is 12, but there are 8 to connect");
    check_refused(
        8,
        "{'kind': 'dragonfly', 'groups': 2, 'routers': 2, 'processors_per_router': "
        "2, 'links_between_groups': 3, 'terminal': " LINK ", 'local': " LINK
        ", 'global': " LINK "}",
        "", "links_between_groups: must be an integer from 1 to 2");
    check_refused(
        8, "{'kind': 'hierarchical', 'nodes': 3, 'inside': " LINE ", 'across': " LINE "}",
        "", "topology.nodes: 8 processors are not a multiple of 3 nodes");
    check_refused(8,
                  "{'kind': 'hierarchical', 'nodes': 2, 'ports': 3, 'inside': " LINE
                  ", 'across': " LINE "}",
                  "", "the 4 processors of a node are not a multiple of its 3 ports");
    check_refused(8,
                  "{'kind': 'hierarchical', 'nodes': 2, 'inside': {'kind': 'ring'}, "
                  "'across': " LINE "}",
                  "", "test: topology.inside: the key \"link\" is missing");
}

#define FROM_TO(a, b)                                                                      \
    "{'from': " a ", 'to': " b ", 'bandwidth_bytes_per_s': 1, 'latency_s': 0"

static void test_bad_lists_of_links(void)
{
    check_refused(3, "{'kind': 'links', 'links': []}", "",
                  "topology: not connected: there is no way from p0 to p1");
    check_refused(3, "{'kind': 'links', 'links': [" FROM_TO("0", "1") "}]}", "",
                  "topology: not connected: there is no way from p0 to p2");
    check_refused(
        2, "{'kind': 'links', 'links': [" FROM_TO("0", "1") ", 'sharing': 'one_way'}]}", "",
        "topology: not connected: there is no way from p1 to p0");
    check_refused(2, "{'kind': 'links', 'links': [" FROM_TO("0", "2") "}]}", "",
                  "topology.links[0].to: must be an integer from 0 to 1");
    check_refused(2, "{'kind': 'links', 'links': [" FROM_TO("'p0'", "'p10'") "}]}", "",
                  "topology.links[0].to: there is no processor or switch \"p10\"");
    check_refused(2, "{'kind': 'links', 'links': [" FROM_TO("0", "0") "}]}", "",
                  "topology.links[0]: links p0 to itself");
    check_refused(2, "{'kind': 'links', 'links': [" FROM_TO("0", "1") ", 'between': [0]}]}",
                  "", "topology.links[0].between: belongs to a bus");
    check_refused(2,
                  "{'kind': 'links', 'links': [" FROM_TO(
                      "0", "1") ", 'sharing': 'one_way', 'reverse_latency_s': 1}]}",
                  "", "reverse_latency_s: has no effect on a one-way link");
    check_refused(2,
                  "{'kind': 'links', 'links': [" FROM_TO("0", "1") ", 'sharing': 'bus'}]}",
                  "", "topology.links[0].from: has no meaning for a bus");
    check_refused(2,
                  "{'kind': 'links', 'links': [{'sharing': 'bus', 'between': [0], "
                  "'bandwidth_bytes_per_s': 1, 'latency_s': 0}]}",
                  "", "topology.links[0].between: must list at least two");
    check_refused(2,
                  "{'kind': 'links', 'links': [{'sharing': 'bus', 'between': [0, 1, 0], "
                  "'bandwidth_bytes_per_s': 1, 'latency_s': 0}]}",
                  "", "topology.links[0].between[2]: is on the bus twice");
    check_refused(
        2, "{'kind': 'links', 'switches': ['p1'], 'links': [" FROM_TO("0", "1") "}]}", "",
        "two processors or switches are named \"p1\"");
    check_refused(2, "{'kind': 'links', 'switches': 'p1', 'links': []}", "",
                  "topology.switches: must be a list of names");
}

static const char *const two_groups =
    "{\"name\": \"mixed\", \"processors\": [{\"name\": \"%s\", \"count\": 2, \"kind\": "
    "\"table\", \"memory_bytes\": 1, \"kinds\": {\"x\": {\"forward\": 1}}}, {\"name\": "
    "\"%s\", \"kind\": \"roofline\", \"memory_bytes\": 2, \"peak_flops_per_s\": 1, "
    "\"memory_bandwidth_bytes_per_s\": 1}], \"topology\": {\"kind\": \"line\", \"link\": "
    "{\"bandwidth_bytes_per_s\": 1, \"latency_s\": 0}}}";

static void test_mixed_processors(void)
{
    struct text text = {0};
    struct error error = {0};
    text_append(&text, two_groups, "a", "b");
    struct platform *platform = sample_parse(text_string(&text), &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(platform);
    CU_ASSERT_EQUAL(platform_processor_count(platform), 3);
    CU_ASSERT_STRING_EQUAL(platform_processor(platform, 1)->name, "a1");
    CU_ASSERT_STRING_EQUAL(platform_processor(platform, 2)->name, "b");
    CU_ASSERT_STRING_EQUAL(platform_processor(platform, 2)->kind->name, "roofline");
    CU_ASSERT_PTR_NULL(platform_processor(platform, 3));
    platform_free(platform);
    text_clear(&text);
    text_append(&text, two_groups, "a", "a1");
    check_text_refused(text_string(&text), "two processors or switches are named \"a1\"");
    text_free(&text);
}

static void test_host(void)
{
    struct error error = {0};
    struct route route;
    struct platform *platform =
        sample_try(5, LINE,
                   ", 'host': {'bandwidth_bytes_per_s': 9, 'latency_s': 2, "
                   "'processors_per_link': 2}",
                   &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(platform);
    CU_ASSERT_TRUE(platform_has_host(platform));
    CU_ASSERT_EQUAL(platform_link_count(platform), 8 + 3);
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_TRUE(platform_host_route(platform, i, &route, &error));
        CU_ASSERT_EQUAL(route.link_count, 1);
        CU_ASSERT_EQUAL(route.links[0], 8 + i / 2);
        CU_ASSERT_EQUAL(route.latency_s, 2);
        CU_ASSERT_EQUAL(route.bandwidth_bytes_per_s, 9);
    }
    CU_ASSERT_STRING_EQUAL(platform_link(platform, 9)->name, "host->p2");
    CU_ASSERT_FALSE(platform_host_route(platform, 5, &route, &error));
    platform_free(platform);
    platform = sample(2, LINE);
    CU_ASSERT_FALSE(platform_has_host(platform));
    CU_ASSERT_TRUE(platform_host_route(platform, 1, &route, &error));
    CU_ASSERT_TRUE(isinf(route.bandwidth_bytes_per_s));
    platform_free(platform);
    check_refused(2, LINE, ", 'host': {'bandwidth_bytes_per_s': 9}",
                  "\"latency_s\" is missing");
    check_refused(2, LINE,
                  ", 'host': {'name': 'p0', 'bandwidth_bytes_per_s': 9, "
                  "'latency_s': 0}",
                  "two processors or switches are named \"p0\"");
}

static void test_trouble(void)
{
    struct error error = {0};
    struct platform *platform = sample_try(
        4, LINE,
        ", 'trouble': {'seed': 7, 'stragglers': [{'processor': 'p1', 'slowdown': 3}, "
        "{'processor': 'p', 'slowdown': 2, 'probability': 0.25, 'window_s': 0.5}], "
        "'links': "
        "[{'link': 'p1->p2', 'factor': 0.5, 'from_s': 1}], 'failures': [{'processor': "
        "'p3', "
        "'at_s': 10}, {'link': 'p0->p1', 'at_s': 4, 'until_s': 5}]}",
        &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(platform);
    const struct trouble *trouble = platform_trouble(platform);
    CU_ASSERT_EQUAL(trouble->seed, 7);
    CU_ASSERT_EQUAL(trouble->straggler_count, 5);
    CU_ASSERT_EQUAL(trouble->degradation_count, 2);
    CU_ASSERT_EQUAL(trouble->failure_count, 1);
    CU_ASSERT_EQUAL(trouble->failures[0].processor, 3);
    CU_ASSERT_TRUE(isinf(trouble->failures[0].until_s));
    CU_ASSERT_EQUAL(trouble->degradations[1].factor, 0);
    CU_ASSERT_EQUAL(trouble->degradations[1].until_s, 5);
    CU_ASSERT_STRING_EQUAL(platform_link(platform, trouble->degradations[0].link)->name,
                           "p1->p2");
    size_t slow = 0;
    enum { WINDOWS = 4000 };
    for (size_t w = 0; w < WINDOWS; w++) {
        double begin = platform_straggling(platform, 0, 0.5 * (double)w);
        CU_ASSERT_EQUAL(platform_straggling(platform, 0, 0.5 * (double)w + 0.49), begin);
        CU_ASSERT_TRUE(begin == 1 || begin == 2);
        double other = platform_straggling(platform, 1, 0.5 * (double)w);
        CU_ASSERT_TRUE(other == 3 || other == 6);
        slow += begin > 1;
    }
    /* 1000 expected, standard deviation 27. */
    CU_ASSERT_TRUE(slow > 850 && slow < 1150);
    platform_free(platform);
    platform = sample(2, LINE);
    CU_ASSERT_EQUAL(platform_straggling(platform, 0, 3), 1);
    CU_ASSERT_EQUAL(platform_trouble(platform)->failure_count, 0);
    platform_free(platform);
}

static void test_bad_trouble(void)
{
    static const struct {
        const char *trouble, *message;
    } bad[] = {
        {"[]", "trouble: must be an object"},
        {"{'stragglers': {}}", "trouble.stragglers: must be a list"},
        {"{'stragglers': [{'processor': 'q', 'slowdown': 2}]}",
         "trouble.stragglers[0].processor: no processor or group is named \"q\""},
        {"{'stragglers': [{'processor': 'p', 'slowdown': 0}]}",
         "slowdown: must be above 0"},
        {"{'stragglers': [{'processor': 'p', 'slowdown': 2, 'probability': 0.5}]}",
         "trouble.stragglers[0]: the key \"window_s\" is missing"},
        {"{'stragglers': [{'processor': 'p', 'slowdown': 2, 'window_s': 0.5}]}",
         "window_s: has no effect when probability is 1"},
        {"{'links': [{'link': 'p0', 'factor': 0.5, 'from_s': 1}]}",
         "trouble.links[0].link: no link is named \"p0\"; the first is \"p0->p1\""},
        {"{'links': [{'link': 'p0->p1', 'factor': 0, 'from_s': 1}]}", "must be above 0"},
        {"{'links': [{'link': 'p0->p1', 'factor': 1, 'from_s': 1, 'until_s': 1}]}",
         "until_s: must be after its start, 1 s"},
        {"{'failures': [{'at_s': 1}]}", "must name either a \"processor\" or a \"link\""},
        {"{'failures': [{'at_s': 1, 'link': 'p0->p1', 'processor': 'p0'}]}", "must name"},
        {"{'failures': [{'at_s': -1, 'link': 'p0->p1'}]}", "at_s: must be a number"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct text text = {0};
        text_append(&text, ", 'trouble': %s", bad[i].trouble);
        check_refused(2, LINE, text_string(&text), bad[i].message);
        text_free(&text);
    }
}

static void test_routes_out_of_range(void)
{
    struct platform *platform = sample(2, LINE);
    struct error error = {0};
    struct route route;
    CU_ASSERT_FALSE(platform_route(platform, 0, 2, &route, &error));
    check_message(&error, "platform sample: no processor 2; it has 2, counted from 0");
    CU_ASSERT_FALSE(platform_route(platform, SIZE_MAX, 0, &route, &error));
    CU_ASSERT_PTR_NULL(platform_link(platform, 2));
    platform_free(platform);
}

static void check_unreadable(const char *name, const char *message)
{
    struct error error = {0};
    struct platform *platform = platform_read(name, &error);
    CU_ASSERT_PTR_NULL(platform);
    check_message(&error, message);
    platform_free(platform);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

static void test_where_files_are(void)
{
    char folder[] = "/tmp/podsim-platform-XXXXXX", inner[64], path[96];
    struct error error = {0};
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    check_unreadable("ipu-m200", "nearest is \"ipu-m2000\" (shipped, in ");
    check_unreadable("ipu-m200", "tpu-v4-4x4x4");
    check_unreadable("no/such/file.json", "platform \"no/such/file.json\": no such file");
    check_unreadable("", "no such file");
    check_unreadable(folder, "no such file");
    /* Another data folder: its platforms count, the shipped ones do not. */
    snprintf(inner, sizeof(inner), "%s/platforms", folder);
    CU_ASSERT_EQUAL(mkdir(inner, 0700), 0);
    snprintf(path, sizeof(path), "%s/mine.json", inner);
    write_file(path, "{\"name\": \"mine\", \"processors\": {\"kind\": \"table\", "
                     "\"memory_bytes\": 1, \"kinds\": {\"x\": {\"forward\": 1}}}}");
    setenv("PODSIM_DATA", folder, 1);
    struct platform *platform = platform_read("mine", &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(platform);
    CU_ASSERT_STRING_EQUAL(platform_name(platform), "mine");
    CU_ASSERT_STRING_EQUAL(platform_processor(platform, 0)->name, "processor");
    platform_free(platform);
    check_unreadable("ipu-m2000", ": mine)");
    unsetenv("PODSIM_DATA");
    check_unreadable("mine", "no such file");
    platform = platform_read(path, &error);
    CU_ASSERT_PTR_NOT_NULL(platform);
    platform_free(platform);
    write_file(path, "{\"name\": \"mine\",\n \"processors\": {\"kind\": ");
    check_unreadable(path, "mine.json:2");
    unlink(path);
    rmdir(inner);
    rmdir(folder);
}

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void test_8192_processors(void)
{
    static const char *const topologies[] = {
        "{'kind': 'ring', 'link': " LINK "}",
        "{'kind': 'ladder', 'rung': " LINK ", 'rail': " LINK "}",
        "{'kind': 'torus', 'dimensions': [16, 16, 32], 'link': " LINK "}",
        "{'kind': 'switch', 'link': " LINK "}",
        "{'kind': 'fat_tree', 'down': [32, 16, 16], 'up': [1, 8, 8], 'link': " LINK "}",
        "{'kind': 'dragonfly', 'groups': 64, 'routers': 16, 'processors_per_router': 8, "
        "'terminal': " LINK ", 'local': " LINK ", 'global': " LINK "}",
        "{'kind': 'hierarchical', 'nodes': 1024, 'ports': 8, 'rails': true, 'inside': "
        "{'kind': 'full', 'link': " LINK
        "}, 'across': {'kind': 'fat_tree', 'down': [32, 32],"
        "'up': [1, 16], 'link': " LINK "}}"};
    for (size_t i = 0; i < sizeof(topologies) / sizeof(topologies[0]); i++) {
        struct error error = {0};
        struct route route;
        double begin = now_s();
        struct platform *platform = sample(8192, topologies[i]);
        for (size_t from = 0; from < 8192; from++) {
            CU_ASSERT_TRUE(
                platform_route(platform, from, (from + 1) % 8192, &route, &error));
            CU_ASSERT_TRUE(route.link_count >= 1 && route.link_count <= 8192);
            CU_ASSERT_TRUE(
                platform_route(platform, from, (from + 4099) % 8192, &route, &error) ||
                i < 2);
            if (i < 2 && from > 100)
                break;
        }
        platform_free(platform);
        /* Well under a second; the limit is for loaded machines and sanitizers. */
        CU_ASSERT_TRUE(now_s() - begin < 5);
    }
}

static void test_the_largest_machine(void)
{
    struct error error = {0};
    struct route route;
    double bisection = 0;
    struct platform *platform = sample(PLATFORM_MAX_PROCESSORS, LINE);
    CU_ASSERT_TRUE(
        platform_route(platform, 0, PLATFORM_MAX_PROCESSORS - 1, &route, &error));
    CU_ASSERT_EQUAL(route.link_count, PLATFORM_MAX_PROCESSORS - 1);
    CU_ASSERT_EQUAL(route.latency_s, PLATFORM_MAX_PROCESSORS - 1);
    CU_ASSERT_TRUE(platform_bisection(platform, &bisection, &error));
    CU_ASSERT_EQUAL(bisection, 100);
    platform_free(platform);
}

static char *described(struct platform *platform, bool drawing)
{
    char *data = NULL;
    size_t size = 0;
    struct error error = {0};
    FILE *out = open_memstream(&data, &size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT_TRUE(drawing ? platform_write_svg(platform, out, &error)
                           : platform_describe(platform, out, &error));
    fclose(out);
    return data;
}

static void check_says(struct platform *platform, const char *expected)
{
    char *text = described(platform, false);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, expected));
    if (strstr(text, expected) == NULL)
        fprintf(stderr, "\nexpected: %s\nin: %s\n", expected, text);
    free(text);
}

static void test_description(void)
{
    struct error error = {0};
    struct platform *platform = platform_read("ipu-m2000", &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(platform);
    check_says(platform, "processors   4: ipu0 to ipu3\n");
    check_says(platform, "peak         fp32 62.4 TFLOP/s, fp16 250 TFLOP/s\n");
    check_says(platform, "in all       3.76 GB of memory\n");
    check_says(platform, "4 like ipu0->ipu2: 27.2 GB/s, 150 ns\n");
    check_says(platform, "diameter     2 links; longest latency 300 ns\n");
    check_says(platform, "bisection    54.4 GB/s a direction\n");
    platform_free(platform);
}

static size_t occurrences(const char *text, const char *word)
{
    size_t count = 0;
    while ((text = strstr(text, word)) != NULL) {
        count++;
        text += strlen(word);
    }
    return count;
}

static void test_drawing(void)
{
    struct platform *platform =
        sample(64, "{'kind': 'torus', 'dimensions': [4, 4, 4], 'link': " LINK "}");
    char *svg = described(platform, true);
    CU_ASSERT_EQUAL(occurrences(svg, "class=\"processor\""), 64);
    CU_ASSERT_EQUAL(occurrences(svg, "class=\"link\""), 3 * 64);
    CU_ASSERT_EQUAL(occurrences(svg, "</svg>"), 1);
    CU_ASSERT_EQUAL(occurrences(svg, "\"nan") + occurrences(svg, " nan"), 0);
    free(svg);
    platform_free(platform);
    platform = sample(65, LINE);
    svg = described(platform, true);
    CU_ASSERT_EQUAL(occurrences(svg, "class=\"processor\""), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "65 x p (ipu)"));
    free(svg);
    platform_free(platform);
}

static const struct check checks[] = {
    {"bad files", test_bad_files},
    {"bad counts", test_bad_counts},
    {"bad links", test_bad_links},
    {"bad topologies", test_bad_topologies},
    {"bad lists of links", test_bad_lists_of_links},
    {"mixed processors", test_mixed_processors},
    {"host", test_host},
    {"trouble", test_trouble},
    {"bad trouble", test_bad_trouble},
    {"routes out of range", test_routes_out_of_range},
    {"where files are", test_where_files_are},
    {"8192 processors", test_8192_processors},
    {"the largest machine", test_the_largest_machine},
    {"description", test_description},
    {"drawing", test_drawing},
};

CHECK_MAIN("platform", checks)
