#include "base/json.h"
#include "base/text.h"
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct json_file *parse(const char *text)
{
    struct error error = {0};
    struct json_file *file = json_file_parse("f.json", text, &error);
    if (file == NULL)
        printf("\n    unexpected: %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    return file;
}

/* The message must be a complaint about input and hold each of the words. */
static void check_message(const struct error *error, const char *first, const char *second)
{
    CU_ASSERT(error->status == STATUS_BAD_INPUT);
    bool good =
        strstr(error->message, first) != NULL && strstr(error->message, second) != NULL;
    if (!good)
        printf("\n    message: %s\n    wanted: %s ... %s\n", error->message, first, second);
    CU_ASSERT(good);
}

static void refuse(const char *text, const char *first, const char *second)
{
    struct error error = {0};
    struct json_file *file = json_file_parse("f.json", text, &error);
    CU_ASSERT_PTR_NULL(file);
    json_file_free(file);
    check_message(&error, first, second);
}

static void syntax_errors_name_the_line(void)
{
    refuse("", "f.json:1:1:", "ends too early");
    refuse("  \n ", "f.json:2:", "ends too early");
    refuse("{\n  \"a\": 1\n  \"b\": 2\n}", "f.json:3:3:", "\"b\": 2");
    refuse("{\n\"a\": tru\n}", "f.json:2:6:", "tru");
    refuse("{} x", "f.json:1:4:", "x");
    refuse("{}\n{}", "f.json:2:1:", "{}");
    refuse("[1,2", "f.json:1:", "too early");
    refuse("[1,]", "f.json:1:4:", "]");
    refuse("{\"a\" 1}", "f.json:1:6:", "1}");
    refuse("{'a': 1}", "f.json:1:", "a'");
    refuse("\"abc", "f.json:1:", "");
    refuse("\n\n[\"\\q\"]", "f.json:3:", "");
    refuse("[NaN]", "f.json:1:2:", "NaN");
    refuse("[-]", "f.json:1:2:", "-]");
}

static void nesting_is_limited(void)
{
    struct text text = {0};
    for (int i = 0; i < 100000; i++)
        text_append(&text, "[");
    refuse(text_string(&text), "f.json:1:", "");
    text_free(&text);
}

static void text_must_be_utf8(void)
{
    refuse("[\"a\xff\"]", "f.json:1:4:", "byte 0xff");
    refuse("[\"\xc3\"]", "f.json:1:3:", "byte 0xc3");
    refuse("[\"\xc0\x80\"]", "f.json:1:3:", "byte 0xc0");
    refuse("[\"\xed\xa0\x80\"]", "f.json:1:3:", "byte 0xed");
    refuse("[\"\xf4\x90\x80\x80\"]", "f.json:1:3:", "byte 0xf4");
    refuse("[\"\xe0\x80\x80\"]", "f.json:1:3:", "byte 0xe0");
    refuse("[\"a\\u0000b\"]", "f.json:1:4:", "\\u0000");
    json_file_free(parse("[\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \\\\u0000\"]"));
}

static void form_is_checked_everywhere(void)
{
    refuse("{\"a\": 1, \"b\": 2, \"a\": 3}", "f.json: ", "\"a\" is given twice");
    refuse("{\"x\": [1, {\"k\": 1, \"k\": 1}]}", "f.json: x[1]: ", "\"k\" is given twice");
    refuse("{\"x\": {\"y\": [0, 1e999]}}", "f.json: x.y[1]: ", "too large");
    refuse("-1e400", "f.json: ", "too large");
    json_file_free(parse("{\"a\": 1, \"A\": 2}"));
}

/* A million keys must not take a million times a million comparisons. */
static void large_objects_are_quick(void)
{
    struct text text = {0};
    text_append(&text, "{\"key\": 0");
    for (int i = 0; i < 200000; i++)
        text_append(&text, ", \"%d\": %d", i, i);
    text_append(&text, "}");
    CU_ASSERT_FATAL(!text.failed);
    struct json_file *file = parse(text.data);
    struct json_at root = json_root(file), at;
    size_t count = 0;
    for (bool more = json_entry(&root, 0, &at); more; more = json_next(&at))
        count++;
    CU_ASSERT(count == 200001);
    CU_ASSERT_STRING_EQUAL(at.key, "199999");
    json_file_free(file);
    text_free(&text);
}

static void unknown_keys_are_refused(void)
{
    static const char *const known[] = {"steps", "micro_batch", "seed"};
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"{\"step\": 1}", "nearest known is \"steps\""},
        {"{\"micro-batch\": 1}", "nearest known is \"micro_batch\""},
        {"{\"sede\": 1}", "nearest known is \"seed\""},
        {"{\"wholly_other\": 1}", "(known: steps, micro_batch, seed)"},
        {"{\"Seed\": 1}", "nearest known is \"seed\""},
        {"{\"\": 1}", "unknown key \"\" (known"},
        {"[]", "must be an object, not a list"},
        {"3", "must be an object, not 3"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error error = {0};
        struct json_file *file = parse(cases[i].text);
        struct json_at root = json_root(file);
        CU_ASSERT(!json_keys(&root, known, 3, &error));
        check_message(&error, "f.json: ", cases[i].word);
        json_file_free(file);
    }
    struct error error = {0};
    struct json_file *file = parse("{\"comment\": 1, \"comment 2\": [], \"seed\": 1}");
    struct json_at root = json_root(file);
    CU_ASSERT(json_keys(&root, known, 3, &error));
    CU_ASSERT(!json_keys(&root, known, 0, &error));
    json_file_free(file);
}

