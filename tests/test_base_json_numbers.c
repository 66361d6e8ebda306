/* Numbers of JSON files: what is one, and that none becomes another. */
#include "base/json.h"
#include "tests/check.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refused(const char *text, const char *says)
{
    struct error error;
    struct json_file *file = json_file_parse("f.json", text, &error);
    CU_ASSERT_PTR_NULL(file);
    if (file != NULL || strstr(error.message, says) == NULL)
        printf("\n  %s: \"%s\" does not say \"%s\"\n", text,
               file == NULL ? error.message : "", says);
    CU_ASSERT(file == NULL && strstr(error.message, says) != NULL);
    json_file_free(file);
}

static void test_grammar(void)
{
    static const char *const bad[] = {"03", "3.",  "1.e1", "-01", "00", "1e",
                                      "1e+", "-",  "+3",   ".5",  "0x3", "1.2.3",
                                      "1-2", "--1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"a\": [1,\n %s]}", bad[i]);
        refused(text, "f.json:2:");
    }
    static const char *const good[] = {"0",   "-0", "10",    "1.5",  "0.5e10", "1e5",
                                       "1E-5", "-1", "1e+05", "20.00", "123456789012",
                                       "1000000000000000000", "9007199254740994"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[64];
        struct error error;
        snprintf(text, sizeof text, "{\"03 \\\" 3.\": [%s, \"04\"]}", good[i]);
        struct json_file *file = json_file_parse("f.json", text, &error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        CU_ASSERT_EQUAL(json_file_tree(file)->child->child->valuedouble,
                        strtod(good[i], NULL));
        json_file_free(file);
    }
}

static void test_integers(void)
{
    static const char *const large[] = {"9007199254740993", "-9007199254740993",
                                        "18446744073709551615", "100000000000000000000001"};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"a\": %s}", large[i]);
        refused(text, large[i]);
        refused(text, "no double");
    }
    struct error error;
    struct json_file *file = json_file_parse("f.json", "{\"a\": 9007199254740992}", &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT(!json_file_set(file, "a", "9007199254740993", &error));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "f.json: a: 9007199254740993"));
    CU_ASSERT(!json_file_set(file, "b", "[1, 007]", &error));
    CU_ASSERT(json_file_set(file, "a", "007 is a name", &error));
    json_file_free(file);
}

/* Printed and read again. */
static void test_exact(void)
{
    static const double numbers[] = {9007199254740991, 9007199254740992, 0.1, 1.0 / 3,
                                     2.0 / 3 * 1e300,  5e-324,           DBL_MAX,
                                     -123456789.123456789, 0, 4503599627370497};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        cJSON *tree = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(tree, "a");
        cJSON_AddItemToArray(list, cJSON_CreateNumber(numbers[i]));
        cJSON_AddNumberToObject(tree, "b", numbers[i]);
        CU_ASSERT(json_exact_numbers(tree));
        char *text = cJSON_PrintUnformatted(tree);
        cJSON *again = cJSON_Parse(text);
        CU_ASSERT_PTR_NOT_NULL_FATAL(again);
        CU_ASSERT_EQUAL(again->child->child->valuedouble, numbers[i]);
        CU_ASSERT_EQUAL(again->child->next->valuedouble, numbers[i]);
        cJSON_Delete(again);
        cJSON_free(text);
        cJSON_Delete(tree);
    }
}

static const struct check checks[] = {
    {"what JSON does not write", test_grammar},
    {"integers above 2^53", test_integers},
    {"printing", test_exact},
};

CHECK_MAIN("numbers in JSON", checks)
