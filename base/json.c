/* Places in a file and the values there. */
#include "base/json.h"

#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above this a JSON number, being a double, no longer holds every integer. */
static const uint64_t max_integer = UINT64_C(1) << 53;

struct json_at json_root(struct json_file *file)
{
    return (struct json_at){file, NULL, NULL, 0, json_file_tree(file)};
}

/* Appends "a.b[2].c"; returns the new length. Long paths are cut. */
static size_t write_path(const struct json_at *at, char *path, size_t size)
{
    if (at->parent == NULL)
        return 0;
    size_t used = write_path(at->parent, path, size);
    int written = at->key == NULL ? snprintf(path + used, size - used, "[%zu]", at->index)
                                  : snprintf(path + used, size - used, "%s%s",
                                             used > 0 ? "." : "", at->key);
    used += written < 0 ? 0 : (size_t)written;
    return used < size ? used : size - 1;
}

bool json_fail(const struct json_at *at, struct error *error, const char *format, ...)
{
    char message[sizeof(error->message)], path[256] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    size_t used = write_path(at, path, sizeof(path));
    return error_set(error, STATUS_BAD_INPUT, "%s: %s%s%s%s", json_file_name(at->file), path,
                     used > 0 ? ": " : "", message,
                     json_file_was_set(at) ? " (a value that was set by an option)" : "");
}

/* What stands at a place, for messages: `the string "abc"`. */
static const char *found(const cJSON *node, char text[80])
{
    if (cJSON_IsString(node))
        snprintf(text, 80, "the string \"%.50s\"", node->valuestring);
    else if (cJSON_IsNumber(node))
        snprintf(text, 80, "%.17g", node->valuedouble);
    else
        snprintf(text, 80, "%s",
                 cJSON_IsObject(node)  ? "an object"
                 : cJSON_IsArray(node) ? "a list"
                 : cJSON_IsTrue(node)  ? "true"
                 : cJSON_IsFalse(node) ? "false"
                                       : "null");
    return text;
}

static bool fail_type(const struct json_at *at, const char *wanted, struct error *error)
{
    char text[80];
    return json_fail(at, error, "must be %s, not %s", wanted, found(at->node, text));
}

bool json_is_object(const struct json_at *at)
{
    return cJSON_IsObject(at->node);
}

bool json_is_array(const struct json_at *at)
{
    return cJSON_IsArray(at->node);
}

bool json_is_string(const struct json_at *at)
{
    return cJSON_IsString(at->node);
}

bool json_is_number(const struct json_at *at)
{
    return cJSON_IsNumber(at->node);
}

/* Hyphens, underscores and case are the commonest slips: they cost nothing. */
static char folded(char c)
{
    return c == '-' || c == ' ' ? '_' : (char)tolower((unsigned char)c);
}

enum { MAX_WORD = 63 };

