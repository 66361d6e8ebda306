/* Collectives: their moves walked without a clock, rank by rank with real arrays and
 * queues. */
#include "base/random.h"
#include "tests/collective_run.h"

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
    CU_ASSERT_FATAL(move->to < c->ranks && move->to != rank &&
                    move->send_count <= c->count &&
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
    struct parcel **head = queue_of(w, move->receive_lane, move->from, rank),
                  *parcel = *head;
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
    {"names", names},
    {"pieces cover the stretch", pieces_cover},
};

CHECK_MAIN("moves of collectives", checks)
