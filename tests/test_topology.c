/* Routes, hops and bisections of every topology against their closed forms. */
#include "sim/topology.h"
#include "tests/platform_sample.h"

#include <stdlib.h>

#define LINK "{'bandwidth_bytes_per_s': 100, 'latency_s': 1}"

static struct route route_of(struct platform *platform, size_t from, size_t to)
{
    struct route route = {0};
    struct error error = {0};
    bool found = platform_route(platform, from, to, &route, &error);
    if (!found)
        fprintf(stderr, "\n%s\n", error.message);
    CU_ASSERT_TRUE_FATAL(found);
    return route;
}

static size_t hops(struct platform *platform, size_t from, size_t to)
{
    return route_of(platform, from, to).link_count;
}

/* The links' names joined by blanks. */
static void check_names(struct platform *platform, size_t from, size_t to,
                        const char *expected)
{
    struct route route = route_of(platform, from, to);
    struct text text = {0};
    for (size_t i = 0; i < route.link_count; i++)
        text_append(&text, "%s%s", i > 0 ? " " : "",
                    platform_link(platform, route.links[i])->name);
    CU_ASSERT_STRING_EQUAL(text_string(&text), expected);
    text_free(&text);
}

static double bisection(struct platform *platform)
{
    double value = -1;
    struct error error = {0};
    CU_ASSERT_TRUE(platform_bisection(platform, &value, &error));
    return value;
}

/* Every route has the sum of its links' latencies and their smallest bandwidth, and uses no
 * link twice; asking again gives the same. Hops as `expected` says. */
static void check_all(struct platform *platform,
                      size_t (*expected)(size_t from, size_t to, size_t count))
{
    size_t count = platform_processor_count(platform);
    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < count; to++) {
            struct route route = route_of(platform, from, to);
            double latency = 0, bandwidth = INFINITY;
            for (size_t i = 0; i < route.link_count; i++) {
                const struct link *link = platform_link(platform, route.links[i]);
                latency += link->latency_s;
                bandwidth = fmin(bandwidth, link->bandwidth_bytes_per_s);
                for (size_t j = 0; j < i; j++)
                    CU_ASSERT_NOT_EQUAL(route.links[i], route.links[j]);
            }
            CU_ASSERT_EQUAL(route.latency_s, latency);
            CU_ASSERT_TRUE(route.bandwidth_bytes_per_s >= bandwidth &&
                           route.bandwidth_bytes_per_s <= bandwidth);
            CU_ASSERT_EQUAL(route.link_count, expected(from, to, count));
            CU_ASSERT_PTR_EQUAL(route_of(platform, from, to).links, route.links);
        }
}

static size_t distance(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

static size_t around(size_t a, size_t b, size_t count)
{
    size_t apart = distance(a, b);
    return apart < count - apart ? apart : count - apart;
}

static size_t line_hops(size_t from, size_t to, size_t count)
{
    (void)count;
    return distance(from, to);
}

static size_t ring_hops(size_t from, size_t to, size_t count)
{
    return around(from, to, count);
}

static void test_line_and_ring(void)
{
    static const size_t counts[] = {1, 2, 3, 5, 7, 8};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size_t n = counts[i];
        struct platform *line = sample(n, "{'kind': 'line', 'link': " LINK "}");
        CU_ASSERT_EQUAL(platform_link_count(line), 2 * (n - 1));
        check_all(line, line_hops);
        if (n > 1)
            CU_ASSERT_EQUAL(bisection(line), 100);
        platform_free(line);
        struct platform *ring = sample(n, "{'kind': 'ring', 'link': " LINK "}");
        CU_ASSERT_EQUAL(platform_link_count(ring), n > 2 ? 2 * n : 2 * (n - 1));
        check_all(ring, ring_hops);
        if (n > 2)
            CU_ASSERT_EQUAL(bisection(ring), 200);
        platform_free(ring);
    }
}

static void test_one_processor_is_free(void)
{
    struct platform *platform = sample(1, "{'kind': 'line', 'link': " LINK "}");
    struct route route = route_of(platform, 0, 0);
    CU_ASSERT_EQUAL(route.link_count, 0);
    CU_ASSERT_EQUAL(route.latency_s, 0);
    CU_ASSERT_TRUE(isinf(route.bandwidth_bytes_per_s));
    CU_ASSERT_TRUE(isinf(bisection(platform)));
    platform_free(platform);
}

