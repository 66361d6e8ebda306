/* Losses at values known by hand, and at the edges. */
#include "tests/check.h"

#include "engine/loss.h"

#include <math.h>

static void test_known_values(void)
{
    const scalar equal[] = {0, 0, 0, 0}, one[] = {0, (scalar)0.69314718};
    const int32_t first[] = {0};
    scalar gradient[4] = {0};
    CHECK_CLOSE(loss_cross_entropy(equal, first, 1, 4, 0, 1, gradient, NULL), log(4),
                1e-12);
    CU_ASSERT_EQUAL(gradient[0], -0.75);
    CU_ASSERT_EQUAL(gradient[3], 0.25);
    /* Probabilities 1/3 and 2/3. */
    CHECK_CLOSE(loss_cross_entropy(one, first, 1, 2, 0, 1, NULL, NULL), log(3), 1e-7);
    const scalar a[] = {1, 2, 3, 4}, b[] = {1, 0, 3, 2};
    CU_ASSERT_EQUAL(loss_mean_square(a, b, 2, 2, 1, NULL), 2 + 2);
    CU_ASSERT_EQUAL(loss_mean_square(a, b, 1, 4, 1, NULL), 2);
    CU_ASSERT_EQUAL(loss_kl(a, a, 2, 2, 3, 1, NULL), 0);
    /* p = (1/2, 1/2), q = (1/3, 2/3). */
    CHECK_CLOSE(loss_kl(one, equal, 1, 2, 1, 1, NULL), 0.5 * log(0.5 * 3) + 0.5 * log(0.75),
                1e-6);
}

static void test_rows_to_ignore(void)
{
    const scalar logits[] = {1, 2, 3, 5, 4, 3};
    const int32_t labels[] = {-1, 0}, none[] = {-1, -1};
    scalar gradient[6] = {0};
    uint64_t correct = 10;
    double both = loss_cross_entropy(logits, labels, 2, 3, 0.1, 1, gradient, &correct);
    CU_ASSERT_EQUAL(both,
                    loss_cross_entropy(logits + 3, labels + 1, 1, 3, 0.1, 1, NULL, NULL));
    CU_ASSERT_EQUAL(correct, 11);
    CU_ASSERT(gradient[0] == 0 && gradient[1] == 0 && gradient[2] == 0);
    CU_ASSERT_NOT_EQUAL(gradient[3], 0);
    CU_ASSERT_EQUAL(loss_cross_entropy(logits, none, 2, 3, 0, 1, gradient, &correct), 0);
    CU_ASSERT_EQUAL(loss_cross_entropy(logits, none, 0, 3, 0, 1, NULL, NULL), 0);
}

static void test_first_of_equals_is_the_answer(void)
{
    const scalar logits[] = {1, 7, 7};
    for (int32_t label = 0; label < 3; label++) {
        uint64_t correct = 0;
        loss_cross_entropy(logits, &label, 1, 3, 0, 1, NULL, &correct);
        CU_ASSERT_EQUAL(correct, label == 1);
    }
}

static void test_large_logits(void)
{
    const scalar logits[] = {30000, -30000, 0}, teacher[] = {-30000, 30000, 0};
    const int32_t wrong[] = {1}, right[] = {0};
    scalar gradient[3] = {0};
    CU_ASSERT_EQUAL(loss_cross_entropy(logits, wrong, 1, 3, 0, 1, gradient, NULL), 60000);
    CU_ASSERT(gradient[0] == 1 && gradient[1] == -1 && gradient[2] == 0);
    CU_ASSERT_EQUAL(loss_cross_entropy(logits, right, 1, 3, 0, 1, NULL, NULL), 0);
    CU_ASSERT_EQUAL(loss_kl(logits, teacher, 1, 3, 1, 1, NULL), 60000);
}

/* A run that diverges must show it. */
static void test_not_a_number(void)
{
    const int32_t label[] = {1};
    for (size_t place = 0; place < 3; place++) {
        scalar logits[] = {0, 0, 0}, gradient[3] = {0};
        uint64_t correct = 0;
        logits[place] = (scalar)NAN;
        CU_ASSERT(isnan(loss_cross_entropy(logits, label, 1, 3, 0, 1, gradient, &correct)));
        CU_ASSERT_EQUAL(correct, 0);
        CU_ASSERT(isnan(gradient[0]));
        CU_ASSERT(isnan(loss_kl(logits, gradient, 1, 3, 1, 1, NULL)));
    }
}

/* One class: nothing to learn, and no division by zero. */
static void test_one_class(void)
{
    const scalar logits[] = {5};
    const int32_t label[] = {0};
    scalar gradient[] = {0};
    CU_ASSERT_EQUAL(loss_cross_entropy(logits, label, 1, 1, 0.5, 1, gradient, NULL), 0);
    CU_ASSERT_EQUAL(gradient[0], 0);
    CU_ASSERT_EQUAL(loss_kl(logits, logits, 1, 1, 4, 1, gradient), 0);
    CU_ASSERT_EQUAL(gradient[0], 0);
}

/* Gradients of micro-batches are those of the batch, bit by bit. */
static void test_micro_batches(void)
{
    enum { ROWS = 6, CLASSES = 5 };
    scalar logits[ROWS * CLASSES], whole[ROWS * CLASSES] = {0}, parts[ROWS * CLASSES] = {0};
    int32_t labels[ROWS];
    double sum = 0;
    for (int i = 0; i < ROWS * CLASSES; i++)
        logits[i] = (scalar)sin(3.0 * i);
    for (int i = 0; i < ROWS; i++)
        labels[i] = i % CLASSES;
    double all = loss_cross_entropy(logits, labels, ROWS, CLASSES, 0, 1. / 6, whole, NULL);
    for (int i = 0; i < ROWS; i += 2)
        sum += loss_cross_entropy(logits + i * CLASSES, labels + i, 2, CLASSES, 0, 1. / 6,
                                  parts + i * CLASSES, NULL);
    for (int i = 0; i < ROWS * CLASSES; i++)
        CU_ASSERT_EQUAL(whole[i], parts[i]);
    CHECK_CLOSE(sum, all, 1e-15);
}

static const struct check checks[] = {
    {"known values", test_known_values},
    {"rows to ignore", test_rows_to_ignore},
    {"the first of equals", test_first_of_equals_is_the_answer},
    {"large logits", test_large_logits},
    {"not a number", test_not_a_number},
    {"one class", test_one_class},
    {"micro-batches", test_micro_batches},
};
CHECK_MAIN("loss", checks)
