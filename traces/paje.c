/* trace.paje: for ViTE, PajeNG and the other tools of SimGrid's users.
 *
 * Paje wants its lines in order of time, while an event comes when it has ended; so the
 * kept events are held until the end of the run, the one format that does so. */
#include "base/checked.h"
#include "traces/formats.h"
#include "traces/output.h"
#include "traces/palette.h"
#include "traces/tracks.h"

#include <inttypes.h>
#include <stdlib.h>

/* The numbers of the event definitions below. */
enum line_kind {
    DEFINE_CONTAINER,
    DEFINE_STATE,
    DEFINE_VARIABLE,
    DEFINE_LINK,
    DEFINE_VALUE,
    CREATE_CONTAINER,
    DESTROY_CONTAINER,
    SET_VARIABLE,
    PUSH_STATE,
    POP_STATE,
    START_LINK,
    END_LINK
};

static const char definitions[] = "%EventDef PajeDefineContainerType 0\n"
                                  "% Alias string\n% Type string\n% Name string\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeDefineStateType 1\n"
                                  "% Alias string\n% Type string\n% Name string\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeDefineVariableType 2\n"
                                  "% Alias string\n% Type string\n% Name string\n"
                                  "% Color color\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeDefineLinkType 3\n"
                                  "% Alias string\n% Type string\n"
                                  "% StartContainerType string\n% EndContainerType string\n"
                                  "% Name string\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeDefineEntityValue 4\n"
                                  "% Alias string\n% Type string\n% Name string\n"
                                  "% Color color\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeCreateContainer 5\n"
                                  "% Time date\n% Alias string\n% Type string\n"
                                  "% Container string\n% Name string\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeDestroyContainer 6\n"
                                  "% Time date\n% Type string\n% Name string\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeSetVariable 7\n"
                                  "% Time date\n% Type string\n% Container string\n"
                                  "% Value double\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajePushState 8\n"
                                  "% Time date\n% Type string\n% Container string\n"
                                  "% Value string\n% Layer string\n% Step string\n"
                                  "% MicroBatch string\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajePopState 9\n"
                                  "% Time date\n% Type string\n% Container string\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeStartLink 10\n"
                                  "% Time date\n% Type string\n% Container string\n"
                                  "% StartContainer string\n% Value string\n% Key string\n"
                                  "%EndEventDef\n"
                                  "%EventDef PajeEndLink 11\n"
                                  "% Time date\n% Type string\n% Container string\n"
                                  "% EndContainer string\n% Value string\n% Key string\n"
                                  "%EndEventDef\n";

/* One line to be written. */
struct record {
    uint64_t time_ns;
    uint64_t order; /* of arrival: keeps lines of one instant apart */
    enum line_kind kind;
    uint32_t place; /* track; processor for a variable */
    uint32_t value; /* name in the palette, edge of a link, or memory category */
    uint32_t layer;
    uint64_t step, micro_batch;
    uint64_t number; /* bytes of a variable, key of a link */
};

struct paje {
    struct file_sink output;
    struct tracks *tracks;
    struct palette values;
    struct record *records;
    size_t count, capacity;
    struct text name;
    uint64_t links;
};

static bool add_record(struct paje *paje, struct record record, struct error *error)
{
    if (!checked_grow((void **)&paje->records, &paje->capacity, paje->count + 1,
                      sizeof(struct record)))
        return error_memory(error, paje->output.path);
    record.order = paje->count;
    paje->records[paje->count++] = record;
    return true;
}