static size_t mesh_hops(size_t from, size_t to, size_t count)
{
    (void)count; /* 3 x 4 x 2 */
    return distance(from / 8, to / 8) + distance(from / 2 % 4, to / 2 % 4) +
           distance(from % 2, to % 2);
}

static size_t torus_hops(size_t from, size_t to, size_t count)
{
    (void)count;
    return around(from / 8, to / 8, 3) + around(from / 2 % 4, to / 2 % 4, 4) +
           around(from % 2, to % 2, 2);
}

static void test_grids(void)
{
    struct platform *mesh =
        sample(24, "{'kind': 'mesh', 'dimensions': [3, 4, 2], 'link': " LINK "}");
    check_all(mesh, mesh_hops);
    CU_ASSERT_EQUAL(platform_link_count(mesh), 2 * (2 * 8 + 3 * 6 + 1 * 12));
    CU_ASSERT_EQUAL(bisection(mesh), 100 * 3 * 2);
    check_names(mesh, 0, 23, "p0->p8 p8->p16 p16->p18 p18->p20 p20->p22 p22->p23");
    platform_free(mesh);
    struct platform *torus =
        sample(24, "{'kind': 'torus', 'dimensions': [3, 4, 2], 'link': " LINK "}");
    check_all(torus, torus_hops);
    /* An extent of 2 has one link, not two. */
    CU_ASSERT_EQUAL(platform_link_count(torus), 2 * (3 * 8 + 4 * 6 + 1 * 12));
    CU_ASSERT_EQUAL(bisection(torus), 100 * 12);
    check_names(torus, 0, 23, "p0->p16 p16->p22 p22->p23");
    platform_free(torus);
}

static void test_links_by_dimension(void)
{
    struct platform *mesh = sample(
        6, "{'kind': 'mesh', 'dimensions': [2, 3], 'links': ["
           "{'bandwidth_bytes_per_s': 10, 'latency_s': 2, 'count': 3, 'efficiency': 0.5},"
           "{'bandwidth_bytes_per_s': 7, 'latency_s': 1}]}");
    CU_ASSERT_EQUAL(route_of(mesh, 0, 3).bandwidth_bytes_per_s, 15);
    CU_ASSERT_EQUAL(route_of(mesh, 0, 5).bandwidth_bytes_per_s, 7);
    CU_ASSERT_EQUAL(route_of(mesh, 0, 5).latency_s, 4);
    CU_ASSERT_EQUAL(bisection(mesh), 45);
    platform_free(mesh);
}

static size_t full_hops(size_t from, size_t to, size_t count)
{
    (void)count;
    return from != to;
}

static void test_full(void)
{
    for (size_t n = 1; n <= 8; n++) {
        struct platform *full = sample(n, "{'kind': 'full', 'link': " LINK "}");
        CU_ASSERT_EQUAL(platform_link_count(full), n * (n - 1));
        check_all(full, full_hops);
        if (n > 1)
            CU_ASSERT_EQUAL(bisection(full), 100.0 * (double)(n / 2 * ((n + 1) / 2)));
        platform_free(full);
    }
}

static size_t ladder_hops(size_t from, size_t to, size_t count)
{
    (void)count;
    return distance(from / 2, to / 2) + distance(from % 2, to % 2);
}

static size_t wrapped_hops(size_t from, size_t to, size_t count)
{
    return around(from / 2, to / 2, count / 2) + distance(from % 2, to % 2);
}

#define LADDER                                                                             \
    "{'kind': 'ladder', 'rung': {'bandwidth_bytes_per_s': 60, 'latency_s': 1}, "           \
    "'rail': {'bandwidth_bytes_per_s': 20, 'latency_s': 1}"

static void test_ladder(void)
{
    for (size_t n = 1; n <= 9; n++) {
        struct platform *ladder = sample(n, LADDER "}");
        check_all(ladder, ladder_hops);
        CU_ASSERT_EQUAL(platform_link_count(ladder), 2 * (n / 2 + (n > 2 ? n - 2 : 0)));
        platform_free(ladder);
    }
    struct platform *ladder = sample(8, LADDER "}");
    CU_ASSERT_EQUAL(bisection(ladder), 40);
    check_names(ladder, 0, 5, "p0->p1 p1->p3 p3->p5");
    platform_free(ladder);
    /* A lone last processor goes along its rail first. */
    ladder = sample(5, LADDER "}");
    check_names(ladder, 4, 1, "p4->p2 p2->p0 p0->p1");
    check_names(ladder, 1, 4, "p1->p0 p0->p2 p2->p4");
    platform_free(ladder);
    for (size_t n = 2; n <= 12; n += 2) {
        ladder = sample(n, LADDER ", 'wrap': true}");
        check_all(ladder, wrapped_hops);
        /* With an odd number of rungs a half ends in the middle of one. */
        if (n > 4)
            CU_ASSERT_EQUAL(bisection(ladder), n % 4 == 0 ? 80 : 140);
        platform_free(ladder);
    }
}

