/* Collectives: their moves walked without a clock, rank by rank with real arrays and
 * queues; and their times and bytes in simulations against closed forms. */
#include "base/random.h"
#include "tests/collective_run.h"

#include <limits.h>

enum { MAX_RANKS = 40 };

struct draws {
    struct random_key key;
    uint64_t next;
};

static struct draws draws_from(uint64_t seed, uint32_t a)
{
    return (struct draws){.key = {.seed = seed, .purpose = RANDOM_TEST, .a = a}};
}

static uint64_t draw_below(struct draws *draws, uint64_t limit)
{
    return random_u64(draws->key, draws->next++) % limit;
}

static double draw_normal(struct draws *draws)
{
    return random_normal(draws->key, draws->next++);
}

/* ---- moves alone ---- */

struct parcel {
    float *scalars;
    uint64_t first, count;
    struct parcel *next;
};

struct walk {
    const struct collective *c;
    float **arrays; /* NULL: only counts */
    struct parcel **queues;
    uint64_t *round;
    bool *sent;
    uint64_t *sent_scalars;
};

static struct parcel **queue_of(struct walk *w, uint32_t lane, uint32_t from, uint32_t to)
{
    if (lane >= w->c->lanes)
        CU_FAIL_FATAL("a lane that is not there");
    return &w->queues[((size_t)lane * w->c->ranks + from) * w->c->ranks + to];
}

static bool put(struct walk *w, uint32_t rank, const struct collective_move *move)
{
    const struct collective *c = w->c;
    size_t waiting = 0;
    CU_ASSERT_FATAL(move->to < c->ranks && move->to != rank && move->send_count <= c->count &&
                    move->send_first <= c->count - move->send_count);
    struct parcel **end = queue_of(w, move->send_lane, rank, move->to);
    for (; *end != NULL; end = &(*end)->next)
        waiting++;
    if (waiting >= 2) /* as many as an edge holds */
        return false;
    struct parcel *parcel = calloc(1, sizeof *parcel);
    parcel->first = move->send_first;
    parcel->count = move->send_count;
    if (w->arrays != NULL) {
        parcel->scalars = malloc((size_t)parcel->count * sizeof(float) + 1);
        memcpy(parcel->scalars, w->arrays[rank] + parcel->first,
               (size_t)parcel->count * sizeof(float));
    }
    w->sent_scalars[rank] += parcel->count;
    *end = parcel;
    return true;
}

static bool take(struct walk *w, uint32_t rank, const struct collective_move *move)
{
    struct parcel **head = queue_of(w, move->receive_lane, move->from, rank), *parcel = *head;
    if (parcel == NULL)
        return false;
    /* What comes in is what its sender sent. */
    CU_ASSERT_FATAL(parcel->first == move->receive_first &&
                    parcel->count == move->receive_count);
    for (uint64_t i = 0; w->arrays != NULL && i < parcel->count; i++) {
        float *own = &w->arrays[rank][parcel->first + i];
        *own = move->reduces ? *own + parcel->scalars[i] : parcel->scalars[i];
    }
    *head = parcel->next;
    free(parcel->scalars);
    free(parcel);
    return true;
}

/* As far as the rank gets; whether it got anywhere. */
static bool advance(struct walk *w, uint32_t rank)
{
    uint64_t rounds = w->c->algorithm->rounds(w->c);
    bool moved = false;
    for (; w->round[rank] < rounds; w->round[rank]++, w->sent[rank] = false) {
        struct collective_move move = {0};
        w->c->algorithm->move(w->c, rank, w->round[rank], &move);
        if (move.sends && !w->sent[rank] && !put(w, rank, &move))
            return moved;
        moved = moved || (move.sends && !w->sent[rank]);
        w->sent[rank] = true;
        if (move.receives && !take(w, rank, &move))
            return moved;
        moved = true;
    }
    return moved;
}

