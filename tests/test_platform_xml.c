/* SimGrid's platform file: what is in it, and that SimGrid, given it, takes the time that
 * the routes say. SimGrid runs in a child, since it can be started once a process. */
#include "tests/platform_sample.h"

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINK "{'bandwidth_bytes_per_s': 100, 'latency_s': 1}"

static char *xml_of(struct platform *platform, const struct platform_pair *pairs,
                    size_t count)
{
    char *data = NULL;
    size_t size = 0;
    struct error error = {0};
    FILE *out = open_memstream(&data, &size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    bool written = platform_write_xml(platform, pairs, count, out, &error);
    if (!written)
        fprintf(stderr, "\n%s\n", error.message);
    CU_ASSERT_TRUE(written);
    fclose(out);
    return data;
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

static void test_only_what_is_used(void)
{
    struct platform *platform = sample(5, "{'kind': 'line', 'link': " LINK "}");
    static const struct platform_pair pairs[] = {{3, 1}, {0, 1}, {3, 1}, {2, 2}, {0, 1}};
    char *xml = xml_of(platform, pairs, 5);
    CU_ASSERT_EQUAL(occurrences(xml, "<host "), 5);
    CU_ASSERT_EQUAL(occurrences(xml, "<route "), 2);
    CU_ASSERT_EQUAL(occurrences(xml, "bandwidth=\"100Bps\""), 3);
    CU_ASSERT_EQUAL(
        occurrences(xml, "<link_ctn id=\"p3-&gt;p2\"/><link_ctn id=\"p2-&gt;p1\"/>"), 1);
    free(xml);
    xml = xml_of(platform, NULL, 0);
    CU_ASSERT_EQUAL(occurrences(xml, "<route "), 0);
    free(xml);
    platform_free(platform);
}

static void test_refusals(void)
{
    struct platform *platform = sample(2, "{'kind': 'line', 'link': " LINK "}");
    static const struct platform_pair bad[] = {
        {PLATFORM_HOST, 0}, {0, PLATFORM_HOST}, {0, 2}, {7, 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error error = {0};
        FILE *out = fopen("/dev/null", "w");
        CU_ASSERT_PTR_NOT_NULL_FATAL(out);
        CU_ASSERT_FALSE(platform_write_xml(platform, &bad[i], 1, out, &error));
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        fclose(out);
    }
    platform_free(platform);
}

/* One message of the child: from, to, bytes; when it ended comes back through the pipe. */
struct message {
    const char *from, *to;
    long bytes;
    int pipe, index;
};

static void sender(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct message *message = sg_actor_self_get_data();
    char name[16];
    snprintf(name, sizeof(name), "%d", message->index);
    sg_comm_wait(sg_mailbox_put_async(sg_mailbox_by_name(name), message, message->bytes));
    double end[2] = {message->index, simgrid_get_clock()};
    if (write(message->pipe, end, sizeof(end)) != sizeof(end))
        _exit(3);
}

static void receiver(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct message *message = sg_actor_self_get_data();
    char name[16];
    snprintf(name, sizeof(name), "%d", message->index);
    sg_mailbox_get(sg_mailbox_by_name(name));
}

static void run_child(const char *path, struct message *messages, size_t count)
{
    char program[] = "test", model[] = "--cfg=network/model:CM02",
         gamma[] = "--cfg=network/TCP-gamma:1e30", cross[] = "--cfg=network/crosstraffic:0",
         exact[] = "--cfg=surf/precision:1e-13", quiet[] = "--log=root.thresh:critical";
    char *arguments[] = {program, model, gamma, cross, exact, quiet, NULL};
    int argument_count = 6;
    simgrid_init(&argument_count, arguments);
    simgrid_load_platform(path);
    for (size_t i = 0; i < count; i++) {
        sg_actor_t actor = sg_actor_init("sender", sg_host_by_name(messages[i].from));
        sg_actor_set_data(actor, &messages[i]);
        sg_actor_start_(actor, sender, 0, NULL);
        actor = sg_actor_init("receiver", sg_host_by_name(messages[i].to));
        sg_actor_set_data(actor, &messages[i]);
        sg_actor_start_(actor, receiver, 0, NULL);
    }
    simgrid_run();
    _exit(0);
}

/* Sends all messages at time 0 under SimGrid; end_s[i] is when message i had arrived. */
static void simulate(const char *xml, struct message *messages, size_t count, double *end_s)
{
    char path[] = "/tmp/podsim-xml-XXXXXX";
    int file = mkstemp(path), ends[2];
    CU_ASSERT_TRUE_FATAL(file >= 0 && pipe(ends) == 0);
    CU_ASSERT_EQUAL(write(file, xml, strlen(xml)), (ssize_t)strlen(xml));
    close(file);
    for (size_t i = 0; i < count; i++) {
        messages[i].pipe = ends[1];
        messages[i].index = (int)i;
        end_s[i] = -1;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run_child(path, messages, count);
    close(ends[1]);
    double end[2];
    while (read(ends[0], end, sizeof(end)) == sizeof(end))
        end_s[(size_t)end[0]] = end[1];
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unlink(path);
}

static void test_times(void)
{
    struct error error = {0};
    struct platform *platform = platform_read("ipu-pod16", &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(platform);
    static const struct platform_pair pairs[] = {{0, 1}, {2, 15}, {14, 15}};
    static const struct platform_pair host = {PLATFORM_HOST, 5};
    struct platform_pair all[4] = {pairs[0], pairs[1], pairs[2], host};
    struct message messages[4] = {{"ipu0", "ipu1", 1000000007, 0, 0},
                                  {"ipu2", "ipu15", 1000000007, 0, 0},
                                  {"ipu14", "ipu15", 5, 0, 0},
                                  {"host", "ipu5", 4300000000, 0, 0}};
    double end_s[4];
    char *xml = xml_of(platform, all, 4);
    simulate(xml, messages, 4, end_s);
    for (size_t i = 0; i < 4; i++) {
        struct route route;
        CU_ASSERT_TRUE(
            i < 3 ? platform_route(platform, pairs[i].from, pairs[i].to, &route, &error)
                  : platform_host_route(platform, 5, &route, &error));
        CHECK_CLOSE(end_s[i], (double)messages[i].bytes / route.bandwidth_bytes_per_s,
                    1e-12);
    }
    free(xml);
    platform_free(platform);
}

/* A bus, a link that nobody shares, and a free link, under names that XML must escape. */
static void test_sharing_and_names(void)
{
    struct error error = {0};
    const char *text =
        "{\"name\": \"a&b\", \"processors\": {\"name\": \"p&'\", \"count\": 5, \"kind\": "
        "\"table\", \"memory_bytes\": 1, \"kinds\": {\"x\": {\"forward\": 1}}}, "
        "\"topology\": "
        "{\"kind\": \"links\", \"links\": ["
        "{\"sharing\": \"bus\", \"name\": \"b&s\", \"between\": [0, 1, 2], "
        "\"bandwidth_bytes_per_s\": 100, \"latency_s\": 1},"
        "{\"from\": 2, \"to\": 3, \"bandwidth_bytes_per_s\": 100, \"latency_s\": 1, "
        "\"sharing\": \"fatpipe\"},"
        "{\"from\": 3, \"to\": 4, \"bandwidth_bytes_per_s\": \"infinite\", \"latency_s\": "
        "1}"
        "]}}";
    struct platform *platform = sample_parse(text, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(platform);
    static const struct platform_pair pairs[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
    struct message messages[] = {{"p&'0", "p&'1", 1000, 0, 0},
                                 {"p&'1", "p&'2", 1000, 0, 0},
                                 {"p&'2", "p&'3", 1000, 0, 0},
                                 {"p&'2", "p&'3", 1000, 0, 0},
                                 {"p&'3", "p&'4", 1000, 0, 0}};
    static const double expected_s[] = {20, 20, 10, 10, 1e-15};
    double end_s[5];
    char *xml = xml_of(platform, pairs, 4);
    simulate(xml, messages, 5, end_s);
    for (size_t i = 0; i < 5; i++)
        CU_ASSERT_TRUE(fabs(end_s[i] - expected_s[i]) < 1e-9);
    free(xml);
    platform_free(platform);
}

static const struct check checks[] = {
    {"only what is used", test_only_what_is_used},
    {"refusals", test_refusals},
    {"times", test_times},
    {"sharing and names", test_sharing_and_names},
};

CHECK_MAIN("platform XML", checks)
