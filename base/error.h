/* Errors travel as values: a function that can fail returns false (or NULL) and
 * fills the caller's struct error. The status is what the process exits with. */
#ifndef PODSIM_BASE_ERROR_H
#define PODSIM_BASE_ERROR_H

#include <stdbool.h>

enum status {
    STATUS_OK = 0,
    STATUS_FAILED = 1,     /* a check failed, a figure is out of tolerance */
    STATUS_BAD_INPUT = 2,  /* usage or input; the message names file and place */
    STATUS_IMPOSSIBLE = 3, /* the simulated machine cannot do it */
    STATUS_HOST = 4        /* this computer cannot: memory, disk, a library */
};

struct error {
    enum status status;
    char message[1024];
};

/* Fills `error` and returns false, so that callers write `return error_set(...)`. */
bool error_set(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* STATUS_HOST, "out of memory: <what>". Returns false. */
bool error_memory(struct error *error, const char *what);

/* Puts "<prefix>: " in front of the message. Returns false. */
bool error_prefix(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