static size_t switch_hops(size_t from, size_t to, size_t count)
{
    (void)count;
    return from == to ? 0 : 2;
}

static size_t backplane_hops(size_t from, size_t to, size_t count)
{
    (void)count;
    return from == to ? 0 : 3;
}

static void test_switch(void)
{
    struct platform *star = sample(7, "{'kind': 'switch', 'link': " LINK "}");
    check_all(star, switch_hops);
    CU_ASSERT_EQUAL(bisection(star), 300);
    check_names(star, 6, 2, "p6->switch switch->p2");
    platform_free(star);
    star = sample(7, "{'kind': 'switch', 'link': " LINK ", 'backplane_bytes_per_s': 130}");
    check_all(star, backplane_hops);
    CU_ASSERT_EQUAL(bisection(star), 130);
    CU_ASSERT_EQUAL(route_of(star, 0, 1).bandwidth_bytes_per_s, 100);
    CU_ASSERT_EQUAL(route_of(star, 0, 1).latency_s, 2);
    platform_free(star);
    star =
        sample(3, "{'kind': 'switch', 'link': {'bandwidth_bytes_per_s': 8, 'latency_s': 1,"
                  "'reverse_bandwidth_bytes_per_s': 5, 'reverse_latency_s': 3}}");
    CU_ASSERT_EQUAL(route_of(star, 0, 1).bandwidth_bytes_per_s, 5);
    CU_ASSERT_EQUAL(route_of(star, 0, 1).latency_s, 4);
    platform_free(star);
}

static size_t tree_hops(size_t from, size_t to, size_t count)
{
    (void)count; /* 4 below a switch, 3 such, 2 of those */
    if (from == to)
        return 0;
    return from / 4 == to / 4 ? 2 : from / 12 == to / 12 ? 4 : 6;
}

static void test_fat_tree(void)
{
    struct platform *tree = sample(
        24, "{'kind': 'fat_tree', 'down': [4, 3, 2], 'up': [1, 2, 3], 'link': " LINK "}");
    check_all(tree, tree_hops);
    CU_ASSERT_EQUAL(platform_link_count(tree), 2 * (24 + 6 * 2 + 2 * 2 * 3));
    /* Between the halves: two roots of level 2 with three parents each. */
    CU_ASSERT_EQUAL(bisection(tree), 600);
    platform_free(tree);
    /* Full bisection; the destination alone chooses the root, and all roots are used. */
    tree =
        sample(16, "{'kind': 'fat_tree', 'down': [4, 4], 'up': [1, 4], 'link': " LINK "}");
    CU_ASSERT_EQUAL(bisection(tree), 800);
    for (size_t to = 4; to < 8; to++) {
        char expected[80];
        size_t root = to % 4;
        snprintf(expected, sizeof(expected),
                 "p0->level1.0 level1.0->level2.%zu level2.%zu->level1.1 level1.1->p%zu",
                 root, root, to);
        check_names(tree, 0, to, expected);
        CU_ASSERT_EQUAL(route_of(tree, 0, to).links[2], route_of(tree, 12, to).links[2]);
    }
    platform_free(tree);
}

/* At most: terminal, local, global, local, terminal; exactly 2 on a router. */
static void check_dragonfly(struct platform *fly, size_t per_router, size_t per_group)
{
    size_t count = platform_processor_count(fly);
    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < count; to++) {
            size_t found = hops(fly, from, to), low = 3, high = 5;
            if (from == to)
                low = high = 0;
            else if (from / per_router == to / per_router)
                low = high = 2;
            else if (from / per_group == to / per_group)
                low = high = 3;
            CU_ASSERT_TRUE(found >= low && found <= high);
            size_t global = 0;
            struct route route = route_of(fly, from, to);
            for (size_t i = 0; i < route.link_count; i++)
                global += platform_link(fly, route.links[i])->latency_s > 5;
            CU_ASSERT_EQUAL(global, from / per_group != to / per_group);
        }
}

