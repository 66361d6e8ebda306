/* A strict reader over cJSON: every complaint names the file and the place in it,
 * unknown and repeated keys are errors, and a default that is used is written into
 * the tree, so that the tree is at the end the fully resolved input. */
#ifndef PODSIM_BASE_JSON_H
#define PODSIM_BASE_JSON_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

struct json_file; /* owns the tree and the name used in messages */

/* A place in a file. Lives on the caller's stack; valid while its parents are. */
struct json_at {
    struct json_file *file;
    const struct json_at *parent; /* NULL at the root */
    const char *key;              /* in an object */
    size_t index;                 /* in an array, when key is NULL */
    cJSON *node;
};

/* Reads and parses; NULL with file:line on failure. Refuses trailing text, keys given
 * twice, numbers beyond the range of double, and files above 64 MiB. */
struct json_file *json_file_read(const char *path, struct error *error);
struct json_file *json_file_parse(const char *name, const char *text, struct error *error);
void json_file_free(struct json_file *file);
const char *json_file_name(const struct json_file *file);
cJSON *json_file_tree(const struct json_file *file);
/* Sets a value by dotted path ("a.b.0.c"); the value is JSON or, if it does not parse
 * as JSON, a string. In an array of objects an element may also be named by its
 * "name" or, without one, its "kind". Intermediate objects are made when missing. */
bool json_file_set(struct json_file *file, const char *path, const char *value,
                   struct error *error);

struct json_at json_root(struct json_file *file);

/* Fills error with "file: a.b[2].c: <message>", STATUS_BAD_INPUT. Returns false. */
bool json_fail(const struct json_at *at, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The place must be an object with only these keys, each once. The complaint about an
 * unknown key lists what is allowed and the nearest known name. Keys that begin with
 * "comment" are allowed anywhere. */
bool json_keys(const struct json_at *object, const char *const *allowed, size_t count,
               struct error *error);
bool json_is_object(const struct json_at *at);
bool json_is_array(const struct json_at *at);
bool json_is_string(const struct json_at *at);
bool json_is_number(const struct json_at *at);

/* A member that must be there / may be there (false: absent). */
bool json_member(const struct json_at *object, const char *key, struct json_at *member,
                 struct error *error);
bool json_optional(const struct json_at *object, const char *key, struct json_at *member);
/* The array's length; 0 when it is no array. */
size_t json_length(const struct json_at *array);
bool json_element(const struct json_at *array, size_t index, struct json_at *element);
/* The members of an object in file order: false when index is past the last. */
bool json_entry(const struct json_at *object, size_t index, struct json_at *member);
/* Moves a place to its next sibling, in constant time; false when it is the last. */
bool json_next(struct json_at *at);
/* The value at the place, or what it is part of, came from json_file_set: messages say so. */
bool json_file_was_set(const struct json_at *at);
/* Where a word may stand for an object: turns the string "x" at a place into
 * {"<key>": "x"}, in the tree. Other values are left alone. */
bool json_expand(const struct json_at *at, const char *key, struct error *error);

/* The value at a place, checked for type and range. Integers above 2^53 are refused,
 * whatever the maximum: a JSON number cannot hold them all. */
bool json_u64(const struct json_at *at, uint64_t minimum, uint64_t maximum, uint64_t *value,
              struct error *error);
bool json_number(const struct json_at *at, double minimum, double maximum, double *value,
                 struct error *error);
bool json_string(const struct json_at *at, const char **value, struct error *error);
bool json_boolean(const struct json_at *at, bool *value, struct error *error);
/* A string that must be one of `names`; its index comes back. */
bool json_choice(const struct json_at *at, const char *const *names, size_t count,
                 size_t *chosen, struct error *error);

/* A member with a default: *value is kept when the key is absent, and then written into
 * the tree (but for what JSON cannot hold: NULL, a non-finite number, an integer above
 * 2^53, an index that names no choice). */
bool json_read_u64(const struct json_at *object, const char *key, uint64_t minimum,
                   uint64_t maximum, uint64_t *value, struct error *error);
bool json_read_number(const struct json_at *object, const char *key, double minimum,
                      double maximum, double *value, struct error *error);
bool json_read_string(const struct json_at *object, const char *key, const char **value,
                      struct error *error);
bool json_read_boolean(const struct json_at *object, const char *key, bool *value,
                       struct error *error);
bool json_read_choice(const struct json_at *object, const char *key, const char *const *names,
                      size_t count, size_t *chosen, struct error *error);

/* The index of the known name nearest to `word` by edit distance, or `count` when none
 * is near enough to be a likely slip. */
size_t json_nearest(const char *word, const char *const *names, size_t count);

/* Makes raw text of the numbers that cJSON would print with too few digits, so that whoever
 * reads the printed tree has the same numbers. */
bool json_exact_numbers(cJSON *tree);

#endif
