#include "traces/output.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

bool output_open(struct file_sink *output, const char *path,
                 const struct trace_header *header, struct error *error)
{
    if (!trace_header_check(header, error))
        return false;
    output->header = header;
    output->path = strdup(path);
    if (output->path == NULL)
        return error_memory(error, path);
    output->file = fopen(path, "wb");
    if (output->file == NULL)
        return error_set(error, STATUS_HOST, "%s: cannot be written: %s", path,
                         strerror(errno));
    return true;
}

static bool write_failure(const struct file_sink *output, int code, struct error *error)
{
    return error_set(error, STATUS_HOST, "%s: writing failed: %s", output->path,
                     code == 0 ? "the disk is full or not there" : strerror(code));
}

bool output_check(struct file_sink *output, struct error *error)
{
    return !ferror(output->file) || write_failure(output, errno, error);
}

bool output_close(struct file_sink *output, struct error *error)
{
    FILE *file = output->file;
    output->file = NULL;
    bool failed = ferror(file) != 0;
    errno = 0;
    if (fclose(file) != 0 || failed)
        return write_failure(output, errno, error);
    return true;
}

void output_release(struct file_sink *output)
{
    if (output->file != NULL)
        fclose(output->file);
    free(output->path);
}

void output_number(FILE *file, double value)
{
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    const char *point = localeconv()->decimal_point;
    char *found = strcmp(point, ".") == 0 ? NULL : strstr(digits, point);
    if (found == NULL)
        fputs(digits, file);
    else
        fprintf(file, "%.*s.%s", (int)(found - digits), digits, found + strlen(point));
}

void output_csv(FILE *file, const char *text)
{
    if (strpbrk(text, "\",\r\n") == NULL && text[0] != ' ') {
        fputs(text, file);
        return;
    }
    putc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

/* Bytes of the UTF-8 character that starts here; 0 when it is none (also when it is a
 * surrogate, above U+10FFFF, or longer than needed). */
static size_t utf8_length(const unsigned char *text)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (text[0] < 0x80)
        return 1;
    size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc0 || text[0] >= 0xf8)
        return 0;
    uint32_t point = text[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (text[i] & 0x3fU);
    }
    if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    return length;
}

/* Writes the character at `text`, or its replacement; returns the bytes taken. */
static size_t put_character(FILE *file, const char *text)
{
    size_t length = utf8_length((const unsigned char *)text);
    if (length == 0) {
        fputs(REPLACEMENT, file);
        return 1;
    }
    fwrite(text, 1, length, file);
    return length;
}

void output_json(FILE *file, const char *text)
{
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    putc('"', file);
    while (*text != '\0') {
        const char *escape = strchr(named, *text);
        if (escape != NULL)
            fprintf(file, "\\%c", letters[escape - named]);
        else if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned)*text);
        else {
            text += put_character(file, text);
            continue;
        }
        text++;
    }
    putc('"', file);
}

void output_xml(FILE *file, const char *text)
{
    while (*text != '\0') {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\t':
        case '\n':
        case '\r':
            fprintf(file, "&#%d;", *text);
            break;
        default:
            if ((unsigned char)*text < 0x20)
                fputs(REPLACEMENT, file);
            else {
                text += put_character(file, text);
                continue;
            }
        }
        text++;
    }
}
