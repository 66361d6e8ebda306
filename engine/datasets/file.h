/* Data files, plain or compressed with gzip, whose every complaint names the file and the
 * byte (of the uncompressed data). Inside the engine only. */
#ifndef PODSIM_ENGINE_DATASETS_FILE_H
#define PODSIM_ENGINE_DATASETS_FILE_H

#include "base/error.h"
#include "engine/scalar.h"

#include <stdint.h>
#include <zlib.h>

struct data_file {
    const char *path; /* borrowed */
    gzFile stream;
    uint64_t offset;
};

/* `source` says where one gets a missing file from; NULL: nothing to say. */
bool data_file_open(struct data_file *file, const char *path, const char *source,
                    struct error *error);
void data_file_close(struct data_file *file);
/* Exactly so many bytes, or a complaint about a truncated file. */
bool data_file_read(struct data_file *file, void *bytes, size_t count, struct error *error);
/* The same into new memory that the caller frees. Memory is taken as data arrives, so that
 * a wrong count in a header cannot ask for all of it. */
uint8_t *data_file_read_array(struct data_file *file, uint64_t count, struct error *error);
/* All that is left. */
uint8_t *data_file_read_rest(struct data_file *file, uint64_t *count, struct error *error);
/* Nothing may follow. Also where a gzip check sum is verified. */
bool data_file_end(struct data_file *file, struct error *error);

/* "<folder>/<name>"; the caller frees. */
char *data_file_path(const char *folder, const char *name, struct error *error);

/* For each channel's 256 pixel values: (value / 255 - mean) / deviation. */
enum { PIXEL_MAX_CHANNELS = 3 };
struct pixel_table {
    scalar value[PIXEL_MAX_CHANNELS][256];
};
void pixel_table_fill(struct pixel_table *table, size_t channels, const double *mean,
                      const double *deviation);

#endif
