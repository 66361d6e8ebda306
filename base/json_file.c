/* The file as a whole: reading, parsing, checking its form, and setting a value. */
#include "base/json.h"

#include "base/checked.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILE_BYTES = 64 << 20 };

struct json_file {
    char *name;
    cJSON *tree;
    const cJSON **set; /* places that json_file_set has filled */
    size_t set_count, set_capacity;
};

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* By sorting, so that an object of a million keys is no trap. */
static bool check_keys_once(const struct json_at *at, size_t count, struct error *error)
{
    const char **keys = checked_calloc(count, sizeof(*keys));
    if (keys == NULL)
        return error_memory(error, "keys of a JSON object");
    size_t filled = 0;
    for (const cJSON *child = at->node->child; child != NULL; child = child->next)
        keys[filled++] = child->string;
    qsort(keys, count, sizeof(*keys), compare_keys);
    bool good = true;
    for (size_t i = 1; i < count && good; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            good = json_fail(at, error, "the key \"%s\" is given twice", keys[i]);
    free(keys);
    return good;
}

/* The recursion is no deeper than cJSON's nesting limit of 1000. */
static bool check_form(const struct json_at *at, struct error *error)
{
    if (cJSON_IsNumber(at->node) && !isfinite(at->node->valuedouble))
        return json_fail(at, error, "the number is too large for a double");
    size_t count = 0;
    for (const cJSON *child = at->node->child; child != NULL; child = child->next)
        count++;
    if (count > 1 && cJSON_IsObject(at->node) && !check_keys_once(at, count, error))
        return false;
    struct json_at child = {at->file, at, NULL, 0, at->node->child};
    for (; child.node != NULL; child.node = child.node->next, child.index++) {
        child.key = child.node->string;
        if (!check_form(&child, error))
            return false;
    }
    return true;
}

/* The bytes of the UTF-8 character at c, 0 when it is none (RFC 3629). */
static size_t utf8_length(const unsigned char *c)
{
    size_t length = c[0] < 0x80   ? 1
                    : c[0] < 0xC2 ? 0
                    : c[0] < 0xE0 ? 2
                    : c[0] < 0xF0 ? 3
                    : c[0] < 0xF5 ? 4
                                  : 0;
    for (size_t i = 1; i < length; i++)
        if ((c[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
    bool surrogate = c[0] == 0xED && c[1] > 0x9F;
    bool beyond = c[0] == 0xF4 && c[1] > 0x8F;
    return overlong || surrogate || beyond ? 0 : length;
}

/* What cJSON lets pass: bytes that are not UTF-8 would make every file we write from them
 * unreadable, and an escaped NUL would end a string early. NULL when all is well. */
static const char *find_bad_character(const char *text)
{
    for (const char *c = text; *c != '\0';) {
        if (strncmp(c, "\\u0000", 6) == 0)
            return c;
        size_t length = utf8_length((const unsigned char *)c);
        if (length == 0)
            return c;
        c += *c == '\\' && (c[1] == '\\' || c[1] == '"') ? 2 : length;
    }
    return NULL;
}

static const char *skip_digits(const char *c)
{
    return c + strspn(c, "0123456789");
}

/* One past a number as JSON writes it (RFC 8259, section 6), whose start is given; NULL:
 * it is none. `integer`: without fraction and exponent. */
static const char *number_end(const char *c, bool *integer)
{
    c += *c == '-';
    const char *end = *c == '0' ? c + 1 : skip_digits(c);
    *integer = true;
    if (end == c)
        return NULL;
    if (*end == '.') {
        *integer = false;
        c = end + 1;
        end = skip_digits(c);
        if (end == c)
            return NULL;
    }
    if (*end == 'e' || *end == 'E') {
        *integer = false;
        c = end + 1 + (end[1] == '+' || end[1] == '-');
        end = skip_digits(c);
        if (end == c)
            return NULL;
    }
    return strchr("0123456789+-.eE", *end) != NULL && *end != '\0' ? NULL : end;
}

/* The double that is read for an integer is another one. */
static bool inexact(const char *digits, size_t length)
{
    char nearest[400];
    int count = snprintf(nearest, sizeof nearest, "%.0f", strtod(digits, NULL));
    return length > 15 &&
           ((size_t)count != length || memcmp(nearest, digits, length) != 0);
}

/* What cJSON lets pass: numbers that JSON has not, such as 03, and integers that a double
 * would make another of. NULL when all is well. */
static const char *find_bad_number(const char *text, const char **what)
{
    bool quoted = false;
    for (const char *c = text; *c != '\0'; c++) {
        if (quoted && *c == '\\' && c[1] != '\0') {
            c++;
            continue;
        }
        if (*c == '"')
            quoted = !quoted;
        if (quoted || (*c != '-' && !isdigit((unsigned char)*c)))
            continue;
        bool integer;
        const char *end = number_end(c, &integer);
        const char *digits = c + (*c == '-');
        *what = end == NULL ? "is not a number as JSON writes it"
                            : "is an integer that no double equals";
        if (end == NULL || (integer && inexact(digits, (size_t)(end - digits))))
            return c;
        c = end - 1;
    }
    return NULL;
}

/* The parser gives up at a depth of its own. */
static bool too_deep(const char *text, const char *end)
{
    size_t depth = 0;
    bool quoted = false;
    for (const char *c = text; c < end; c++) {
        if (quoted && *c == '\\' && c + 1 < end)
            c++;
        else if (*c == '"')
            quoted = !quoted;
        else if (!quoted && (*c == '[' || *c == '{'))
            depth++;
        else if (!quoted && (*c == ']' || *c == '}') && depth > 0)
            depth--;
    }
    return depth >= CJSON_NESTING_LIMIT;
}

static void find_place(const char *text, const char *at, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (const char *c = text; c < at; c++) {
        *column = *c == '\n' ? 1 : *column + 1;
        *line += *c == '\n';
    }
}

static bool check_numbers(const char *name, const char *text, struct error *error)
{
    const char *what, *bad = find_bad_number(text, &what);
    size_t line, column;
    if (bad == NULL)
        return true;
    find_place(text, bad, &line, &column);
    return error_set(error, STATUS_BAD_INPUT, "%s:%zu:%zu: %.*s %s", name, line, column,
                     (int)strspn(bad, "0123456789+-.eE"), bad, what);
}

/* Says where in the text the parser stopped. */
static void fail_syntax(const char *name, const char *text, const char *end,
                        struct error *error)
{
    size_t line, column;
    find_place(text, end, &line, &column);
    if (end[strspn(end, " \t\r\n")] == '\0') {
        error_set(error, STATUS_BAD_INPUT, "%s:%zu:%zu: not JSON: the text ends too early",
                  name, line, column);
        return;
    }
    if (too_deep(text, end)) {
        error_set(error, STATUS_BAD_INPUT, "%s:%zu:%zu: nested deeper than %d", name, line,
                  column, CJSON_NESTING_LIMIT);
        return;
    }
    char near[25];
    size_t used = 0;
    for (; used < sizeof(near) - 1 && isprint((unsigned char)end[used]); used++)
        near[used] = end[used];
    near[used] = '\0';
    if (used == 0)
        snprintf(near, sizeof(near), "byte 0x%02x", (unsigned)(unsigned char)end[0]);
    error_set(error, STATUS_BAD_INPUT, "%s:%zu:%zu: not JSON at: %s", name, line, column,
              near);
}

struct json_file *json_file_parse(const char *name, const char *text, struct error *error)
{
    struct json_file *file = checked_calloc(1, sizeof(*file));
    if (file == NULL || (file->name = strdup(name)) == NULL) {
        error_memory(error, "JSON file");
        json_file_free(file);
        return NULL;
    }
    const char *end = find_bad_character(text);
    if (end == NULL)
        file->tree = cJSON_ParseWithOpts(text, &end, 1);
    if (file->tree == NULL) {
        fail_syntax(name, text, end, error);
        json_file_free(file);
        return NULL;
    }
    struct json_at root = json_root(file);
    if (!check_numbers(name, text, error) || !check_form(&root, error)) {
        json_file_free(file);
        return NULL;
    }
    return file;
}

void json_file_free(struct json_file *file)
{
    if (file == NULL)
        return;
    cJSON_Delete(file->tree);
    free(file->set);
    free(file->name);
    free(file);
}

const char *json_file_name(const struct json_file *file)
{
    return file->name;
}

bool json_file_was_set(const struct json_at *at)
{
    for (const struct json_at *up = at; up != NULL; up = up->parent)
        for (size_t i = 0; i < up->file->set_count; i++)
            if (up->file->set[i] == up->node)
                return true;
    return false;
}

cJSON *json_file_tree(const struct json_file *file)
{
    return file->tree;
}

/* The whole stream, with a NUL behind it. It may be a pipe, so its size is not asked. */
static char *read_stream(FILE *stream, const char *path, struct error *error)
{
    char *text = NULL;
    size_t capacity = 0, length = 0, got;
    do {
        if (!checked_grow((void **)&text, &capacity, length + 65536, 1)) {
            error_memory(error, path);
            free(text);
            return NULL;
        }
        got = fread(text + length, 1, capacity - length - 1, stream);
        length += got;
    } while (got > 0 && length <= MAX_FILE_BYTES);
    text[length] = '\0';
    if (ferror(stream))
        error_set(error, STATUS_BAD_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    else if (length > MAX_FILE_BYTES)
        error_set(error, STATUS_BAD_INPUT, "%s: larger than %d MiB", path,
                  MAX_FILE_BYTES >> 20);
    else if (strspn(text, " \t\r\n") == length)
        error_set(error, STATUS_BAD_INPUT, "%s: the file is empty", path);
    else if (strlen(text) != length)
        error_set(error, STATUS_BAD_INPUT, "%s: not a text: byte %zu is NUL", path,
                  strlen(text));
    else
        return text;
    free(text);
    return NULL;
}

struct json_file *json_file_read(const char *path, struct error *error)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        error_set(error, STATUS_BAD_INPUT, "%s: is a directory, not a JSON file", path);
        return NULL;
    }
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        error_set(error, STATUS_BAD_INPUT, "%s: cannot be opened: %s", path,
                  strerror(errno));
        return NULL;
    }
    char *text = read_stream(stream, path, error);
    fclose(stream);
    if (text == NULL)
        return NULL;
    struct json_file *file = json_file_parse(path, text, error);
    free(text);
    return file;
}

/* An element by index or by its "name", which is by default its "kind"; NULL with the
 * reason. */
static cJSON *find_element(const struct json_at *array, const char *word,
                           struct error *error)
{
    size_t count = json_length(array);
    struct json_at element;
    if (word[0] != '\0' && strspn(word, "0123456789") == strlen(word)) {
        errno = 0;
        unsigned long long index = strtoull(word, NULL, 10);
        if (errno == 0 && index < count && json_element(array, (size_t)index, &element))
            return element.node;
        json_fail(array, error, "has no element %s, only %zu elements", word, count);
        return NULL;
    }
    bool more = json_element(array, 0, &element);
    for (; more; more = json_next(&element)) {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(element.node, "name");
        if (name == NULL)
            name = cJSON_GetObjectItemCaseSensitive(element.node, "kind");
        if (cJSON_IsString(name) && strcmp(name->valuestring, word) == 0)
            return element.node;
    }
    json_fail(array, error,
              "has no element with the name \"%s\" (elements are named by "
              "\"name\" or counted from 0)",
              word);
    return NULL;
}

/* The place that `word` names in `at`, made an empty object when missing. */
static cJSON *step_down(const struct json_at *at, const char *word, struct error *error)
{
    if (cJSON_IsArray(at->node))
        return find_element(at, word, error);
    if (!cJSON_IsObject(at->node)) {
        json_fail(at, error, "has nothing below it: no \"%s\" can be set", word);
        return NULL;
    }
    cJSON *member = cJSON_GetObjectItemCaseSensitive(at->node, word);
    if (member == NULL && (member = cJSON_AddObjectToObject(at->node, word)) == NULL)
        error_memory(error, "JSON object");
    return member;
}

/* Puts what `value` holds in the place of what `node` holds, and keeps its key. */
static void replace_contents(cJSON *node, cJSON *value)
{
    cJSON old = *node;
    *node = *value;
    node->next = old.next;
    node->prev = old.prev;
    node->string = old.string;
    *value = old;
    value->next = value->prev = NULL;
    value->string = NULL;
    cJSON_Delete(value);
}

bool json_expand(const struct json_at *at, const char *key, struct error *error)
{
    if (!json_is_string(at))
        return true;
    cJSON *object = cJSON_CreateObject();
    if (object == NULL || !cJSON_AddStringToObject(object, key, at->node->valuestring)) {
        cJSON_Delete(object);
        return error_memory(error, "JSON object");
    }
    replace_contents(at->node, object);
    return true;
}

static bool note_set(struct json_file *file, const cJSON *node, struct error *error)
{
    if (!checked_grow((void **)&file->set, &file->set_capacity, file->set_count + 1,
                      sizeof *file->set))
        return error_memory(error, "JSON places");
    file->set[file->set_count++] = node;
    return true;
}

static bool set_below(const struct json_at *at, char *path, const char *value,
                      struct error *error)
{
    if (path == NULL) {
        if (find_bad_character(value) != NULL)
            return json_fail(at, error, "the value to set is not UTF-8 text");
        const char *what, *bad;
        cJSON *parsed = cJSON_ParseWithOpts(value, NULL, 1);
        if (parsed != NULL && (bad = find_bad_number(value, &what)) != NULL) {
            cJSON_Delete(parsed);
            return json_fail(at, error, "%.*s %s", (int)strspn(bad, "0123456789+-.eE"), bad,
                             what);
        }
        if (parsed == NULL)
            parsed = cJSON_CreateString(value);
        if (parsed == NULL)
            return error_memory(error, "JSON value");
        struct json_at checked = *at;
        checked.node = parsed;
        if (!check_form(&checked, error)) {
            cJSON_Delete(parsed);
            return false;
        }
        replace_contents(at->node, parsed);
        return note_set(at->file, at->node, error);
    }
    char *rest = strchr(path, '.');
    if (rest != NULL)
        *rest++ = '\0';
    if (path[0] == '\0')
        return json_fail(at, error, "a path to set has an empty word");
    struct json_at below = {at->file, at, NULL, 0, step_down(at, path, error)};
    if (below.node == NULL)
        return false;
    if (cJSON_IsObject(at->node))
        below.key = below.node->string;
    else
        for (const cJSON *c = at->node->child; c != below.node; c = c->next)
            below.index++;
    return set_below(&below, rest, value, error);
}

bool json_file_set(struct json_file *file, const char *path, const char *value,
                   struct error *error)
{
    enum { MAX_PATH_BYTES = 4096 };
    if (strlen(path) >= MAX_PATH_BYTES)
        return error_set(error, STATUS_BAD_INPUT, "%s: a path to set is too long",
                         file->name);
    char *words = strdup(path);
    if (words == NULL)
        return error_memory(error, "JSON path");
    struct json_at root = json_root(file);
    bool done = set_below(&root, words, value, error);
    free(words);
    return done;
}
