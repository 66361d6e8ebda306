#include "traces/tracks.h"

#include "base/checked.h"

#include <float.h>
#include <stdlib.h>

struct tracks {
    struct track *tracks;
    size_t count, capacity;
    uint32_t *waits;     /* first lane, by processor */
    uint32_t *transfers; /* first lane, by edge */
};

/* EVENT_NONE when there is no memory. */
static uint32_t add_track(struct tracks *tracks, struct track track)
{
    if (tracks->count >= EVENT_NONE ||
        !checked_grow((void **)&tracks->tracks, &tracks->capacity, tracks->count + 1,
                      sizeof(struct track)))
        return EVENT_NONE;
    track.next_resource = track.next_lane = EVENT_NONE;
    tracks->tracks[tracks->count] = track;
    return (uint32_t)tracks->count++;
}

static bool fill_tracks(struct tracks *tracks, const struct trace_header *header)
{
    tracks->waits = checked_calloc(header->processor_count, sizeof(uint32_t));
    tracks->transfers = checked_calloc(header->edge_count, sizeof(uint32_t));
    if (tracks->waits == NULL || tracks->transfers == NULL)
        return false;
    for (uint32_t i = 0; i < header->edge_count; i++)
        tracks->transfers[i] = EVENT_NONE;
    for (uint32_t i = 0; i < header->processor_count; i++) {
        tracks->waits[i] = EVENT_NONE;
        if (add_track(tracks, (struct track){TRACK_COMPUTE, .processor = i}) != i)
            return false;
    }
    return true;
}

struct tracks *tracks_create(const struct trace_header *header, struct error *error)
{
    struct tracks *tracks = checked_calloc(1, sizeof(*tracks));
    if (tracks != NULL && fill_tracks(tracks, header))
        return tracks;
    error_memory(error, "the tracks of a trace");
    tracks_free(tracks);
    return NULL;
}

void tracks_free(struct tracks *tracks)
{
    if (tracks == NULL)
        return;
    free(tracks->tracks);
    free(tracks->waits);
    free(tracks->transfers);
    free(tracks);
}

/* The first lane of the resource that the event uses, made when there is none. */
static uint32_t first_lane(struct tracks *tracks, const struct event *event)
{
    struct track wanted = {.processor = event->processor};
    if (event->kind == EVENT_COMPUTE) {
        uint32_t at = event->processor, last = at;
        for (; at != EVENT_NONE; at = tracks->tracks[at].next_resource) {
            if (tracks->tracks[at].resource == event->stream)
                return at;
            last = at;
        }
        wanted.kind = TRACK_COMPUTE;
        wanted.resource = event->stream;
        at = add_track(tracks, wanted);
        if (at != EVENT_NONE)
            tracks->tracks[last].next_resource = at;
        return at;
    }
    bool transfer = event->kind == EVENT_TRANSFER;
    uint32_t *first =
        transfer ? &tracks->transfers[event->edge] : &tracks->waits[event->processor];
    wanted.kind = transfer ? TRACK_TRANSFER : TRACK_WAIT;
    wanted.resource = transfer ? event->edge : 0;
    if (*first == EVENT_NONE)
        *first = add_track(tracks, wanted);
    return *first;
}

/* Two ways of adding up the same instant differ by a few units in the last place. */
static bool touches(const struct track *track, const struct event *event)
{
    double rounding_s = 8 * DBL_EPSILON * event->end_s;
    return event->start_s >= track->end_s - rounding_s && event->end_s >= track->end_s;
}

bool tracks_place(struct tracks *tracks, const struct event *event,
                  struct placement *placement, struct error *error)
{
    size_t before = tracks->count;
    uint32_t at = first_lane(tracks, event), last = at;
    while (at != EVENT_NONE && !touches(&tracks->tracks[at], event)) {
        last = at;
        at = tracks->tracks[at].next_lane;
    }
    if (at == EVENT_NONE && last != EVENT_NONE) {
        struct track lane = tracks->tracks[last];
        lane.lane++;
        at = add_track(tracks, lane);
        if (at != EVENT_NONE)
            tracks->tracks[last].next_lane = at;
    }
    if (at == EVENT_NONE)
        return error_memory(error, "a track of a trace");
    struct track *track = &tracks->tracks[at];
    uint64_t start_ns = event_nanoseconds(event->start_s);
    placement->track = at;
    placement->is_new = tracks->count > before;
    placement->start_ns =
        start_ns > track->end_ns || placement->is_new ? start_ns : track->end_ns;
    placement->end_ns = event_nanoseconds(event->end_s);
    track->end_ns = placement->end_ns;
    track->end_s = event->end_s;
    return true;
}

size_t tracks_count(const struct tracks *tracks)
{
    return tracks->count;
}

const struct track *tracks_get(const struct tracks *tracks, uint32_t index)
{
    return &tracks->tracks[index];
}

bool track_name(const struct track *track, const struct trace_header *header,
                struct text *name, struct error *error)
{
    text_clear(name);
    if (track->kind == TRACK_TRANSFER)
        text_append(name, "%s", header->edges[track->resource].name);
    else if (track->kind == TRACK_WAIT)
        text_append(name, "waits");
    else if (track->resource == 0)
        text_append(name, "compute");
    else
        text_append(name, "stream %u", track->resource);
    if (track->lane > 0)
        text_append(name, " (%u)", track->lane + 1);
    return !name->failed || error_memory(error, "the name of a track");
}