static void nearest_names(void)
{
    static const char *const names[] = {"pipeline", "local", "data_parallel", "a"};
    CU_ASSERT(json_nearest("pipline", names, 4) == 0);
    CU_ASSERT(json_nearest("locla", names, 4) == 1);
    CU_ASSERT(json_nearest("DataParallel", names, 4) == 2);
    CU_ASSERT(json_nearest("zebra", names, 4) == 4);
    CU_ASSERT(json_nearest("b", names, 4) == 4);
    CU_ASSERT(json_nearest("", names, 4) == 4);
    CU_ASSERT(json_nearest("x", names, 0) == 0);
    char word[5000];
    memset(word, 'p', sizeof(word));
    word[sizeof(word) - 1] = '\0';
    CU_ASSERT(json_nearest(word, names, 4) == 4);
}

static void messages_carry_the_path(void)
{
    struct error error = {0};
    struct json_file *file = parse("{\"methods\": [0, 0, {\"stages\": \"two\"}]}");
    struct json_at root = json_root(file), methods, second, stages;
    uint64_t value = 0;
    CU_ASSERT_FATAL(json_member(&root, "methods", &methods, &error));
    CU_ASSERT_FATAL(json_element(&methods, 2, &second));
    CU_ASSERT_FATAL(json_member(&second, "stages", &stages, &error));
    CU_ASSERT(!json_u64(&stages, 1, 9, &value, &error));
    CU_ASSERT_STRING_EQUAL(
        error.message,
        "f.json: methods[2].stages: must be an integer, not the string \"two\"");
    CU_ASSERT(!json_member(&second, "kind", &stages, &error));
    CU_ASSERT_STRING_EQUAL(error.message,
                           "f.json: methods[2]: the key \"kind\" is missing");
    CU_ASSERT(!json_member(&methods, "kind", &stages, &error));
    CU_ASSERT(!json_element(&methods, 3, &second));
    CU_ASSERT(!json_element(&root, 0, &second));
    CU_ASSERT(!json_entry(&methods, 0, &second));
    CU_ASSERT(json_length(&methods) == 3 && json_length(&root) == 0);
    CU_ASSERT(!json_fail(&root, &error, "wrong %d", 5));
    CU_ASSERT_STRING_EQUAL(error.message, "f.json: wrong 5");
    json_file_free(file);
}

