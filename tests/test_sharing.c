/* Exactness of the network: flows through the simulated machine end when plain max-min
 * sharing says (tests/max_min.h), whatever their latencies; a flow alone takes L + S/B. */
#include "tests/max_min.h"
#include "tests/platform_sample.h"

#include "base/random.h"
#include "sim/machine.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOWS = 500 };

struct demand {
    uint32_t from, to;
    double start_s;
    uint64_t bytes;
    double extra_s; /* latency besides the route's */
};

/* What a child tells: in shared memory. */
struct told {
    bool done;
    double finish_s[FLOWS];
};

struct sender {
    struct machine *machine;
    const struct demand *demand;
    size_t channel;
    double *finish_s;
};

static uint64_t drawn, current_case;

static uint64_t draw(uint64_t low, uint64_t high)
{
    const struct random_key key = {.seed = current_case, .purpose = RANDOM_TEST, .a = 77};
    return low + random_u64(key, drawn++) % (high - low + 1);
}

static double draw_real(double low, double high)
{
    const struct random_key key = {.seed = current_case, .purpose = RANDOM_TEST, .a = 77};
    return low * pow(high / low, random_uniform(key, drawn++));
}

static void send_one(void *argument)
{
    struct sender *s = argument;
    machine_sleep(s->demand->start_s);
    machine_transfer(s->machine, s->channel, s->demand->bytes, s->demand->extra_s);
    *s->finish_s = machine_now_s();
}

static void run_child(struct platform *platform, const struct demand *demands, size_t count,
                      struct told *told)
{
    static struct platform_pair channels[FLOWS];
    static bool alone[FLOWS];
    static struct sender senders[FLOWS];
    struct error error = {0};
    for (size_t i = 0; i < count; i++)
        channels[i] = (struct platform_pair){demands[i].from, demands[i].to};
    struct machine *machine = machine_create(platform, channels, alone, count, &error);
    bool good = machine != NULL;
    for (size_t i = 0; good && i < count; i++) {
        senders[i] = (struct sender){machine, &demands[i], i, &told->finish_s[i]};
        good =
            machine_spawn(machine, demands[i].from, send_one, &senders[i], false, &error);
    }
    if (!good)
        fprintf(stderr, "\n%s\n", error.message);
    if (good)
        machine_run(machine);
    told->done = good;
}

/* Each simulation in a child of its own: SimGrid allows one a process. */
static struct told *run_flows(struct platform *platform, const struct demand *demands,
                              size_t count)
{
    struct told *told =
        mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(told != MAP_FAILED);
    for (size_t i = 0; i < count; i++)
        told->finish_s[i] = NAN;
    fflush(NULL);
    pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        run_child(platform, demands, count, told);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CU_ASSERT_FATAL(status == 0 && told->done);
    return told;
}

/* The same by the definition. */
static void expect(struct platform *platform, const struct demand *demands, size_t count,
                   double *finish_s)
{
    static struct max_min_flow flows[FLOWS];
    struct error error = {0};
    size_t link_count = platform_link_count(platform);
    struct max_min_link *links = calloc(link_count + 1, sizeof *links);
    CU_ASSERT_FATAL(links != NULL);
    for (size_t i = 0; i < link_count; i++) {
        const struct link *link = platform_link(platform, i);
        links[i] = (struct max_min_link){link->bandwidth_bytes_per_s,
                                         link->sharing == LINK_FATPIPE};
    }
    for (size_t i = 0; i < count; i++) {
        struct route route;
        CU_ASSERT_FATAL(
            platform_route(platform, demands[i].from, demands[i].to, &route, &error));
        flows[i] = (struct max_min_flow){.links = route.links,
                                         .link_count = route.link_count,
                                         .start_s = demands[i].start_s,
                                         .latency_s = route.latency_s + demands[i].extra_s,
                                         .bytes = (double)demands[i].bytes};
    }
    CU_ASSERT_FATAL(max_min_finish(links, link_count, flows, count));
    for (size_t i = 0; i < count; i++)
        finish_s[i] = flows[i].finish_s;
    free(links);
}

static double worst_off; /* relative, over all flows compared */
static size_t compared, shared;

static void compare(struct platform *platform, const struct demand *demands, size_t count)
{
    static double expected_s[FLOWS];
    expect(platform, demands, count, expected_s);
    struct told *told = run_flows(platform, demands, count);
    for (size_t i = 0; i < count; i++) {
        struct route route;
        struct error error = {0};
        double off = fabs(told->finish_s[i] - expected_s[i]) / expected_s[i];
        if (expected_s[i] == 0)
            off = told->finish_s[i] == 0 ? 0 : INFINITY;
        CU_ASSERT(off <= 1e-9);
        worst_off = fmax(worst_off, off);
        compared++;
        CU_ASSERT_FATAL(
            platform_route(platform, demands[i].from, demands[i].to, &route, &error));
        double alone_s = demands[i].start_s + route.latency_s + demands[i].extra_s +
                         (double)demands[i].bytes / route.bandwidth_bytes_per_s;
        shared += expected_s[i] > alone_s * (1 + 1e-6);
        CU_ASSERT(told->finish_s[i] >= alone_s * (1 - 1e-12));
    }
    munmap(told, sizeof *told);
}

