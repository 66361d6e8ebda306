/* The comparison on the terminal. */
#ifndef PODSIM_ANALYSIS_TABLE_H
#define PODSIM_ANALYSIS_TABLE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Columns are as wide as their longest cell; numbers are right-aligned. cells has
 * rows x columns texts, the first row the heading. */
void table_print(FILE *out, const char *const *cells, size_t rows, size_t columns);
/* The same where other columns hold words: bit c of `left` says that column c does. */
void table_print_left(FILE *out, const char *const *cells, size_t rows, size_t columns,
                      uint32_t left);

/* A summary's methods (objects), one row each, a line on each that does not fit, which is
 * best in what, and what the columns mean. False: no memory. */
bool table_compare(FILE *out, const cJSON *methods, bool numerics);

#endif