/* Deep places with long keys: the path is cut, nothing is overrun. */
static void long_paths_are_cut(void)
{
    struct text text = {0};
    for (int i = 0; i < 100; i++)
        text_append(&text, "{\"a_rather_long_key_%d\": ", i);
    text_append(&text, "1e999");
    for (int i = 0; i < 100; i++)
        text_append(&text, "}");
    refuse(text_string(&text), "f.json: a_rather_long_key_0.a_rather_long_key_1",
           "too large");
    text_free(&text);
}

static void integers_are_exact(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = {{"0", true, 0},
                 {"-0", true, 0},
                 {"5e9", true, UINT64_C(5000000000)},
                 {"9007199254740992", true, UINT64_C(1) << 53},
                 {"9007199254740994", false, 0},
                 {"1e300", false, 0},
                 {"1.5", false, 0},
                 {"-1", false, 0},
                 {"\"3\"", false, 0},
                 {"true", false, 0},
                 {"null", false, 0},
                 {"[1]", false, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error error = {0};
        struct json_file *file = parse(cases[i].text);
        struct json_at root = json_root(file);
        uint64_t value = 0;
        CU_ASSERT(json_u64(&root, 0, UINT64_MAX, &value, &error) == cases[i].good);
        CU_ASSERT(value == cases[i].value);
        CU_ASSERT(error.status == (cases[i].good ? STATUS_OK : STATUS_BAD_INPUT));
        json_file_free(file);
    }
    struct error error = {0};
    struct json_file *file = parse("7");
    struct json_at root = json_root(file);
    uint64_t value = 0;
    CU_ASSERT(json_u64(&root, 7, 7, &value, &error));
    CU_ASSERT(!json_u64(&root, 8, 9, &value, &error));
    check_message(&error, "from 8 to 9", "not 7");
    CU_ASSERT(!json_u64(&root, 0, 6, &value, &error));
    json_file_free(file);
}

static void values_are_typed(void)
{
    static const char *const names[] = {"ring", "tree"};
    struct error error = {0};
    struct json_file *file =
        parse("{\"n\": 2.5, \"s\": \"tree\", \"b\": false, \"z\": null, \"w\": \"rings\"}");
    struct json_at root = json_root(file), n, s, b, z, w;
    CU_ASSERT_FATAL(json_optional(&root, "n", &n) && json_optional(&root, "s", &s) &&
                    json_optional(&root, "b", &b) && json_optional(&root, "z", &z) &&
                    json_optional(&root, "w", &w));
    double number = 0;
    const char *string = NULL;
    bool boolean = true;
    size_t chosen = 9;
    CU_ASSERT(json_number(&n, 0, INFINITY, &number, &error) && number == 2.5);
    CU_ASSERT(!json_number(&n, 3, INFINITY, &number, &error));
    check_message(&error, "f.json: n: ", "not below 3");
    CU_ASSERT(!json_number(&n, 0, 2, &number, &error));
    check_message(&error, "from 0 to 2", "not 2.5");
    CU_ASSERT(!json_number(&s, 0, 2, &number, &error));
    CU_ASSERT(json_string(&s, &string, &error) && strcmp(string, "tree") == 0);
    CU_ASSERT(!json_string(&n, &string, &error));
    CU_ASSERT(json_boolean(&b, &boolean, &error) && !boolean);
    CU_ASSERT(!json_boolean(&n, &boolean, &error));
    check_message(&error, "must be true or false", "not 2.5");
    CU_ASSERT(!json_string(&z, &string, &error));
    check_message(&error, "must be a string", "not null");
    CU_ASSERT(json_choice(&s, names, 2, &chosen, &error) && chosen == 1);
    CU_ASSERT(!json_choice(&w, names, 2, &chosen, &error) && chosen == 1);
    check_message(&error, "unknown value \"rings\"", "nearest known is \"ring\"");
    CU_ASSERT(!json_choice(&n, names, 2, &chosen, &error));
    CU_ASSERT(json_is_number(&n) && json_is_string(&s) && json_is_object(&root));
    CU_ASSERT(!json_is_array(&root) && !json_is_object(&z));
    CU_ASSERT(!json_optional(&root, "N", &n));
    json_file_free(file);
}

static void defaults_are_written_back(void)
{
    static const char *const names[] = {"ring", "tree"};
    struct error error = {0};
    struct json_file *file = parse("{\"given\": 4}");
    struct json_at root = json_root(file);
    uint64_t given = 1, steps = 100, huge = UINT64_MAX;
    double rate = 0.1, none = INFINITY;
    const char *name = "net", *nothing = NULL;
    bool yes = true;
    size_t topology = 1;
    CU_ASSERT(json_read_u64(&root, "given", 1, 9, &given, &error) && given == 4);
    CU_ASSERT(json_read_u64(&root, "steps", 1, 1000, &steps, &error) && steps == 100);
    CU_ASSERT(json_read_u64(&root, "huge", 0, UINT64_MAX, &huge, &error));
    CU_ASSERT(json_read_number(&root, "rate", 0, 1, &rate, &error) && rate == 0.1);
    CU_ASSERT(json_read_number(&root, "none", 0, INFINITY, &none, &error));
    CU_ASSERT(json_read_string(&root, "name", &name, &error));
    CU_ASSERT(json_read_string(&root, "nothing", &nothing, &error) && nothing == NULL);
    CU_ASSERT(json_read_boolean(&root, "yes", &yes, &error) && yes);
    CU_ASSERT(json_read_choice(&root, "topology", names, 2, &topology, &error));
    char *printed = cJSON_PrintUnformatted(json_file_tree(file));
    CU_ASSERT_STRING_EQUAL(printed,
                           "{\"given\":4,\"steps\":100,\"rate\":0.1,\"name\":\"net\","
                           "\"yes\":true,\"topology\":\"tree\"}");
    struct json_file *again = parse(printed);
    CU_ASSERT(cJSON_Compare(json_file_tree(file), json_file_tree(again), 1));
    json_file_free(again);
    free(printed);
    CU_ASSERT(!json_read_u64(&root, "given", 5, 9, &given, &error) && given == 4);
    CU_ASSERT(!json_read_string(&root, "given", &name, &error));
    struct json_at member;
    CU_ASSERT_FATAL(json_optional(&root, "given", &member));
    CU_ASSERT(!json_read_u64(&member, "x", 0, 9, &steps, &error));
    check_message(&error, "given: ", "must be an object");
    json_file_free(file);
}

static void set_and_compare(const char *path, const char *value, const char *wanted)
{
    struct error error = {0};
    struct json_file *file =
        parse("{\"a\":{\"b\":[1,{\"name\":\"x\",\"c\":2}]},\"s\":\"t\"}");
    bool done = json_file_set(file, path, value, &error);
    if (wanted == NULL) {
        CU_ASSERT(!done && error.status == STATUS_BAD_INPUT);
    } else {
        char *printed = cJSON_PrintUnformatted(json_file_tree(file));
        if (!done || strcmp(printed, wanted) != 0)
            printf("\n    %s=%s gave %s %s\n", path, value, printed, error.message);
        CU_ASSERT(done && strcmp(printed, wanted) == 0);
        free(printed);
    }
    json_file_free(file);
}

static void values_are_set_by_path(void)
{
    set_and_compare("s", "5", "{\"a\":{\"b\":[1,{\"name\":\"x\",\"c\":2}]},\"s\":5}");
    set_and_compare("s", "plain words",
                    "{\"a\":{\"b\":[1,{\"name\":\"x\",\"c\":2}]},\"s\":\"plain words\"}");
    set_and_compare("s", "", "{\"a\":{\"b\":[1,{\"name\":\"x\",\"c\":2}]},\"s\":\"\"}");
    set_and_compare("a.b.0", "[]",
                    "{\"a\":{\"b\":[[],{\"name\":\"x\",\"c\":2}]},\"s\":\"t\"}");
    set_and_compare("a.b.1.c", "null",
                    "{\"a\":{\"b\":[1,{\"name\":\"x\",\"c\":null}]},\"s\":\"t\"}");
    set_and_compare("a.b.x.c", "true",
                    "{\"a\":{\"b\":[1,{\"name\":\"x\",\"c\":true}]},\"s\":\"t\"}");
    set_and_compare("n.m.k", "1",
                    "{\"a\":{\"b\":[1,{\"name\":\"x\",\"c\":2}]},\"s\":\"t\",\"n\":{\"m\":{"
                    "\"k\":1}}}");
    set_and_compare("a", "1e3", "{\"a\":1000,\"s\":\"t\"}");
    set_and_compare("a.b.2", "1", NULL);
    set_and_compare("a.b.99999999999999999999999", "1", NULL);
    set_and_compare("a.b.y.c", "1", NULL);
    set_and_compare("s.x", "1", NULL);
    set_and_compare("", "1", NULL);
    set_and_compare("a..b", "1", NULL);
    set_and_compare("a.", "1", NULL);
    set_and_compare("s", "1e999", NULL);
    set_and_compare("s", "{\"k\":1,\"k\":2}", NULL);
    set_and_compare("s", "\xff", NULL);
}

static char folder[] = "/tmp/podsim-json-XXXXXX";

static void read_bytes(const char *bytes, size_t count, const char *first,
                       const char *second)
{
    char path[64];
    struct error error = {0};
    snprintf(path, sizeof(path), "%s/x.json", folder);
    FILE *stream = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
    CU_ASSERT(fwrite(bytes, 1, count, stream) == count);
    fclose(stream);
    struct json_file *file = json_file_read(path, &error);
    if (first == NULL) {
        CU_ASSERT_PTR_NOT_NULL(file);
        CU_ASSERT_STRING_EQUAL(json_file_name(file), path);
    } else {
        CU_ASSERT_PTR_NULL(file);
        check_message(&error, first, second);
        CU_ASSERT(strstr(error.message, path) == error.message);
    }
    json_file_free(file);
    unlink(path);
}

static void files_are_read(void)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    read_bytes("{\"a\": 1}\n", 9, NULL, NULL);
    read_bytes("\xef\xbb\xbf{}", 5, NULL, NULL); /* byte order mark */
    read_bytes("", 0, "empty", "");
    read_bytes(" \n\n", 3, "empty", "");
    read_bytes("{}\0{}", 5, "byte 2 is NUL", "");
    read_bytes("\0", 1, "NUL", "");
    read_bytes("{\n\"a\" 1}", 8, "x.json:2:5:", "1}");
    struct error error = {0};
    CU_ASSERT_PTR_NULL(json_file_read(folder, &error));
    check_message(&error, folder, "is a directory");
    CU_ASSERT_PTR_NULL(json_file_read("/nonexistent/x.json", &error));
    check_message(&error, "/nonexistent/x.json: ", "No such file");
    CU_ASSERT_PTR_NULL(json_file_read("", &error));
    CU_ASSERT_PTR_NULL(json_file_read("/dev/zero", &error));
    check_message(&error, "/dev/zero", "larger than 64 MiB");
    CU_ASSERT_PTR_NULL(json_file_read("/dev/null", &error));
    check_message(&error, "/dev/null", "empty");
    char path[64];
    snprintf(path, sizeof(path), "%s/locked.json", folder);
    FILE *stream = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
    fclose(stream);
    CU_ASSERT(chmod(path, 0) == 0);
    if (access(path, R_OK) != 0) { /* root reads it all the same */
        CU_ASSERT_PTR_NULL(json_file_read(path, &error));
        check_message(&error, path, "Permission denied");
    }
    unlink(path);
    CU_ASSERT(rmdir(folder) == 0);
}