/* Random order of the ranks: what comes out must not depend on it. */
static void walk(struct walk *w, uint64_t seed)
{
    uint32_t ranks = w->c->ranks;
    size_t pairs = collective_slots(w->c);
    w->queues = calloc(pairs, sizeof(struct parcel *));
    w->round = calloc(ranks, sizeof *w->round);
    w->sent = calloc(ranks, sizeof *w->sent);
    memset(w->sent_scalars, 0, ranks * sizeof *w->sent_scalars);
    struct draws random = draws_from(seed, ranks);
    bool moved = true;
    while (moved) {
        moved = false;
        uint32_t start = (uint32_t)draw_below(&random, ranks);
        for (uint32_t i = 0; i < ranks; i++)
            moved = advance(w, (start + i) % ranks) || moved;
    }
    for (uint32_t i = 0; i < ranks; i++)
        CU_ASSERT_FATAL(w->round[i] == w->c->algorithm->rounds(w->c));
    size_t left = 0;
    for (size_t i = 0; i < pairs; i++)
        left += w->queues[i] != NULL;
    CU_ASSERT_FATAL(left == 0);
    free(w->queues);
    free(w->round);
    free(w->sent);
}

/* Values whose sum depends on the order, where `rough`; else whole numbers. */
static void fill(float **arrays, uint32_t ranks, uint64_t count, bool rough, uint64_t seed)
{
    struct draws random = draws_from(seed, 7);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint64_t i = 0; i < count; i++)
            arrays[r][i] = rough ? (float)draw_normal(&random)
                                 : (float)draw_below(&random, 1000) - 500;
}

static double *sums(float **arrays, uint32_t ranks, uint64_t count)
{
    double *sum = calloc((size_t)count + 1, sizeof *sum);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint64_t i = 0; i < count; i++)
            sum[i] += arrays[r][i];
    return sum;
}

/* Before an all-gather a rank knows its own piece only. */
static void forget_others(float **arrays, uint32_t ranks, uint64_t count)
{
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t first, many;
        collective_piece(count, ranks, r, &first, &many);
        for (uint64_t i = 0; i < count; i++)
            if (i < first || i >= first + many)
                arrays[r][i] = NAN;
    }
}

static void check_result(const struct collective *c, float **arrays, const double *sum,
                         bool rough)
{
    for (uint32_t r = 0; r < c->ranks; r++) {
        uint64_t first = 0, many = c->count;
        if (c->goal == GOAL_REDUCE_SCATTER)
            collective_piece(c->count, c->ranks, r, &first, &many);
        double tolerance = rough ? 4e-7 * c->ranks : 0;
        size_t wrong = 0;
        for (uint64_t i = first; i < first + many; i++)
            wrong += fabs(arrays[r][i] - sum[i]) <= tolerance ? 0 : 1;
        CU_ASSERT(wrong == 0);
        /* the same bits in all ranks */
        if (c->goal != GOAL_REDUCE_SCATTER)
            CU_ASSERT(memcmp(arrays[r], arrays[0], (size_t)c->count * sizeof(float)) == 0);
    }
}

static void walk_with_arrays(const struct collective *c, bool rough, uint64_t seed)
{
    float *arrays[MAX_RANKS];
    uint64_t sent[MAX_RANKS];
    for (uint32_t r = 0; r < c->ranks; r++)
        arrays[r] = malloc((size_t)c->count * sizeof(float) + 1);
    fill(arrays, c->ranks, c->count, rough, seed);
    double *sum = sums(arrays, c->ranks, c->count);
    if (c->goal == GOAL_ALL_GATHER) {
        for (uint64_t i = 0; i < c->count; i++)
            for (uint32_t r = 0; r < c->ranks; r++)
                arrays[r][i] = (float)sum[i];
        forget_others(arrays, c->ranks, c->count);
        rough = true; /* the sums themselves were rounded */
    }
    struct walk w = {.c = c, .arrays = arrays, .sent_scalars = sent};
    walk(&w, seed);
    check_result(c, arrays, sum, rough);
    for (uint32_t r = 0; r < c->ranks; r++)
        free(arrays[r]);
    free(sum);
}

static void each_algorithm(void (*check)(struct collective *c))
{
    uint32_t parts[MAX_RANKS];
    for (size_t a = 0; a < collective_algorithm_count(); a++)
        for (int goal = 0; goal <= GOAL_ALL_GATHER; goal++)
            for (uint32_t n = 1; n <= 33; n++) {
                struct collective_case k = {.algorithm = collective_algorithm_get(a)->name,
                                            .ranks = n,
                                            .goal = (enum collective_goal)goal};
                struct collective c = collective_of(&k, parts);
                if (c.algorithm->supports(c.goal))
                    check(&c);
            }
}

static void check_numbers(struct collective *c)
{
    const uint64_t counts[] = {0, 1, c->ranks - 1, c->ranks, 3 * c->ranks + 1};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        c->count = counts[i];
        walk_with_arrays(c, false, i);
        walk_with_arrays(c, true, i);
    }
}

