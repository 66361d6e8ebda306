/* Text that grows, and quantities written for people. */
#ifndef PODSIM_BASE_TEXT_H
#define PODSIM_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start from {0}. After a failure for lack of memory every further append fails too, so
 * that one check at the end is enough. */
struct text {
    char *data; /* ends with NUL; NULL while nothing was appended */
    size_t length, capacity;
    bool failed;
};

bool text_append(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool text_append_bytes(struct text *text, const char *bytes, size_t count);
/* The text for reading: "" when empty. Valid until the next append. */
const char *text_string(const struct text *text);
/* Keeps the memory, drops the text. */
void text_clear(struct text *text);
void text_free(struct text *text);

enum { TEXT_QUANTITY_BYTES = 24 };

/* Three significant digits and an SI unit, at most 8 characters up to 999 EB or 999 Es:
 * "0 B", "512 B", "43.2 MB", "1.23 ms". The same number always gives the same text. They
 * return `text`. */
char *text_bytes(char text[TEXT_QUANTITY_BYTES], uint64_t bytes);
char *text_seconds(char text[TEXT_QUANTITY_BYTES], double seconds);
/* Any other quantity, with the unit's SI prefix: text_si(t, 1.5e12, "FLOP/s") is
 * "1.50 TFLOP/s". The unit is cut when it does not fit. */
char *text_si(char text[TEXT_QUANTITY_BYTES], double value, const char *unit);

#endif
