#include "base/text.h"

#include "base/checked.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `count` more characters and the NUL. */
static bool make_room(struct text *text, size_t count)
{
    uint64_t needed;
    if (text->failed)
        return false;
    if (!checked_add(text->length, count, &needed) || !checked_add(needed, 1, &needed) ||
        !checked_grow((void **)&text->data, &text->capacity, (size_t)needed, 1))
        text->failed = true;
    return !text->failed;
}

bool text_append_bytes(struct text *text, const char *bytes, size_t count)
{
    if (!make_room(text, count))
        return false;
    if (count > 0)
        memcpy(text->data + text->length, bytes, count);
    text->length += count;
    text->data[text->length] = '\0';
    return true;
}

bool text_append(struct text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    size_t room = text->data == NULL ? 0 : text->capacity - text->length;
    int written =
        vsnprintf(room == 0 ? NULL : text->data + text->length, room, format, arguments);
    if (written < 0)
        text->failed = true;
    else if (!text->failed && (size_t)written >= room && make_room(text, (size_t)written))
        vsnprintf(text->data + text->length, (size_t)written + 1, format, again);
    if (!text->failed)
        text->length += (size_t)written;
    else if (text->data != NULL)
        text->data[text->length] = '\0';
    va_end(again);
    va_end(arguments);
    return !text->failed;
}

const char *text_string(const struct text *text)
{
    return text->data == NULL ? "" : text->data;
}

void text_clear(struct text *text)
{
    text->length = 0;
    if (text->data != NULL)
        text->data[0] = '\0';
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

/* Three significant digits of value in [0, 1000): "1.23", "12.3", "123". */
static const char *three_digits(char digits[16], double value)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(digits, 16, "%.*f", decimals, value);
    return digits;
}

char *text_si(char text[TEXT_QUANTITY_BYTES], double value, const char *unit)
{
    static const char *const prefix[] = {"a", "f", "p", "n", "u", "m", "",
                                         "k", "M", "G", "T", "P", "E"};
    enum { ONE = 6, LAST = sizeof(prefix) / sizeof(prefix[0]) - 1 };
    char digits[16];
    double size = fabs(value);
    if (!isfinite(value) || size == 0) {
        snprintf(text, TEXT_QUANTITY_BYTES, "%g %s", fabs(value) == 0 ? 0.0 : value, unit);
        return text;
    }
    size_t i = ONE;
    /* 999.5 would be written with four digits. */
    for (; size >= 999.5 && i < LAST; i++)
        size /= 1000;
    for (; size < 0.9995 && i > 0; i--)
        size *= 1000;
    if (size >= 999.5 || size < 0.005)
        snprintf(text, TEXT_QUANTITY_BYTES, "%.2e %s", value, unit);
    else
        snprintf(text, TEXT_QUANTITY_BYTES, "%s%s %s%s", value < 0 ? "-" : "",
                 three_digits(digits, size), prefix[i], unit);
    return text;
}

char *text_bytes(char text[TEXT_QUANTITY_BYTES], uint64_t bytes)
{
    if (bytes < 1000) {
        snprintf(text, TEXT_QUANTITY_BYTES, "%u B", (unsigned)bytes);
        return text;
    }
    return text_si(text, (double)bytes, "B");
}

char *text_seconds(char text[TEXT_QUANTITY_BYTES], double seconds)
{
    return text_si(text, seconds, "s");
}