static void numbers(void)
{
    each_algorithm(check_numbers);
}

static void groups(void)
{
    uint32_t parts[MAX_RANKS];
    for (uint32_t n = 1; n <= 20; n++)
        for (uint32_t group = 0; group <= n + 1; group++) {
            struct collective_case k = {
                .algorithm = "hierarchical", .ranks = n, .group = group, .count = 61};
            struct collective c = collective_of(&k, parts);
            walk_with_arrays(&c, true, n);
        }
}

static void random_rings(void)
{
    uint32_t parts[MAX_RANKS], rings[5 * MAX_RANKS], places[5 * MAX_RANKS];
    struct draws random = draws_from(3, 3);
    for (int trial = 0; trial < 200; trial++) {
        uint32_t n = 1 + (uint32_t)draw_below(&random, 12);
        uint32_t count = 1 + (uint32_t)draw_below(&random, 5);
        for (uint32_t i = 0; i < count * n; i++) {
            uint32_t place = i % n, other = (uint32_t)draw_below(&random, place + 1);
            rings[i] = rings[i - place + other];
            rings[i - place + other] = place;
        }
        for (uint32_t i = 0; i < count * n; i++)
            places[i / n * n + rings[i]] = i % n;
        struct collective_case k = {.algorithm = "multi_ring",
                                    .ranks = n,
                                    .count = draw_below(&random, 100),
                                    .rings = rings,
                                    .ring_count = count};
        struct collective c = collective_of(&k, parts);
        c.places = places;
        walk_with_arrays(&c, true, (uint64_t)trial);
    }
}

/* Counts that no array can have: the moves still fit together and lose no scalar. */
static void check_huge(struct collective *c)
{
    const uint64_t counts[] = {(UINT64_C(1) << 32) + 1, (UINT64_C(1) << 40) + 12345,
                               UINT64_C(1) << 61};
    uint64_t sent[MAX_RANKS];
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        c->count = counts[i];
        struct walk w = {.c = c, .sent_scalars = sent};
        walk(&w, i);
        unsigned __int128 all = 0;
        for (uint32_t r = 0; r < c->ranks; r++)
            all += sent[r];
        /* Any all-reduce moves at least this much (Patarasuk and Yuan 2009). */
        unsigned __int128 least = (unsigned __int128)(c->ranks - 1) * c->count *
                                  (c->goal == GOAL_ALL_REDUCE ? 2 : 1);
        CU_ASSERT(all >= least);
        if (strcmp(c->algorithm->name, "ring") == 0)
            CU_ASSERT(all == least);
    }
}

static void huge_counts(void)
{
    each_algorithm(check_huge);
}

/* ---- simulated ---- */

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
        CHECK_CLOSE(run("tree", true, n, count).time_s,
                    seconds(height, height * bytes), 1e-9);
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
            CHECK_CLOSE(o.time_s,
                        seconds(2.0 * (group - 1) + 2.0 * (groups - 1),
                                2.0 * (group - 1) / group * bytes +
                                    2.0 * (groups - 1) / n * bytes),
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

static void names(void)
{
    CU_ASSERT_PTR_NULL(collective_algorithm_find("rings"));
    CU_ASSERT_PTR_NULL(collective_algorithm_find(""));
    for (size_t i = 0; i < collective_algorithm_count(); i++)
        CU_ASSERT(collective_algorithm_find(collective_algorithm_get(i)->name) ==
                  collective_algorithm_get(i));
}

static void pieces_cover(void)
{
    for (uint32_t n = 1; n < 20; n++)
        for (uint64_t count = 0; count < 60; count++) {
            uint64_t next = 0, first, many, least = UINT64_MAX, most = 0;
            for (uint32_t i = 0; i < n; i++) {
                collective_piece(count, n, i, &first, &many);
                CU_ASSERT(first == next);
                next += many;
                least = many < least ? many : least;
                most = many > most ? many : most;
            }
            CU_ASSERT(next == count && most - least <= 1);
        }
}

static const struct check checks[] = {
    {"every rank ends with the sum, and with the same bits", numbers},
    {"groups that divide the ranks or do not", groups},
    {"random orders of several rings", random_rings},
    {"counts beyond 2^32", huge_counts},
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
    {"names", names},
    {"pieces cover the stretch", pieces_cover},
};

CHECK_MAIN("collectives", checks)