static bool add_slice(struct paje *paje, const struct event *event, struct error *error)
{
    const struct trace_edge *edges = paje->output.header->edges;
    struct placement placement;
    struct record record = {
        .layer = event->layer, .step = event->step, .micro_batch = event->micro_batch};
    const char *name = event->name != NULL ? event->name : edges[event->edge].name;
    if (!tracks_place(paje->tracks, event, &placement, error) ||
        !palette_index(&paje->values, name, &record.value, error))
        return false;
    record.kind = PUSH_STATE;
    record.time_ns = placement.start_ns;
    record.place = placement.track;
    if (!add_record(paje, record, error))
        return false;
    record.kind = POP_STATE;
    record.time_ns = placement.end_ns;
    if (!add_record(paje, record, error))
        return false;
    if (event->kind != EVENT_TRANSFER)
        return true;
    record.kind = START_LINK;
    record.time_ns = placement.start_ns;
    record.value = event->edge;
    record.number = paje->links++;
    if (!add_record(paje, record, error))
        return false;
    record.kind = END_LINK;
    record.time_ns = placement.end_ns;
    record.place = edges[event->edge].to; /* the receiver's main stream */
    return add_record(paje, record, error);
}

static bool paje_event(struct event_sink *sink, const struct event *event,
                       struct error *error)
{
    struct paje *paje = (struct paje *)sink;
    if (!event_check(event, paje->output.header, error))
        return false;
    if (!event_is_kept(event, paje->output.header) || event->kind == EVENT_METRIC)
        return true;
    if (event->kind != EVENT_MEMORY)
        return add_slice(paje, event, error);
    struct record record = {.kind = SET_VARIABLE,
                            .time_ns = event_nanoseconds(event->end_s),
                            .place = event->processor,
                            .value = (uint32_t)event->category,
                            .number = event->bytes};
    return add_record(paje, record, error);
}

/* Paje's strings have no escapes, and PajeNG reads an empty one as no field at all. */
static void put_string(FILE *file, const char *text)
{
    if (*text == '\0')
        text = "-";
    fputs(" \"", file);
    for (; *text != '\0'; text++)
        putc(*text == '"' ? '\'' : (unsigned char)*text < 0x20 ? ' ' : *text, file);
    putc('"', file);
}

static void put_time(FILE *file, int line, uint64_t time_ns)
{
    fprintf(file, "%d %" PRIu64 ".%09u", line, time_ns / 1000000000,
            (unsigned)(time_ns % 1000000000));
}

static void put_color(FILE *file, uint32_t rgb)
{
    static const unsigned shifts[3] = {16, 8, 0};
    fputs(" \"", file);
    for (int i = 0; i < 3; i++) {
        unsigned thousandths = ((rgb >> shifts[i]) & 255U) * 1000U / 255U;
        fprintf(file, "%s%u.%03u", i == 0 ? "" : " ", thousandths / 1000,
                thousandths % 1000);
    }
    fputs("\"\n", file);
}

static void put_types(const struct paje *paje)
{
    FILE *file = paje->output.file;
    fprintf(file, "%d M 0 Method\n%d P M Processor\n%d T P Track\n", DEFINE_CONTAINER,
            DEFINE_CONTAINER, DEFINE_CONTAINER);
    fprintf(file, "%d S T Operation\n%d L M T T Transfer\n", DEFINE_STATE, DEFINE_LINK);
    for (unsigned i = 0; i < MEMORY_CATEGORIES; i++)
        fprintf(file, "%d V%u P memory_%s_bytes \"0.3 0.5 0.7\"\n", DEFINE_VARIABLE, i,
                memory_category_name((enum memory_category)i));
    for (uint32_t i = 0; i < paje->values.count; i++) {
        fprintf(file, "%d O%" PRIu32 " S", DEFINE_VALUE, i);
        put_string(file, paje->values.names[i]);
        put_color(file, palette_rgb(&paje->values, i));
    }
}

static bool put_containers(struct paje *paje, struct error *error)
{
    const struct trace_header *header = paje->output.header;
    FILE *file = paje->output.file;
    put_time(file, CREATE_CONTAINER, 0);
    fputs(" m M 0", file);
    put_string(file, header->method);
    putc('\n', file);
    for (size_t i = 0; i < header->processor_count; i++) {
        put_time(file, CREATE_CONTAINER, 0);
        fprintf(file, " p%zu P m", i);
        put_string(file, header->processors[i].name);
        putc('\n', file);
    }
    for (uint32_t i = 0; i < tracks_count(paje->tracks); i++) {
        const struct track *track = tracks_get(paje->tracks, i);
        if (!track_name(track, header, &paje->name, error))
            return false;
        put_time(file, CREATE_CONTAINER, 0);
        fprintf(file, " t%" PRIu32 " T p%" PRIu32, i, track->processor);
        put_string(file, text_string(&paje->name));
        putc('\n', file);
    }
    return true;
}