static void words_expand_to_objects(void)
{
    struct error error = {0};
    struct json_file *file = parse("{\"data\":\"text\",\"other\":{\"kind\":\"x\"}}");
    struct json_at root = json_root(file), data, kind;
    bool value = false;
    CU_ASSERT_FATAL(json_member(&root, "data", &data, &error));
    CU_ASSERT(json_expand(&data, "kind", &error) && json_is_object(&data));
    CU_ASSERT_FATAL(json_member(&data, "kind", &kind, &error));
    CU_ASSERT(!json_boolean(&kind, &value, &error));
    check_message(&error, "f.json: data.kind: ", "\"text\"");
    CU_ASSERT_FATAL(json_member(&root, "other", &data, &error));
    CU_ASSERT(json_expand(&data, "kind", &error));
    char *printed = cJSON_PrintUnformatted(json_file_tree(file));
    CU_ASSERT_STRING_EQUAL(printed,
                           "{\"data\":{\"kind\":\"text\"},\"other\":{\"kind\":\"x\"}}");
    free(printed);
    json_file_free(file);
}

static size_t allocations_left;

static void *failing_malloc(size_t bytes)
{
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    return malloc(bytes);
}

/* Whichever allocation of the parser fails: an error, nothing leaked, nothing used. */
static void lack_of_memory_is_reported(void)
{
    cJSON_Hooks hooks = {failing_malloc, free};
    bool done = false;
    size_t tried = 0;
    cJSON_InitHooks(&hooks);
    for (; !done && tried < 1000; tried++) {
        struct error error = {0};
        double value = 1;
        allocations_left = tried;
        struct json_file *file =
            json_file_parse("f.json", "{\"a\": [1, {\"b\": \"c\"}], \"d\": \"e\"}", &error);
        if (file != NULL) {
            struct json_at root = json_root(file), d;
            done = json_file_set(file, "a.1.b", "[1, 2]", &error) &&
                   json_file_set(file, "x.y", "word", &error) &&
                   json_read_number(&root, "z", 0, 2, &value, &error) &&
                   json_member(&root, "d", &d, &error) && json_expand(&d, "kind", &error);
        }
        CU_ASSERT(done == (error.status == STATUS_OK));
        json_file_free(file);
    }
    cJSON_InitHooks(NULL);
    CU_ASSERT(done && tried > 15);
}

