/* Collectives: times and bytes in simulations against closed forms. */
#include "tests/collective_run.h"

enum { MAX_RANKS = 40 };

static const struct text_link link_1g = {1e9, 3e-6};

static struct collective_outcome run(const char *algorithm, bool overlap, uint32_t ranks,
                                     uint64_t count)
{
    struct collective_case k = {.algorithm = algorithm,
                                .topology = "full",
                                .overlap = overlap,
                                .ranks = ranks,
                                .count = count,
                                .link = link_1g};
    return run_collective(&k);
}

static double seconds(double messages, double bytes)
{
    return messages * link_1g.latency_s + bytes / link_1g.bandwidth_bytes_per_s;
}

static void ring_closed_form(void)
{
    for (uint32_t n = 1; n <= 33; n++) {
        uint64_t count = n * UINT64_C(1000);
        double bytes = 4.0 * (double)count;
        struct collective_outcome o = run("ring", n % 2 == 0, n, count);
        CU_ASSERT(o.largest_sent == 2 * (n - 1) * UINT64_C(4000));
        CU_ASSERT(o.bytes == (uint64_t)n * o.largest_sent);
        CU_ASSERT(o.messages == (uint64_t)n * 2 * (n - 1));
        CHECK_CLOSE(o.time_s, seconds(2.0 * (n - 1), 2.0 * (n - 1) / n * bytes), 1e-9);
    }
}

/* The largest number of one bits in a number below n. */
static uint32_t tree_height(uint32_t n)
{
    uint32_t height = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ones = (uint32_t)__builtin_popcount(i);
        height = ones > height ? ones : height;
    }
    return height;
}

/* Messages on the longest chain of recursive doubling when nobody waits for his own
 * sends: place p of the core has in round k what came from place p ^ 2^k. Only the places
 * that were folded begin a message late. */
static double eager_doubling(uint32_t n)
{
    double at[MAX_RANKS] = {0}, longest = 0;
    uint32_t core = 1;
    for (; core <= n / 2; core *= 2)
        continue;
    for (uint32_t p = 0; p < n - core; p++)
        at[p] = 1;
    for (uint32_t bit = 1; bit < core; bit *= 2) {
        double before[MAX_RANKS];
        memcpy(before, at, sizeof at);
        for (uint32_t p = 0; p < core; p++)
            at[p] = fmax(before[p], before[p ^ bit] + 1);
    }
    for (uint32_t p = 0; p < core; p++)
        longest = fmax(longest, at[p] + (p < n - core));
    return longest;
}

static void logarithmic_closed_forms(void)
{
    for (uint32_t n = 1; n <= 32; n++) {
        bool even = (n & (n - 1)) == 0;
        double levels = floor(log2(n)), core = pow(2, levels), folds = even ? 0 : 2;
        uint64_t count = (uint64_t)core * 1024;
        double bytes = 4.0 * (double)count;
        double reduced = 2 * (core - 1) / core * bytes;
        CHECK_CLOSE(run("recursive_doubling", false, n, count).time_s,
                    seconds(levels + folds, (levels + folds) * bytes), 1e-9);
        double eager = eager_doubling(n);
        CHECK_CLOSE(run("recursive_doubling", true, n, count).time_s,
                    seconds(eager, eager * bytes), 1e-9);
        CHECK_CLOSE(run("halving_doubling_folded", false, n, count).time_s,
                    seconds(2 * levels + folds, reduced + folds * bytes), 1e-9);
        double height = 2.0 * tree_height(n);
        CHECK_CLOSE(run("tree", true, n, count).time_s, seconds(height, height * bytes),
                    1e-9);
        if (even) {
            struct collective_outcome o = run("halving_doubling", true, n, count);
            CHECK_CLOSE(o.time_s, seconds(2 * levels, reduced), 1e-9);
            CHECK_CLOSE(run("tree", false, n, count).time_s, /* sends follow each other */
                        seconds(2 * levels, 2 * levels * bytes), 1e-9);
            CU_ASSERT(o.bytes == 2 * (n - 1) * UINT64_C(4) * count);
        }
    }
}

