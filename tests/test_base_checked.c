#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void sums_and_products(void)
{
    uint64_t value = 7;
    CU_ASSERT(checked_add(UINT64_MAX - 1, 1, &value) && value == UINT64_MAX);
    CU_ASSERT(!checked_add(UINT64_MAX, 1, &value));
    CU_ASSERT(checked_multiply(UINT64_C(1) << 32, UINT64_C(3) << 30, &value));
    CU_ASSERT(value == UINT64_C(3) << 62);
    CU_ASSERT(!checked_multiply(UINT64_C(1) << 32, UINT64_C(1) << 32, &value));
    CU_ASSERT(checked_multiply(0, UINT64_MAX, &value) && value == 0);
}

static void allocation_is_zeroed(void)
{
    static const size_t counts[] = {0, 1, 3, 63, 64, 65, 100003};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        unsigned char *plain = checked_calloc(counts[i], 3);
        unsigned char *aligned = checked_calloc_aligned(counts[i], 3);
        CU_ASSERT_PTR_NOT_NULL_FATAL(plain);
        CU_ASSERT_PTR_NOT_NULL_FATAL(aligned);
        CU_ASSERT((uintptr_t)aligned % 64 == 0);
        size_t sum = 0;
        for (size_t k = 0; k < 3 * counts[i]; k++)
            sum += (size_t)plain[k] + aligned[k];
        CU_ASSERT(sum == 0);
        free(plain);
        free(aligned);
    }
}

static void allocation_refuses_what_does_not_fit(void)
{
    CU_ASSERT_PTR_NULL(checked_calloc(SIZE_MAX, 2));
    CU_ASSERT_PTR_NULL(checked_calloc(SIZE_MAX / 2 + 1, 2)); /* would wrap to 0 */
    CU_ASSERT_PTR_NULL(checked_calloc(SIZE_MAX, 1));
    CU_ASSERT_PTR_NULL(checked_calloc_aligned(SIZE_MAX, 1));
    CU_ASSERT_PTR_NULL(checked_calloc_aligned(SIZE_MAX / 8 + 2, 8));
}

static void growing_keeps_and_doubles(void)
{
    uint32_t *array = NULL;
    size_t capacity = 0, moves = 0;
    for (size_t i = 0; i < 1000; i++) {
        size_t before = capacity;
        CU_ASSERT_FATAL(checked_grow((void **)&array, &capacity, i + 1, sizeof(*array)));
        moves += capacity != before;
        CU_ASSERT(capacity > i && array[i] == 0);
        array[i] = (uint32_t)i;
    }
    CU_ASSERT(moves <= 11);
    for (size_t i = 0; i < 1000; i++)
        CU_ASSERT(array[i] == i);
    uint32_t *same = array;
    size_t old = capacity;
    CU_ASSERT(!checked_grow((void **)&array, &capacity, SIZE_MAX / 2, sizeof(*array)));
    CU_ASSERT(array == same && capacity == old);
    free(array);
}

static void errors_carry_a_message(void)
{
    struct error error = {0};
    CU_ASSERT(!error_set(&error, STATUS_BAD_INPUT, "%s:%d", "file", 3));
    CU_ASSERT(error.status == STATUS_BAD_INPUT);
    CU_ASSERT_STRING_EQUAL(error.message, "file:3");
    CU_ASSERT(!error_prefix(&error, "stage %d", 2));
    CU_ASSERT_STRING_EQUAL(error.message, "stage 2: file:3");
    CU_ASSERT(error.status == STATUS_BAD_INPUT);
    CU_ASSERT(!error_set(&error, STATUS_FAILED, "again: %s", error.message));
    CU_ASSERT_STRING_EQUAL(error.message, "again: stage 2: file:3");
    CU_ASSERT(!error_memory(&error, "weights"));
    CU_ASSERT(error.status == STATUS_HOST);
    CU_ASSERT_STRING_EQUAL(error.message, "out of memory: weights");
}

