/* One method in depth, on the terminal: where its time and memory go, what moves, and what
 * holds it up. Everything is read from its summary. */
#ifndef PODSIM_ANALYSIS_DEPTH_H
#define PODSIM_ANALYSIS_DEPTH_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

/* A summary's method that was parsed; prints nothing of one that was stopped. False: no
 * memory. */
bool depth_print(FILE *out, const cJSON *method);

#endif