static void append_link(struct text *text, const char *ends, size_t number)
{
    double latency_s = draw(0, 3) == 0 ? 0 : draw_real(1e-8, 1e-3);
    text_append(text, "%s{%s, 'name': 'l%zu', ", number > 0 ? ", " : "", ends, number);
    if (draw(0, 14) == 0)
        text_append(text, "'bandwidth_bytes_per_s': 'infinite', ");
    else
        text_append(text, "'bandwidth_bytes_per_s': %.17g, ",
                    draw(0, 3) == 0 ? 1e9 : draw_real(1e6, 1e11));
    text_append(text, "'latency_s': %.17g}", latency_s);
}

/* A random tree, so that all are joined, and further links of all kinds. */
static struct platform *draw_platform(size_t hosts)
{
    static const char *const kinds[] = {"duplex", "duplex", "fatpipe", "one_way"};
    struct text text = {0};
    char ends[160];
    size_t links = 0;
    text_append(&text, "{'kind': 'links', 'links': [");
    for (size_t i = 1; i < hosts; i++) {
        snprintf(ends, sizeof ends, "'sharing': '%s', 'from': %zu, 'to': %zu",
                 kinds[draw(0, 2)], (size_t)draw(0, i - 1), i);
        append_link(&text, ends, links++);
    }
    for (uint64_t more = draw(0, hosts); more > 0; more--) {
        size_t from = (size_t)draw(0, hosts - 1), to = (size_t)draw(0, hosts - 2);
        snprintf(ends, sizeof ends, "'sharing': '%s', 'from': %zu, 'to': %zu",
                 kinds[draw(0, 3)], from, to < from ? to : to + 1);
        append_link(&text, ends, links++);
    }
    for (uint64_t buses = draw(0, 4); buses > 0; buses--) {
        size_t first = (size_t)draw(0, hosts - 5);
        snprintf(ends, sizeof ends, "'sharing': 'bus', 'between': [%zu, %zu, %zu, %zu]",
                 first, first + 1, first + 3, first + 4);
        append_link(&text, ends, links++);
    }
    text_append(&text, "]}");
    struct platform *platform = sample(hosts, text_string(&text));
    text_free(&text);
    return platform;
}

static void draw_demands(struct demand *demands, size_t count, size_t hosts)
{
    double spread_s = draw(0, 2) == 0 ? 0 : draw_real(1e-6, 10);
    for (size_t i = 0; i < count; i++) {
        uint32_t from = (uint32_t)draw(0, hosts - 1), to = (uint32_t)draw(0, hosts - 2);
        demands[i] =
            (struct demand){.from = from,
                            .to = to < from ? to : to + 1,
                            .start_s = draw(0, 4) == 0 ? 0 : spread_s * draw_real(1e-3, 1),
                            .bytes = draw(0, 19) == 0 ? 0 : (uint64_t)draw_real(1, 1e11),
                            .extra_s = draw(0, 4) == 0 ? draw_real(1e-8, 1e-4) : 0};
        if (draw(0, 9) == 0 && i > 0) { /* just as another */
            demands[i].start_s = demands[i - 1].start_s;
            demands[i].bytes = demands[i - 1].bytes;
        }
    }
}

static void random_graphs(void)
{
    static struct demand demands[FLOWS];
    for (current_case = 0; current_case < 60; current_case++) {
        drawn = 0;
        size_t hosts = (size_t)draw(10, 60);
        size_t count =
            current_case % 4 == 0 ? (size_t)draw(1, FLOWS) : (size_t)draw(1, 120);
        unsigned failures = CU_get_number_of_failures();
        struct platform *platform = draw_platform(hosts);
        draw_demands(demands, count, hosts);
        compare(platform, demands, count);
        platform_free(platform);
        if (CU_get_number_of_failures() > failures)
            printf("\n  case %llu\n", (unsigned long long)current_case);
    }
    printf(" (%zu flows, %zu slowed by others, at most %.1e off) ", compared, shared,
           worst_off);
    CU_ASSERT(shared > compared / 4);
}

/* All flows at once over few links: every rate changes at every end. */
static void crowded(void)
{
    static struct demand demands[FLOWS];
    struct platform *platform = sample(
        10, "{'kind': 'ring', 'link': {'bandwidth_bytes_per_s': 1e9, 'latency_s': 1e-6}}");
    current_case = 1000;
    drawn = 0;
    draw_demands(demands, FLOWS, 10);
    for (size_t i = 0; i < FLOWS; i++)
        demands[i].start_s = 0;
    compare(platform, demands, FLOWS);
    platform_free(platform);
}

