/* Where platform files are: a path as it is given, else a shipped one by its name. */
#include "base/checked.h"
#include "base/text.h"
#include "sim/platform.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct names {
    char **names;
    size_t count, capacity;
};

static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
}

static bool names_add(struct names *names, const char *name, size_t length)
{
    if (!checked_grow((void **)&names->names, &names->capacity, names->count + 1,
                      sizeof(*names->names)))
        return false;
    names->names[names->count] = strndup(name, length);
    return names->names[names->count++] != NULL;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char suffix[] = ".json", schema[] = "platform.schema.json";

/* False for lack of memory; a folder that cannot be read is an empty one. */
static bool names_list(const char *folder, struct names *names)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return true;
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(directory)) != NULL;) {
        size_t length = strlen(entry->d_name), end = sizeof(suffix) - 1;
        if (length > end && strcmp(entry->d_name + length - end, suffix) == 0 &&
            strcmp(entry->d_name, schema) != 0)
            good = names_add(names, entry->d_name, length - end);
    }
    closedir(directory);
    if (names->count > 0)
        qsort(names->names, names->count, sizeof(*names->names), by_text);
    return good;
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

static bool fail_unknown(const char *name, const char *folder, struct error *error)
{
    struct names names = {0};
    struct text list = {0};
    if (!names_list(folder, &names)) {
        names_free(&names);
        return error_memory(error, "names of platforms");
    }
    const char *const *known = (const char *const *)names.names;
    size_t nearest = names.count == 0 ? 0 : json_nearest(name, known, names.count);
    for (size_t i = 0; i < names.count; i++)
        text_append(&list, "%s%s", i > 0 ? ", " : "", names.names[i]);
    if (names.count == 0)
        text_append(&list, "none");
    error_set(
        error, STATUS_BAD_INPUT,
        "platform \"%.200s\": no such file, nor a shipped platform%s%s%s (shipped, in "
        "%.200s: %.400s)",
        name, nearest < names.count ? "; nearest is \"" : "",
        nearest < names.count ? names.names[nearest] : "",
        nearest < names.count ? "\"" : "", folder, text_string(&list));
    names_free(&names);
    text_free(&list);
    return false;
}

static struct platform *read_file(const char *path, struct error *error)
{
    struct json_file *file = json_file_read(path, error);
    if (file == NULL)
        return NULL;
    struct json_at root = json_root(file);
    struct platform *platform = platform_parse(&root, error);
    json_file_free(file);
    return platform;
}

bool platform_find(const char *path_or_name, struct text *path, struct error *error)
{
    const char *data = getenv("PODSIM_DATA");
    struct text folder = {0};
    text_clear(path);
    if (is_file(path_or_name))
        return text_append(path, "%s", path_or_name) || error_memory(error, "platform");
    text_append(&folder, "%s/platforms",
                data != NULL && data[0] != '\0' ? data : PODSIM_DATA_DIRECTORY);
    text_append(path, "%s/%s%s", text_string(&folder), path_or_name, suffix);
    bool found = false;
    if (folder.failed || path->failed)
        error_memory(error, "platform");
    else if (strchr(path_or_name, '/') == NULL && is_file(text_string(path)))
        found = true;
    else
        fail_unknown(path_or_name, text_string(&folder), error);
    text_free(&folder);
    return found;
}

struct platform *platform_read(const char *path_or_name, struct error *error)
{
    struct text path = {0};
    struct platform *platform = platform_find(path_or_name, &path, error)
                                    ? read_file(text_string(&path), error)
                                    : NULL;
    text_free(&path);
    return platform;
}