/* Every prefix and every one-byte change of a file is either refused or read. */
static void damaged_text_is_survived(void)
{
    static const char good[] = "{\"a\": [1, -2.5e3, {\"b\": \"\\u00e9\\n\"}], \"c\": null}";
    char text[sizeof(good)];
    struct error error;
    for (size_t i = 0; i < sizeof(good) - 1; i++) {
        memcpy(text, good, sizeof(good));
        text[i] = '\0';
        error = (struct error){0};
        struct json_file *file = json_file_parse("f.json", text, &error);
        CU_ASSERT(file == NULL && error.status == STATUS_BAD_INPUT);
        json_file_free(file);
        for (int byte = 1; byte < 256; byte++) {
            memcpy(text, good, sizeof(good));
            text[i] = (char)byte;
            error = (struct error){0};
            file = json_file_parse("f.json", text, &error);
            CU_ASSERT((file == NULL) == (error.status == STATUS_BAD_INPUT));
            json_file_free(file);
        }
    }
}

static const struct check checks[] = {
    {"syntax errors name the line", syntax_errors_name_the_line},
    {"nesting is limited", nesting_is_limited},
    {"text must be UTF-8", text_must_be_utf8},
    {"repeated keys and huge numbers are refused anywhere", form_is_checked_everywhere},
    {"large objects are quick", large_objects_are_quick},
    {"unknown keys are refused with advice", unknown_keys_are_refused},
    {"nearest names", nearest_names},
    {"messages carry the path", messages_carry_the_path},
    {"long paths are cut", long_paths_are_cut},
    {"integers are exact", integers_are_exact},
    {"values are typed", values_are_typed},
    {"defaults are written back", defaults_are_written_back},
    {"values are set by path", values_are_set_by_path},
    {"files are read", files_are_read},
    {"words expand to objects", words_expand_to_objects},
    {"lack of memory is reported", lack_of_memory_is_reported},
    {"damaged text is survived", damaged_text_is_survived},
};
CHECK_MAIN("base: JSON", checks)