#define DRAGONFLY                                                                          \
    "'terminal': " LINK ", 'local': " LINK                                                 \
    ", 'global': {'bandwidth_bytes_per_s': 50, 'latency_s': 10}}"

static void test_dragonfly(void)
{
    struct platform *fly = sample(40, "{'kind': 'dragonfly', 'groups': 5, 'routers': 4, "
                                      "'processors_per_router': 2, " DRAGONFLY);
    CU_ASSERT_EQUAL(platform_link_count(fly), 2 * (40 + 5 * 6 + 10));
    check_dragonfly(fly, 2, 8);
    platform_free(fly);
    fly = sample(24, "{'kind': 'dragonfly', 'groups': 4, 'routers': 3, "
                     "'processors_per_router': 2, 'links_between_groups': 2, " DRAGONFLY);
    CU_ASSERT_EQUAL(platform_link_count(fly), 2 * (24 + 4 * 3 + 2 * 6));
    check_dragonfly(fly, 2, 6);
    CU_ASSERT_EQUAL(bisection(fly), 50 * 2 * 4);
    platform_free(fly);
    fly = sample(1, "{'kind': 'dragonfly', 'groups': 1, 'routers': 1, "
                    "'processors_per_router': 1, " DRAGONFLY);
    check_dragonfly(fly, 1, 1);
    platform_free(fly);
}

static void test_hierarchical(void)
{
    struct platform *platform = sample(
        12, "{'kind': 'hierarchical', 'nodes': 3, 'inside': {'kind': 'ring', 'link': "
            "{'bandwidth_bytes_per_s': 100, 'latency_s': 1}}, 'across': {'kind': "
            "'line', 'link': {'bandwidth_bytes_per_s': 10, 'latency_s': 5}}}");
    CU_ASSERT_EQUAL(hops(platform, 0, 2), 2);
    check_names(platform, 5, 11, "node1.port0->node2.port0");
    check_names(platform, 0, 9, "node0.port0->node1.port0 node1.port0->node2.port0");
    platform_free(platform);
    /* One network over all cards; each card serves two processors over a link. */
    platform = sample(8, "{'kind': 'hierarchical', 'nodes': 2, 'ports': 2, 'port': " LINK
                         ", 'inside': {'kind': 'full', 'link': " LINK
                         "}, 'across': {'kind': 'switch', 'link': " LINK "}}");
    check_names(platform, 1, 7,
                "p1->node0.port0 node0.port0->across.switch across.switch->node1.port1 "
                "node1.port1->p7");
    CU_ASSERT_EQUAL(bisection(platform), 200);
    platform_free(platform);
    /* Rails: the message changes card inside the sender's node. */
    platform = sample(8, "{'kind': 'hierarchical', 'nodes': 2, 'ports': 2, 'rails': true, "
                         "'inside': {'kind': 'full', 'link': " LINK
                         "}, 'across': {'kind': 'switch', 'link': " LINK "}}");
    check_names(platform, 1, 7,
                "p1->p3 node0.port1->rail1.switch rail1.switch->node1.port1");
    check_names(platform, 7, 2, "node1.port1->rail1.switch rail1.switch->node0.port1");
    platform_free(platform);
}

static void test_nested_hierarchies(void)
{
    struct platform *platform = sample(
        16,
        "{'kind': 'hierarchical', 'nodes': 2, 'inside': {'kind': 'hierarchical', 'nodes':"
        " 2, 'inside': {'kind': 'torus', 'dimensions': [2, 2], 'link': " LINK
        "}, 'across': {'kind': 'switch', 'link': " LINK
        "}}, 'across': {'kind': 'ring', 'link': " LINK "}}");
    CU_ASSERT_EQUAL(hops(platform, 0, 3), 2);
    CU_ASSERT_EQUAL(hops(platform, 0, 5), 2);
    CU_ASSERT_EQUAL(hops(platform, 0, 15), 1);
    check_names(
        platform, 8, 12,
        "node1.node0.port0->node1.across.switch node1.across.switch->node1.node1.port0");
    CU_ASSERT_EQUAL(bisection(platform), 100);
    platform_free(platform);
}

#define PAIR(a, b, n)                                                                      \
    "{'from': " #a ", 'to': " #b ", 'count': " #n                                          \
    ", 'bandwidth_bytes_per_s': 25, 'latency_s': 1}"
