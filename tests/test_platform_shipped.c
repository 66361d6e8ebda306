/* The shipped platform files: all load, say where each figure comes from, agree with the
 * schema; and whatever is done to one, reading it ends with a message and not a crash. */
#include "sim/platform_keys.h"
#include "tests/platform_sample.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_SHIPPED = 64 };
static char shipped[MAX_SHIPPED][64];
static size_t shipped_count;

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void list_shipped(void)
{
    DIR *folder = opendir("platforms");
    CU_ASSERT_PTR_NOT_NULL_FATAL(folder);
    shipped_count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length > 5 && length < 60 && strcmp(entry->d_name + length - 5, ".json") == 0 &&
            strcmp(entry->d_name, "platform.schema.json") != 0 &&
            shipped_count < MAX_SHIPPED)
            snprintf(shipped[shipped_count++], 64, "%.*s", (int)length - 5, entry->d_name);
    }
    closedir(folder);
    qsort(shipped, shipped_count, sizeof(shipped[0]), by_name);
    CU_ASSERT_TRUE(shipped_count >= 17);
}

static struct platform *load(const char *name)
{
    struct error error = {0};
    struct platform *platform = platform_read(name, &error);
    if (platform == NULL)
        fprintf(stderr, "\n%s: %s\n", name, error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(platform);
    return platform;
}

static void test_all_load(void)
{
    list_shipped();
    for (size_t i = 0; i < shipped_count; i++) {
        struct platform *platform = load(shipped[i]);
        struct route route;
        struct error error = {0};
        size_t count = platform_processor_count(platform);
        CU_ASSERT_STRING_EQUAL(platform_name(platform), shipped[i]);
        for (size_t from = 0; from < count; from++)
            for (size_t to = 0; to < count; to++)
                CU_ASSERT_TRUE(platform_route(platform, from, to, &route, &error) &&
                               (from == to || route.link_count > 0));
        platform_free(platform);
    }
}

static double peak(const struct platform *platform, enum number_format format)
{
    const struct processor *processor = platform_processor(platform, 0);
    return processor->kind->peak_flops_per_s(processor, format);
}

static void test_published_figures(void)
{
    struct platform *pod = load("ipu-pod64");
    CU_ASSERT_EQUAL(platform_processor_count(pod), 64);
    CU_ASSERT_EQUAL(platform_processor(pod, 0)->memory_bytes, UINT64_C(1472) * 624 * 1024);
    CHECK_CLOSE(64 * peak(pod, FORMAT_FP16), 15.978e15, 1e-3);
    CHECK_CLOSE(64 * peak(pod, FORMAT_FP32), 3.994e15, 1e-3);
    platform_free(pod);
    struct platform *board = load("gc2-board");
    CU_ASSERT_EQUAL(platform_processor(board, 1)->memory_bytes, UINT64_C(304) << 20);
    platform_free(board);
    /* Six links a processor: 25 GB/s each, at the efficiency in the file. */
    struct platform *dgx = load("dgx-1");
    double out[8] = {0};
    for (size_t i = 0; i < platform_link_count(dgx); i++) {
        size_t from = 8;
        if (sscanf(platform_link(dgx, i)->name, "gpu%zu->gpu", &from) == 1 && from < 8)
            out[from] += platform_link(dgx, i)->bandwidth_bytes_per_s;
    }
    for (size_t i = 0; i < 8; i++)
        CHECK_CLOSE(out[i], 6 * 25e9 * 0.9, 1e-12);
    platform_free(dgx);
    /* Across four nodes a message keeps to the rail of its receiver. */
    struct platform *four = load("dgx-a100-x4");
    struct route route;
    struct error error = {0};
    CU_ASSERT_TRUE(platform_route(four, 0, 8, &route, &error));
    CU_ASSERT_EQUAL(route.link_count, 4);
    CU_ASSERT_EQUAL(route.bandwidth_bytes_per_s, 25e9);
    CU_ASSERT_TRUE(platform_route(four, 0, 15, &route, &error));
    CU_ASSERT_EQUAL(route.link_count, 6);
    platform_free(four);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    char *text = calloc(1, 1 << 20);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_TRUE(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static char *shipped_text(const char *name)
{
    struct text path = {0};
    text_append(&path, "platforms/%s.json", name);
    char *text = read_text(text_string(&path));
    text_free(&path);
    return text;
}

/* Every object with a number has "source" or "assumed", or is inside one that has. */
static void check_sources(const cJSON *node, bool covered, const char *name)
{
    covered = covered || cJSON_HasObjectItem(node, "source") ||
              cJSON_HasObjectItem(node, "assumed");
    for (const cJSON *child = node->child; child != NULL; child = child->next) {
        bool shape = child->string != NULL && (strcmp(child->string, "count") == 0 ||
                                               strcmp(child->string, "nodes") == 0 ||
                                               strcmp(child->string, "dimensions") == 0 ||
                                               strcmp(child->string, "ports") == 0);
        if (cJSON_IsNumber(child) && !covered && !shape)
            fprintf(stderr, "\n%s: %s has no source\n", name, child->string);
        CU_ASSERT_TRUE(!cJSON_IsNumber(child) || covered || shape);
        if (!shape)
            check_sources(child, covered, name);
    }
}

static void test_every_figure_has_a_source(void)
{
    for (size_t i = 0; i < shipped_count; i++) {
        char *text = shipped_text(shipped[i]);
        cJSON *tree = cJSON_Parse(text);
        CU_ASSERT_PTR_NOT_NULL_FATAL(tree);
        check_sources(tree, false, shipped[i]);
        cJSON_Delete(tree);
        free(text);
    }
}

static const cJSON *schema_definition(const cJSON *schema, const char *name)
{
    if (strcmp(name, "platform") == 0)
        return schema;
    return cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(schema, "$defs"), name);
}

static bool is_key(const char *const *keys, size_t count, const char *key)
{
    bool found = strcmp(key, "source") == 0 || strcmp(key, "assumed") == 0;
    for (size_t i = 0; i < count; i++)
        found = found || strcmp(keys[i], key) == 0;
    return found;
}

static void check_same_keys(const cJSON *definition, const char *name,
                            const char *const *keys, size_t count)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(definition, "properties");
    for (size_t i = 0; i < count; i++) {
        bool found = cJSON_GetObjectItemCaseSensitive(properties, keys[i]) != NULL;
        if (!found)
            fprintf(stderr, "\nthe schema's %s lacks %s\n", name, keys[i]);
        CU_ASSERT_TRUE(found);
    }
    for (const cJSON *child = properties->child; child != NULL; child = child->next) {
        if (!is_key(keys, count, child->string))
            fprintf(stderr, "\nthe schema's %s has %s, the reader not\n", name,
                    child->string);
        CU_ASSERT_TRUE(is_key(keys, count, child->string));
    }
    CU_ASSERT_TRUE(cJSON_IsFalse(
        cJSON_GetObjectItemCaseSensitive(definition, "additionalProperties")));
}

/* Each set of keys of the reader is a definition of the schema and the other way round. */
static void test_schema_has_the_keys_of_the_reader(void)
{
    char *text = read_text("platforms/platform.schema.json");
    cJSON *schema = cJSON_Parse(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(schema);
    const char *keys[PLATFORM_MAX_KEYS];
    char name[64];
    size_t count = 0, sets = 0, definitions = 1;
    for (size_t i = 0; platform_key_set(i, name, keys, &count); i++) {
        const cJSON *definition = schema_definition(schema, name);
        if (definition == NULL)
            fprintf(stderr, "\nthe schema lacks %s\n", name);
        CU_ASSERT_PTR_NOT_NULL(definition);
        if (definition != NULL)
            check_same_keys(definition, name, keys, count);
        sets++;
    }
    const cJSON *defs = cJSON_GetObjectItemCaseSensitive(schema, "$defs");
    for (const cJSON *child = defs->child; child != NULL; child = child->next)
        definitions += cJSON_HasObjectItem(child, "additionalProperties") ? 1 : 0;
    CU_ASSERT_EQUAL(sets, definitions);
    CU_ASSERT_TRUE(sets > 20);
    cJSON_Delete(schema);
    free(text);
}

static const char validator[] =
    "python3 - <<'END'\n"
    "import glob, json, sys\n"
    "try:\n"
    "    from jsonschema import Draft202012Validator as V\n"
    "except ImportError:\n"
    "    sys.exit(77)\n"
    "schema = json.load(open('platforms/platform.schema.json'))\n"
    "V.check_schema(schema)\n"
    "bad = 0\n"
    "for name in sorted(glob.glob('platforms/*.json')):\n"
    "    tree = json.load(open(name))\n"
    "    for error in V(schema).iter_errors(tree if 'schema' not in name else {}):\n"
    "        if 'schema' not in name:\n"
    "            print(name, error.json_path, error.message[:200]); bad = 1\n"
    "tree = json.load(open('platforms/ipu-m2000.json'))\n"
    "for path, value in ((('processors', 'tile'), 5), (('topology', 'rung', 'latency_s'), "
    "-1),\n"
    "                    (('topology', 'kind'), 'ring'), (('processors', 'count'), 0)):\n"
    "    copy = json.loads(json.dumps(tree)); at = copy\n"
    "    for key in path[:-1]: at = at[key]\n"
    "    at[path[-1]] = value\n"
    "    if V(schema).is_valid(copy):\n"
    "        print('accepts', path, value); bad = 1\n"
    "sys.exit(bad)\n"
    "END\n";

/* Needs python3-jsonschema with draft 2020-12; without it there is nothing to ask. */
static void test_schema_accepts_the_shipped_files(void)
{
    int status = system(validator);
    CU_ASSERT_TRUE_FATAL(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)
        fputs("(no python3-jsonschema: skipped) ", stderr);
    else
        CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
}

/* Reads a damaged file: either it is still a platform, or the message names it. */
static bool survives(const char *text)
{
    struct error error = {0};
    struct platform *platform = sample_parse(text, &error);
    bool good = platform != NULL;
    CU_ASSERT_TRUE(good || (error.status == STATUS_BAD_INPUT &&
                            strncmp(error.message, "test", 4) == 0));
    if (!good && strncmp(error.message, "test", 4) != 0)
        fprintf(stderr, "\n%s\n", error.message);
    platform_free(platform);
    return good;
}

static void test_truncated_files(void)
{
    char *text = shipped_text("hypothetical");
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] != '}')
        length--;
    for (size_t end = length; end-- > 0;) {
        text[end] = '\0';
        CU_ASSERT_FALSE(survives(text));
    }
    free(text);
}