/* By hand: p0 and p1 both send to p2 over one link, p1 from afar. The latency delays a
 * flow and does not make its share smaller. */
static void latency_is_no_weight(void)
{
    struct platform *platform =
        sample(4, "{'kind': 'links', 'links': ["
                  "{'from': 0, 'to': 3, 'bandwidth_bytes_per_s': 1e12, 'latency_s': 0},"
                  "{'from': 1, 'to': 3, 'bandwidth_bytes_per_s': 1e12, 'latency_s': 0.5},"
                  "{'from': 3, 'to': 2, 'bandwidth_bytes_per_s': 100, 'latency_s': 0}]}");
    const struct demand demands[] = {{0, 2, 0, 100, 0}, {1, 2, 0, 100, 0}};
    struct told *told = run_flows(platform, demands, 2);
    /* Alone for half a second, then half of the link for a second; then the other alone. */
    CHECK_CLOSE(told->finish_s[0], 1.5, 1e-12);
    CHECK_CLOSE(told->finish_s[1], 2.0, 1e-12);
    munmap(told, sizeof *told);
    platform_free(platform);
}

/* The calculator itself, on the textbook's parking lot: the long flow passes both links. */
static void calculator(void)
{
    const struct max_min_link links[] = {{10, false}, {30, false}, {4, true}};
    const uint32_t both[] = {0, 1}, second[] = {1}, pipe[] = {1, 2};
    struct max_min_flow flows[] = {{both, 2, 0, 0, 50, 0},   /* 5, with another on link 0 */
                                   {both, 1, 0, 0, 50, 0},   /* 5 */
                                   {second, 1, 0, 0, 21, 0}, /* 30 - 5 - 4 = 21 */
                                   {pipe, 2, 0, 0, 8, 0}};   /* 4 */
    CU_ASSERT(max_min_finish(links, 3, flows, 4));
    CHECK_CLOSE(flows[0].finish_s, 10, 1e-14);
    CHECK_CLOSE(flows[1].finish_s, 10, 1e-14);
    CHECK_CLOSE(flows[2].finish_s, 1, 1e-14);
    CHECK_CLOSE(flows[3].finish_s, 2, 1e-14);
}

/* One at a time, far enough apart; up to a terabyte, over one link to five. */
static void unloaded(void)
{
    static const uint64_t sizes[] = {0,       1,          2,           999,
                                     65536,   1000003,    1u << 31,    4294967295u,
                                     1 << 20, 4294967296, 99999999999, 1000000000000};
    enum { SIZES = sizeof sizes / sizeof sizes[0], HOPS = 5 };
    struct platform *platform = sample(
        HOPS + 1,
        "{'kind': 'links', 'links': ["
        "{'from': 0, 'to': 1, 'bandwidth_bytes_per_s': 8e10, 'latency_s': 2e-7},"
        "{'from': 1, 'to': 2, 'bandwidth_bytes_per_s': 25e9, 'latency_s': 0},"
        "{'from': 2, 'to': 3, 'bandwidth_bytes_per_s': 3e11, 'latency_s': 1e-3},"
        "{'from': 3, 'to': 4, 'bandwidth_bytes_per_s': 'infinite', 'latency_s': 1.5e-6},"
        "{'from': 4, 'to': 5, 'bandwidth_bytes_per_s': 1e3, 'latency_s': 1e-9}]}");
    static struct demand demands[SIZES];
    static struct told all;
    for (uint32_t to = 1; to <= HOPS; to++) {
        for (size_t i = 0; i < SIZES; i++) {
            struct route route;
            struct error error = {0};
            demands[i] = (struct demand){0, to, 0, sizes[i], 0};
            CU_ASSERT_FATAL(platform_route(platform, 0, to, &route, &error));
            struct told *told = run_flows(platform, &demands[i], 1);
            double expected_s =
                route.latency_s + (double)sizes[i] / route.bandwidth_bytes_per_s;
            CHECK_CLOSE(told->finish_s[0], expected_s, 1e-12);
            all.finish_s[i] = told->finish_s[0];
            munmap(told, sizeof *told);
        }
        CU_ASSERT_EQUAL(demands[SIZES - 1].bytes, 1000000000000u);
        CU_ASSERT(all.finish_s[SIZES - 1] > all.finish_s[0]);
    }
    platform_free(platform);
}

static const struct check checks[] = {
    {"the calculator, by hand", calculator},
    {"a latency delays a flow, its share is the same", latency_is_no_weight},
    {"unloaded: L + S/B from nothing to a terabyte", unloaded},
    {"random graphs: plain max-min to 1e-9", random_graphs},
    {"500 flows at once on a ring of 10", crowded},
};

CHECK_MAIN("sharing", checks)