static void put_record(const struct paje *paje, const struct record *record)
{
    const struct trace_header *header = paje->output.header;
    FILE *file = paje->output.file;
    put_time(file, (int)record->kind, record->time_ns);
    switch (record->kind) {
    case SET_VARIABLE:
        fprintf(file, " V%" PRIu32 " p%" PRIu32 " %" PRIu64 "\n", record->value,
                record->place, record->number);
        break;
    case PUSH_STATE:
        fprintf(file, " S t%" PRIu32 " O%" PRIu32, record->place, record->value);
        put_string(file,
                   record->layer == EVENT_NONE ? "" : header->layer_names[record->layer]);
        fprintf(file, " %" PRIu64 " %" PRIu64 "\n", record->step, record->micro_batch);
        break;
    case POP_STATE:
        fprintf(file, " S t%" PRIu32 "\n", record->place);
        break;
    default: /* both ends of a link */
        fprintf(file, " L m t%" PRIu32, record->place);
        put_string(file, header->edges[record->value].name);
        fprintf(file, " %" PRIu64 "\n", record->number);
    }
}

static int compare_records(const void *a, const void *b)
{
    const struct record *left = a, *right = b;
    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

static void put_end(const struct paje *paje, double total_s)
{
    FILE *file = paje->output.file;
    uint64_t end_ns = event_nanoseconds(total_s);
    if (paje->count > 0 && paje->records[paje->count - 1].time_ns > end_ns)
        end_ns = paje->records[paje->count - 1].time_ns;
    for (uint32_t i = 0; i < tracks_count(paje->tracks); i++) {
        put_time(file, DESTROY_CONTAINER, end_ns);
        fprintf(file, " T t%" PRIu32 "\n", i);
    }
    for (size_t i = 0; i < paje->output.header->processor_count; i++) {
        put_time(file, DESTROY_CONTAINER, end_ns);
        fprintf(file, " P p%zu\n", i);
    }
    put_time(file, DESTROY_CONTAINER, end_ns);
    fputs(" M m\n", file);
}

static bool paje_finish(struct event_sink *sink, double total_s, struct error *error)
{
    struct paje *paje = (struct paje *)sink;
    if (!trace_end_check(total_s, error))
        return false;
    fputs(definitions, paje->output.file);
    put_types(paje);
    if (!put_containers(paje, error))
        return false;
    if (paje->count > 0)
        qsort(paje->records, paje->count, sizeof(struct record), compare_records);
    for (size_t i = 0; i < paje->count; i++)
        put_record(paje, &paje->records[i]);
    put_end(paje, total_s);
    return output_close(&paje->output, error);
}

static void paje_free(struct event_sink *sink)
{
    struct paje *paje = (struct paje *)sink;
    if (paje == NULL)
        return;
    tracks_free(paje->tracks);
    palette_free(&paje->values);
    free(paje->records);
    text_free(&paje->name);
    output_release(&paje->output);
    free(paje);
}

struct event_sink *paje_open(const char *path, const struct trace_header *header,
                             struct error *error)
{
    struct paje *paje = checked_calloc(1, sizeof(*paje));
    if (paje == NULL) {
        error_memory(error, path);
        return NULL;
    }
    paje->output.sink = (struct event_sink){paje_event, paje_finish, paje_free, NULL};
    if (output_open(&paje->output, path, header, error)) {
        paje->tracks = tracks_create(header, error);
        if (paje->tracks != NULL)
            return &paje->output.sink;
    }
    paje_free(&paje->output.sink);
    return NULL;
}