static const char *const damages[] = {"-1",
                                      "0",
                                      "1",
                                      "2",
                                      "0.5",
                                      "1e308",
                                      "9007199254740993",
                                      "null",
                                      "true",
                                      "[]",
                                      "{}",
                                      "\"\"",
                                      "\"p\"",
                                      "[1, 2]",
                                      "[[1, 1], [2, 0.5]]",
                                      "{\"kind\": \"ring\"}"};
enum { DAMAGES = sizeof(damages) / sizeof(damages[0]) };

/* Puts each damage in the place of each value below node. */
static void damage_all(cJSON *root, cJSON *node, size_t *tried, size_t *accepted)
{
    for (cJSON *child = node->child; child != NULL; child = child->next) {
        for (size_t i = 0; i < DAMAGES; i++) {
            cJSON *value = cJSON_Parse(damages[i]);
            cJSON saved = *child;
            child->child = value->child;
            child->type = value->type;
            child->valuestring = value->valuestring;
            child->valueint = value->valueint;
            child->valuedouble = value->valuedouble;
            char *text = cJSON_PrintUnformatted(root);
            child->child = saved.child;
            child->type = saved.type;
            child->valuestring = saved.valuestring;
            child->valueint = saved.valueint;
            child->valuedouble = saved.valuedouble;
            cJSON_Delete(value);
            CU_ASSERT_PTR_NOT_NULL_FATAL(text);
            *accepted += survives(text);
            ++*tried;
            cJSON_free(text);
        }
        damage_all(root, child, tried, accepted);
    }
}

static void test_damaged_files(void)
{
    static const char *const names[] = {"hypothetical", "ipu-pod128", "dgx-1-x4",
                                        "tpu-v4-4x4x4"};
    size_t tried = 0, accepted = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *text = shipped_text(names[i]);
        cJSON *tree = cJSON_Parse(text);
        CU_ASSERT_PTR_NOT_NULL_FATAL(tree);
        damage_all(tree, tree, &tried, &accepted);
        cJSON_Delete(tree);
        free(text);
    }
    /* Some damages are legal values; most are not. */
    CU_ASSERT_TRUE(tried > 2000 && accepted > 100 && accepted < tried / 2);
}

static const struct check checks[] = {
    {"all load", test_all_load},
    {"published figures", test_published_figures},
    {"every figure has a source", test_every_figure_has_a_source},
    {"the schema has the keys of the reader", test_schema_has_the_keys_of_the_reader},
    {"the schema accepts the shipped files", test_schema_accepts_the_shipped_files},
    {"truncated files", test_truncated_files},
    {"damaged files", test_damaged_files},
};

CHECK_MAIN("shipped platforms", checks)