/* Edits (insert, delete, replace, swap neighbours) from a to b; both at most MAX_WORD. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[3][MAX_WORD + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    size_t *before = row[0], *last = row[1], *here = row[2];
    for (size_t j = 0; j <= b_length; j++)
        before[j] = last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        here[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = last[j - 1] + (folded(a[i - 1]) != folded(b[j - 1]));
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (here[j - 1] + 1 < best)
                best = here[j - 1] + 1;
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1]) && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            here[j] = best;
        }
        size_t *spare = before;
        before = last;
        last = here;
        here = spare;
    }
    return last[b_length];
}

size_t json_nearest(const char *word, const char *const *names, size_t count)
{
    size_t length = strlen(word), nearest = count, best = SIZE_MAX;
    for (size_t i = 0; i < count && length <= MAX_WORD; i++) {
        size_t other = strlen(names[i]);
        if (other > MAX_WORD)
            continue;
        size_t distance = edit_distance(word, names[i]);
        size_t limit = (length > other ? length : other) / 3 + (length > 1);
        if (distance <= limit && distance < best && distance < other) {
            best = distance;
            nearest = i;
        }
    }
    return nearest;
}

/* Refuses `word` with a list of what is known and the nearest of it. */
static bool fail_unknown(const struct json_at *at, const char *what, const char *word,
                         const char *const *names, size_t count, struct error *error)
{
    struct text list = {0};
    for (size_t i = 0; i < count; i++)
        text_append(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    size_t nearest = json_nearest(word, names, count);
    if (nearest < count)
        json_fail(at, error, "unknown %s \"%.60s\", nearest known is \"%s\" (known: %s)",
                  what, word, names[nearest], text_string(&list));
    else
        json_fail(at, error, "unknown %s \"%.60s\" (known: %s)", what, word,
                  text_string(&list));
    text_free(&list);
    return false;
}

bool json_keys(const struct json_at *object, const char *const *allowed, size_t count,
               struct error *error)
{
    if (!json_is_object(object))
        return fail_type(object, "an object", error);
    for (const cJSON *child = object->node->child; child != NULL; child = child->next) {
        bool known = strncmp(child->string, "comment", 7) == 0;
        for (size_t i = 0; i < count && !known; i++)
            known = strcmp(child->string, allowed[i]) == 0;
        if (!known)
            return fail_unknown(object, "key", child->string, allowed, count, error);
    }
    return true;
}

bool json_optional(const struct json_at *object, const char *key, struct json_at *member)
{
    cJSON *node =
        json_is_object(object) ? cJSON_GetObjectItemCaseSensitive(object->node, key) : NULL;
    if (node == NULL)
        return false;
    *member = (struct json_at){object->file, object, node->string, 0, node};
    return true;
}

bool json_member(const struct json_at *object, const char *key, struct json_at *member,
                 struct error *error)
{
    if (!json_is_object(object))
        return fail_type(object, "an object", error);
    if (!json_optional(object, key, member))
        return json_fail(object, error, "the key \"%s\" is missing", key);
    return true;
}

size_t json_length(const struct json_at *array)
{
    size_t count = 0;
    if (json_is_array(array))
        for (const cJSON *child = array->node->child; child != NULL; child = child->next)
            count++;
    return count;
}

static cJSON *child_at(const cJSON *node, size_t index)
{
    cJSON *child = node->child;
    for (; child != NULL && index > 0; index--)
        child = child->next;
    return child;
}

bool json_element(const struct json_at *array, size_t index, struct json_at *element)
{
    cJSON *node = json_is_array(array) ? child_at(array->node, index) : NULL;
    if (node == NULL)
        return false;
    *element = (struct json_at){array->file, array, NULL, index, node};
    return true;
}

bool json_entry(const struct json_at *object, size_t index, struct json_at *member)
{
    cJSON *node = json_is_object(object) ? child_at(object->node, index) : NULL;
    if (node == NULL)
        return false;
    *member = (struct json_at){object->file, object, node->string, index, node};
    return true;
}

bool json_next(struct json_at *at)
{
    if (at->parent == NULL || at->node->next == NULL)
        return false;
    at->node = at->node->next;
    at->index++;
    at->key = at->node->string;
    return true;
}

bool json_u64(const struct json_at *at, uint64_t minimum, uint64_t maximum, uint64_t *value,
              struct error *error)
{
    if (!json_is_number(at))
        return fail_type(at, "an integer", error);
    double number = at->node->valuedouble;
    if (number != floor(number))
        return fail_type(at, "an integer", error);
    if (maximum > max_integer)
        maximum = max_integer;
    if (number < 0 || number > (double)maximum || (uint64_t)number < minimum)
        return json_fail(at, error, "must be an integer from %llu to %llu, not %.17g",
                         (unsigned long long)minimum, (unsigned long long)maximum, number);
    *value = (uint64_t)number;
    return true;
}

bool json_number(const struct json_at *at, double minimum, double maximum, double *value,
                 struct error *error)
{
    if (!json_is_number(at))
        return fail_type(at, "a number", error);
    double number = at->node->valuedouble;
    if (!isfinite(number))
        return json_fail(at, error, "must be a finite number");
    if (number < minimum && maximum == INFINITY)
        return json_fail(at, error, "must be a number not below %g, not %.17g", minimum,
                         number);
    if (number < minimum || number > maximum)
        return json_fail(at, error, "must be a number from %g to %g, not %.17g", minimum,
                         maximum, number);
    *value = number;
    return true;
}

bool json_string(const struct json_at *at, const char **value, struct error *error)
{
    if (!json_is_string(at))
        return fail_type(at, "a string", error);
    *value = at->node->valuestring;
    return true;
}

bool json_boolean(const struct json_at *at, bool *value, struct error *error)
{
    if (!cJSON_IsBool(at->node))
        return fail_type(at, "true or false", error);
    *value = cJSON_IsTrue(at->node);
    return true;
}

bool json_choice(const struct json_at *at, const char *const *names, size_t count,
                 size_t *chosen, struct error *error)
{
    const char *word = NULL;
    if (!json_string(at, &word, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, names[i]) == 0) {
            *chosen = i;
            return true;
        }
    }
    return fail_unknown(at, "value", word, names, count, error);
}