/* Without a power of two a rank may have to take in twice what it would; folding costs
 * two transfers of everything. */
static void halving_beats_folding(void)
{
    static const uint32_t ranks[] = {3, 5, 6, 7, 9, 12, 15, 24, 33};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        uint32_t n = ranks[i];
        uint64_t count = 720720;
        double halving = run("halving_doubling", true, n, count).time_s;
        double folded = run("halving_doubling_folded", true, n, count).time_s;
        double ring = run("ring", true, n, count).time_s;
        CU_ASSERT(halving < folded);
        CU_ASSERT(halving > ring - seconds(2.0 * n, 0));
    }
}

static void hierarchical_closed_form(void)
{
    for (uint32_t groups = 1; groups <= 4; groups++)
        for (uint32_t group = 1; group <= 5; group++) {
            uint32_t n = groups * group;
            uint64_t count = n * UINT64_C(840);
            double bytes = 4.0 * (double)count;
            struct collective_case k = {.algorithm = "hierarchical",
                                        .topology = "full",
                                        .ranks = n,
                                        .group = group,
                                        .count = count,
                                        .link = link_1g};
            struct collective_outcome o = run_collective(&k);
            CHECK_CLOSE(
                o.time_s,
                seconds(2.0 * (group - 1) + 2.0 * (groups - 1),
                        2.0 * (group - 1) / group * bytes + 2.0 * (groups - 1) / n * bytes),
                1e-9);
            CU_ASSERT(o.bytes == 2 * (n - 1) * UINT64_C(4) * count);
        }
}

/* On a duplex ring each direction carries half. */
static void two_rings(void)
{
    for (uint32_t n = 2; n <= 9; n++) {
        struct collective_case k = {.algorithm = "multi_ring",
                                    .topology = "ring",
                                    .overlap = true,
                                    .ranks = n,
                                    .count = n * UINT64_C(2000),
                                    .link = {1e9, 0}};
        double bytes = 4.0 * (double)k.count, ring = 2.0 * (n - 1) / n * bytes;
        double both = run_collective(&k).time_s;
        k.algorithm = "ring";
        CHECK_CLOSE(run_collective(&k).time_s, ring / 1e9, 1e-9);
        /* Two ranks have one link each way, which both rings use. */
        CHECK_CLOSE(both, ring / (n == 2 ? 1e9 : 2e9), 1e-9);
    }
}

/* Rings that go the same way are beside each other: they share the links, and each has but
 * its own latencies. */
static void rings_beside_each_other(void)
{
    for (uint32_t n = 2; n <= 6; n++)
        for (uint32_t rings = 1; rings <= 6; rings++) {
            uint32_t orders[6 * 6];
            for (uint32_t i = 0; i < rings * n; i++)
                orders[i] = i % n;
            struct collective_case k = {.algorithm = "multi_ring",
                                        .topology = "full",
                                        .overlap = true,
                                        .ranks = n,
                                        .count = rings * n * UINT64_C(1000),
                                        .link = link_1g,
                                        .rings = orders,
                                        .ring_count = rings};
            double bytes = 4.0 * (double)k.count;
            struct collective_outcome o = run_collective(&k);
            CHECK_CLOSE(o.time_s, seconds(2.0 * (n - 1), 2.0 * (n - 1) / n * bytes), 1e-9);
            CU_ASSERT(o.bytes == 2 * (n - 1) * 4 * k.count);
        }
}

static void goals(void)
{
    for (uint32_t n = 1; n <= 17; n += n < 5 ? 1 : 3)
        for (int goal = GOAL_REDUCE_SCATTER; goal <= GOAL_ALL_GATHER; goal++) {
            struct collective_case k = {.algorithm = "ring",
                                        .topology = "full",
                                        .ranks = n,
                                        .count = n * UINT64_C(100),
                                        .goal = (enum collective_goal)goal,
                                        .link = link_1g};
            struct collective_outcome o = run_collective(&k);
            CHECK_CLOSE(o.time_s, seconds(n - 1.0, (n - 1.0) * 400), 1e-9);
            k.algorithm = "halving_doubling";
            k.overlap = true;
            o = run_collective(&k);
            CU_ASSERT(o.bytes == (n - 1) * 4 * k.count);
            if ((n & (n - 1)) == 0)
                CHECK_CLOSE(o.time_s, seconds(log2(n), (n - 1.0) * 400), 1e-9);
        }
}

