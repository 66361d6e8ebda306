#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool error_set(struct error *error, enum status status, const char *format, ...)
{
    /* Into a copy first: an argument may be the old message itself. */
    char message[sizeof(error->message)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    memcpy(error->message, message, sizeof(message));
    error->status = status;
    return false;
}

bool error_memory(struct error *error, const char *what)
{
    return error_set(error, STATUS_HOST, "out of memory: %s", what);
}

bool error_prefix(struct error *error, const char *format, ...)
{
    char prefix[sizeof(error->message) - 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof(prefix), format, arguments);
    va_end(arguments);
    size_t used = strlen(prefix), kept = strlen(error->message);
    if (kept > sizeof(error->message) - used - 3)
        kept = sizeof(error->message) - used - 3;
    memmove(error->message + used + 2, error->message, kept);
    memcpy(error->message, prefix, used);
    memcpy(error->message + used, ": ", 2);
    error->message[used + 2 + kept] = '\0';
    return false;
}