/* Takes the node that a default became; NULL is lack of memory. */
static bool put_default(const struct json_at *object, const char *key, cJSON *node,
                        struct error *error)
{
    if (!json_is_object(object)) {
        cJSON_Delete(node);
        return fail_type(object, "an object", error);
    }
    if (node == NULL || !cJSON_AddItemToObject(object->node, key, node)) {
        cJSON_Delete(node);
        return error_memory(error, "JSON default");
    }
    return true;
}

bool json_read_u64(const struct json_at *object, const char *key, uint64_t minimum,
                   uint64_t maximum, uint64_t *value, struct error *error)
{
    struct json_at member;
    if (json_optional(object, key, &member))
        return json_u64(&member, minimum, maximum, value, error);
    if (*value > max_integer)
        return true;
    return put_default(object, key, cJSON_CreateNumber((double)*value), error);
}

bool json_read_number(const struct json_at *object, const char *key, double minimum,
                      double maximum, double *value, struct error *error)
{
    struct json_at member;
    if (json_optional(object, key, &member))
        return json_number(&member, minimum, maximum, value, error);
    if (!isfinite(*value))
        return true;
    return put_default(object, key, cJSON_CreateNumber(*value), error);
}

bool json_read_string(const struct json_at *object, const char *key, const char **value,
                      struct error *error)
{
    struct json_at member;
    if (json_optional(object, key, &member))
        return json_string(&member, value, error);
    if (*value == NULL)
        return true;
    return put_default(object, key, cJSON_CreateString(*value), error);
}

bool json_read_boolean(const struct json_at *object, const char *key, bool *value,
                       struct error *error)
{
    struct json_at member;
    if (json_optional(object, key, &member))
        return json_boolean(&member, value, error);
    return put_default(object, key, cJSON_CreateBool(*value), error);
}

bool json_read_choice(const struct json_at *object, const char *key,
                      const char *const *names, size_t count, size_t *chosen,
                      struct error *error)
{
    struct json_at member;
    if (json_optional(object, key, &member))
        return json_choice(&member, names, count, chosen, error);
    if (*chosen >= count)
        return true;
    return put_default(object, key, cJSON_CreateString(names[*chosen]), error);
}

static bool make_exact(cJSON *number)
{
    char text[32];
    snprintf(text, sizeof text, "%.15g", number->valuedouble);
    if (strtod(text, NULL) == number->valuedouble)
        return true;
    snprintf(text, sizeof text, "%.17g", number->valuedouble);
    number->valuestring = cJSON_malloc(strlen(text) + 1);
    if (number->valuestring == NULL)
        return false;
    strcpy(number->valuestring, text);
    number->type = cJSON_Raw | (number->type & cJSON_StringIsConst);
    return true;
}

bool json_exact_numbers(cJSON *tree)
{
    if (cJSON_IsNumber(tree))
        return make_exact(tree);
    for (cJSON *child = tree->child; child != NULL; child = child->next)
        if (!json_exact_numbers(child))
            return false;
    return true;
}