/* Where a collective is worked out instead of simulated, the times and bytes are those of
 * its messages. */
static void worked_out_or_simulated(void)
{
    static const char *const topologies[] = {"full", "ring", "switch"};
    for (size_t a = 0; a < collective_algorithm_count(); a++)
        for (uint32_t n = 2; n <= 9; n = 2 * n - 1)
            for (uint32_t i = 0; i < 3; i++) {
                struct collective_case k = {.algorithm = collective_algorithm_get(a)->name,
                                            .topology = topologies[i],
                                            .overlap = (a + n + i) % 2 == 0,
                                            .ranks = n,
                                            .group = 3,
                                            .count = 1000 * n + i,
                                            .link = link_1g};
                struct collective_outcome automatic = run_collective(&k);
                k.fidelity = "message";
                struct collective_outcome simulated = run_collective(&k);
                CHECK_CLOSE(automatic.time_s, simulated.time_s, 1e-9);
                CU_ASSERT(automatic.bytes == simulated.bytes);
                CU_ASSERT(automatic.messages == simulated.messages);
            }
}

/* Nothing to send: latencies alone. A small array is not sent in empty pieces for less. */
static void nothing_and_little(void)
{
    CHECK_CLOSE(run("ring", false, 5, 0).time_s, seconds(8, 0), 1e-9);
    CHECK_CLOSE(run("ring", false, 5, 1).time_s, seconds(8, 32), 1e-9);
    CHECK_CLOSE(run("tree", true, 8, 0).time_s, seconds(6, 0), 1e-9);
    CU_ASSERT(run("ring", false, 1, 12345).messages == 0);
    CU_ASSERT(run("ring", false, 5, 3).bytes == 2 * 4 * 3 * 4);
}

static void beyond_32_bits(void)
{
    uint64_t count = (UINT64_C(1) << 33) + 2;
    struct collective_outcome o = run("ring", true, 2, count);
    CU_ASSERT(o.bytes == 4 * count * 2);
    CHECK_CLOSE(o.time_s, seconds(2, 4.0 * (double)count), 1e-9);
}

/* A message of more than 2^64 bytes is refused, by name, and nothing is left behind. */
static void too_large(void)
{
    struct error error = {0};
    struct plan *plan = plan_create("large", "collective", &error);
    const struct part part = {.processor = 0};
    uint32_t index, parts[] = {0, 1};
    CU_ASSERT(plan_add_part(plan, &part, &index, &error) &&
              plan_add_part(plan, &part, &index, &error));
    struct collective c = {.algorithm = collective_algorithm_find("tree"),
                           .count = UINT64_C(1) << 62,
                           .parts = parts,
                           .ranks = 2};
    CU_ASSERT_FALSE(plan_add_collective(plan, &c, &index, &error));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "2^64 bytes"));
    plan_free(plan);
}

static const struct check checks[] = {
    {"ring: bytes and time", ring_closed_form},
    {"recursive doubling, halving, tree: time", logarithmic_closed_forms},
    {"halving for any number of ranks beats folding", halving_beats_folding},
    {"hierarchical: time", hierarchical_closed_form},
    {"two rings on a duplex ring", two_rings},
    {"rings beside each other", rings_beside_each_other},
    {"reduce-scatter and all-gather", goals},
    {"worked out or simulated", worked_out_or_simulated},
    {"arrays of nothing and of one scalar", nothing_and_little},
    {"more than 4 GiB", beyond_32_bits},
    {"messages beyond 2^64 bytes", too_large},
};

CHECK_MAIN("collectives", checks)