static void long_errors_are_cut(void)
{
    struct error error = {0};
    char word[3000];
    memset(word, 'x', sizeof(word));
    word[sizeof(word) - 1] = '\0';
    error_set(&error, STATUS_FAILED, "%s", word);
    CU_ASSERT(strlen(error.message) == sizeof(error.message) - 1);
    error_prefix(&error, "ab");
    CU_ASSERT(strlen(error.message) == sizeof(error.message) - 1);
    CU_ASSERT(strncmp(error.message, "ab: xx", 6) == 0);
    error_prefix(&error, "%s", word);
    CU_ASSERT(strlen(error.message) == sizeof(error.message) - 1);
}

static void text_grows(void)
{
    struct text text = {0};
    CU_ASSERT_STRING_EQUAL(text_string(&text), "");
    CU_ASSERT(text_append(&text, "%s", ""));
    CU_ASSERT_STRING_EQUAL(text_string(&text), "");
    for (int i = 0; i < 2000; i++)
        CU_ASSERT(text_append(&text, "%d,", i % 10));
    CU_ASSERT(text.length == 4000 && strlen(text_string(&text)) == 4000);
    CU_ASSERT(strncmp(text_string(&text), "0,1,2,3,", 8) == 0);
    text_clear(&text);
    CU_ASSERT(text_append_bytes(&text, "a\0b", 3) && text.length == 3);
    CU_ASSERT(memcmp(text.data, "a\0b", 4) == 0);
    CU_ASSERT(text_append(&text, "%0300d", 7) && text.length == 303);
    CU_ASSERT(text.data[302] == '7' && text.data[303] == '\0');
    text_free(&text);
    CU_ASSERT(text.data == NULL && text.length == 0);
}

static void text_remembers_failure(void)
{
    struct text text = {0};
    CU_ASSERT(text_append(&text, "kept"));
    CU_ASSERT(!text_append_bytes(&text, "x", SIZE_MAX - 2));
    CU_ASSERT(!text_append(&text, "more"));
    CU_ASSERT(!text_append_bytes(&text, "x", 1));
    CU_ASSERT_STRING_EQUAL(text_string(&text), "kept");
    text_free(&text);
}

static void bytes_for_people(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {1, "1 B"},
                 {999, "999 B"},
                 {1000, "1.00 kB"},
                 {1234, "1.23 kB"},
                 {43200000, "43.2 MB"},
                 {999499, "999 kB"},
                 {999500, "1.00 MB"},
                 {UINT64_C(5000000000), "5.00 GB"},
                 {UINT64_MAX, "18.4 EB"}};
    char text[TEXT_QUANTITY_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CU_ASSERT_STRING_EQUAL(text_bytes(text, cases[i].bytes), cases[i].text);
}

static void seconds_for_people(void)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0 s"},           {-0.0, "0 s"},
                 {1.23e-3, "1.23 ms"}, {1, "1.00 s"},
                 {0.9996, "1.00 s"},   {59.96, "60.0 s"},
                 {999.6, "1.00 ks"},   {-2.5e-6, "-2.50 us"},
                 {1e-9, "1.00 ns"},    {1e-30, "1.00e-30 s"},
                 {1e30, "1.00e+30 s"}, {9.996, "10.0 s"}};
    char text[TEXT_QUANTITY_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CU_ASSERT_STRING_EQUAL(text_seconds(text, cases[i].seconds), cases[i].text);
    CU_ASSERT_STRING_EQUAL(text_seconds(text, INFINITY), "inf s");
    CU_ASSERT_STRING_EQUAL(text_si(text, 1.5e12, "FLOP/s"), "1.50 TFLOP/s");
    text_si(text, 1.5e12, "a unit that is much too long for it");
    CU_ASSERT(strlen(text) < TEXT_QUANTITY_BYTES);
}

static const struct check checks[] = {
    {"sums and products say when they overflow", sums_and_products},
    {"allocated memory is zero and aligned", allocation_is_zeroed},
    {"allocation refuses what does not fit", allocation_refuses_what_does_not_fit},
    {"growing keeps the items and doubles", growing_keeps_and_doubles},
    {"errors carry a message", errors_carry_a_message},
    {"long errors are cut", long_errors_are_cut},
    {"text grows", text_grows},
    {"text remembers a failure", text_remembers_failure},
    {"bytes for people", bytes_for_people},
    {"seconds for people", seconds_for_people},
};
CHECK_MAIN("base: errors, sizes, text", checks)