#define CUBE_MESH                                                                                                                  \
    "{'kind': 'links', 'links': [" PAIR(0, 1, 1) "," PAIR(0, 2, 1) "," PAIR(0, 3, 2) "," PAIR(0, 4, 2) "," PAIR(1, 2, 2) "," PAIR( \
        1, 3,                                                                                                                      \
        1) "," PAIR(1, 5,                                                                                                          \
                    2) "," PAIR(2, 3,                                                                                              \
                                2) "," PAIR(2, 6,                                                                                  \
                                            1) "," PAIR(3, 7,                                                                      \
                                                        1) "," PAIR(4, 5,                                                          \
                                                                    1) "," PAIR(4, 6,                                              \
                                                                                1) "," PAIR(4,                                     \
                                                                                            7,                                     \
                                                                                            2) "," PAIR(5,                         \
                                                                                                        6,                         \
                                                                                                        2) "," PAIR(5,             \
                                                                                                                    7,             \
                                                                                                                    1) "," PAIR(6, \
                                                                                                                                7, \
                                                                                                                                2) "]}"

static void test_cube_mesh(void)
{
    struct platform *platform = sample(8, CUBE_MESH);
    CU_ASSERT_EQUAL(platform_link_count(platform), 32);
    CU_ASSERT_EQUAL(route_of(platform, 0, 3).bandwidth_bytes_per_s, 50);
    CU_ASSERT_EQUAL(route_of(platform, 3, 7).bandwidth_bytes_per_s, 25);
    for (size_t from = 0; from < 8; from++)
        for (size_t to = 0; to < 8; to++)
            CU_ASSERT_TRUE(hops(platform, from, to) <= 2);
    /* Of two ways of two links the wider: 0 -> 3 -> 2 has its link of its own. */
    check_names(platform, 0, 7, "p0->p4 p4->p7");
    CU_ASSERT_EQUAL(bisection(platform), 25 * 6);
    platform_free(platform);
}

static void test_wider_way_wins(void)
{
    struct platform *platform =
        sample(4, "{'kind': 'links', 'links': ["
                  "{'from': 0, 'to': 1, 'bandwidth_bytes_per_s': 5, 'latency_s': 0},"
                  "{'from': 1, 'to': 3, 'bandwidth_bytes_per_s': 9, 'latency_s': 0},"
                  "{'from': 0, 'to': 2, 'bandwidth_bytes_per_s': 6, 'latency_s': 0},"
                  "{'from': 'p2', 'to': 'p3', 'bandwidth_bytes_per_s': 7, 'latency_s': 0,"
                  " 'reverse_bandwidth_bytes_per_s': 1}]}");
    check_names(platform, 0, 3, "p0->p2 p2->p3");
    check_names(platform, 3, 0, "p3->p1 p1->p0");
    platform_free(platform);
}

static void test_buses_and_switches(void)
{
    struct platform *platform = sample(
        5, "{'kind': 'links', 'switches': ['hub'], 'links': ["
           "{'sharing': 'bus', 'name': 'pci', 'between': [0, 1, 2], "
           "'bandwidth_bytes_per_s': 16, 'latency_s': 1},"
           "{'from': 2, 'to': 'hub', 'bandwidth_bytes_per_s': 'infinite', 'latency_s': 0},"
           "{'from': 'hub', 'to': 3, 'bandwidth_bytes_per_s': 10, 'latency_s': 2, "
           "'sharing': 'fatpipe'},"
           "{'from': 'hub', 'to': 4, 'bandwidth_bytes_per_s': 3, 'latency_s': 2, "
           "'sharing': 'one_way'},"
           "{'from': 4, 'to': 0, 'bandwidth_bytes_per_s': 2, 'latency_s': 2, "
           "'sharing': 'one_way'}]}");
    check_names(platform, 0, 1, "pci");
    check_names(platform, 1, 2, "pci");
    check_names(platform, 1, 3, "pci p2->hub hub->p3");
    check_names(platform, 3, 4, "p3->hub hub->p4");
    check_names(platform, 4, 3, "p4->p0 pci p2->hub hub->p3");
    CU_ASSERT_EQUAL(route_of(platform, 0, 3).bandwidth_bytes_per_s, 10);
    CU_ASSERT_TRUE(isinf(platform_link(platform, 1)->bandwidth_bytes_per_s));
    CU_ASSERT_EQUAL(platform_link(platform, 3)->sharing, LINK_FATPIPE);
    CU_ASSERT_EQUAL(platform_link(platform, 5)->sharing, LINK_SHARED);
    /* Between 0, 1 and 2, 3, 4: the bus one way; 4 -> 0 and the bus the other. */
    CU_ASSERT_EQUAL(bisection(platform), 16);
    platform_free(platform);
}

