/* Which line of a timeline a slice is drawn on. A viewer drops, or nests wrongly, slices
 * of one line that overlap; so every resource has a line of its own, and what overlaps
 * on a resource (two messages under way on one edge) goes to a further lane of it. */
#ifndef PODSIM_TRACES_TRACKS_H
#define PODSIM_TRACES_TRACKS_H

#include "base/text.h"
#include "traces/event.h"

enum track_kind { TRACK_COMPUTE, TRACK_WAIT, TRACK_TRANSFER };

struct track {
    enum track_kind kind;
    uint32_t processor;
    uint32_t resource; /* stream of a compute track, edge of a transfer track, else 0 */
    uint32_t lane;
    /* private to tracks.c */
    uint32_t next_resource, next_lane;
    uint64_t end_ns;
    double end_s;
};

struct placement {
    uint32_t track;
    bool is_new; /* the track's first slice, or its lane's */
    uint64_t start_ns, end_ns;
};

struct tracks;

/* Tracks 0 .. processor_count - 1 are the processors' main streams and are there from
 * the start; further ones come as they are needed. */
struct tracks *tracks_create(const struct trace_header *header, struct error *error);
void tracks_free(struct tracks *tracks);

/* The place of a compute, wait or transfer event. Ends that differ from the next start by
 * the rounding of the simulation's doubles count as touching. */
bool tracks_place(struct tracks *tracks, const struct event *event,
                  struct placement *placement, struct error *error);
size_t tracks_count(const struct tracks *tracks);
const struct track *tracks_get(const struct tracks *tracks, uint32_t index);

/* Sets `name`: "compute", "stream 1", "waits", or the edge's name; then " (2)" in lane 1
 * and so on. */
bool track_name(const struct track *track, const struct trace_header *header,
                struct text *name, struct error *error);

#endif