static void test_equal_links_by_name(void)
{
    struct error error = {0};
    struct platform *platform = sample(
        2,
        "{'kind': 'links', 'links': ["
        "{'from': 0, 'to': 1, 'bandwidth_bytes_per_s': 1, 'latency_s': 0, 'name': 'a'},"
        "{'from': 0, 'to': 1, 'bandwidth_bytes_per_s': 2, 'latency_s': 0, 'name': 'b'}]}");
    check_names(platform, 0, 1, "b:p0->p1");
    CU_ASSERT_EQUAL(bisection(platform), 3);
    platform_free(platform);
    platform =
        sample_try(2,
                   "{'kind': 'links', 'links': ["
                   "{'from': 0, 'to': 1, 'bandwidth_bytes_per_s': 1, 'latency_s': 0},"
                   "{'from': 0, 'to': 1, 'bandwidth_bytes_per_s': 2, 'latency_s': 0}]}",
                   "", &error);
    CU_ASSERT_PTR_NULL(platform);
    CU_ASSERT_STRING_EQUAL(error.message, "test: two links are named \"p0->p1\"");
}

static void test_diameter(void)
{
    struct error error = {0};
    size_t links = 0;
    double latency_s = 0;
    bool sampled = true;
    struct platform *platform =
        sample(60, "{'kind': 'mesh', 'dimensions': [3, 4, 5], 'link': " LINK "}");
    CU_ASSERT_TRUE(platform_diameter(platform, &links, &latency_s, &sampled, &error));
    CU_ASSERT_EQUAL(links, 2 + 3 + 4);
    CU_ASSERT_EQUAL(latency_s, 9);
    CU_ASSERT_FALSE(sampled);
    platform_free(platform);
    platform = sample(1000, "{'kind': 'line', 'link': " LINK "}");
    CU_ASSERT_TRUE(platform_diameter(platform, &links, &latency_s, &sampled, &error));
    CU_ASSERT_EQUAL(links, 999);
    CU_ASSERT_TRUE(sampled);
    platform_free(platform);
}

/* The search of "links" finds as few links as the closed-form route of a torus. */
static void test_search_against_closed_form(void)
{
    struct text text = {0};
    text_append(&text, "{'kind': 'links', 'links': [");
    for (size_t i = 0; i < 30; i++)
        text_append(
            &text,
            "%s{'from': %zu, 'to': %zu, 'bandwidth_bytes_per_s': 1, 'latency_s': 0},"
            "{'from': %zu, 'to': %zu, 'bandwidth_bytes_per_s': 1, 'latency_s': 0}",
            i > 0 ? "," : "", i, (i + 6) % 30, i, i / 6 * 6 + (i + 1) % 6);
    text_append(&text, "]}");
    struct platform *searched = sample(30, text_string(&text));
    struct platform *torus =
        sample(30, "{'kind': 'torus', 'dimensions': [5, 6], 'link': " LINK "}");
    for (size_t from = 0; from < 30; from++)
        for (size_t to = 0; to < 30; to++)
            CU_ASSERT_EQUAL(hops(searched, from, to), hops(torus, from, to));
    platform_free(searched);
    platform_free(torus);
    text_free(&text);
}

static const struct check checks[] = {
    {"line and ring", test_line_and_ring},
    {"one processor is free", test_one_processor_is_free},
    {"mesh and torus", test_grids},
    {"links by dimension", test_links_by_dimension},
    {"full", test_full},
    {"ladder", test_ladder},
    {"switch", test_switch},
    {"fat tree", test_fat_tree},
    {"dragonfly", test_dragonfly},
    {"hierarchical", test_hierarchical},
    {"nested hierarchies", test_nested_hierarchies},
    {"DGX-1 cube mesh", test_cube_mesh},
    {"the wider way wins", test_wider_way_wins},
    {"buses and switches", test_buses_and_switches},
    {"parallel links by name", test_equal_links_by_name},
    {"diameter", test_diameter},
    {"search against closed form", test_search_against_closed_form},
};

CHECK_MAIN("topology", checks)
