/* timeline.svg: well-formed whatever the names are, every slice in its place, and bounded.
 */
#include "tests/check.h"
#include "tests/trace_sample.h"

enum { MOST_DEPTH = 16, NAME = 16 };

/* Checks an element at `at`, just after '<', and the stack of open ones; returns the
 * place after '>', NULL at a fault. */
static const char *read_tag(const char *at, char open[MOST_DEPTH][NAME], size_t *depth)
{
    bool closing = *at == '/';
    at += closing;
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    if (length == 0 || length >= NAME)
        return NULL;
    if (closing) {
        if (*depth == 0 || strncmp(open[*depth - 1], at, length) != 0 || at[length] != '>')
            return NULL;
        (*depth)--;
        return at + length + 1;
    }
    if (*depth == MOST_DEPTH)
        return NULL;
    snprintf(open[(*depth)++], NAME, "%.*s", (int)length, at);
    for (at += length; *at == ' ';) {
        at += 1 + strcspn(at + 1, "=\"<>");
        if (at[0] != '=' || at[1] != '"')
            return NULL;
        at += 2 + strcspn(at + 2, "\"<");
        if (*at++ != '"')
            return NULL;
    }
    if (*at == '/') {
        (*depth)--;
        at++;
    }
    return *at == '>' ? at + 1 : NULL;
}

static bool is_well_formed(const char *text)
{
    char open[MOST_DEPTH][NAME];
    size_t depth = 0;
    while (*text != '\0') {
        unsigned char c = (unsigned char)*text;
        if (c == '<') {
            text = read_tag(text + 1, open, &depth);
            if (text == NULL)
                return false;
            continue;
        }
        if (c < 0x20 && c != '\n')
            return false;
        if (c == '&' &&
            strspn(text + 1, "abcdefghijklmnopqrstuvwxyz#0123456789") == strlen(text + 1))
            return false;
        if (c == '&' &&
            text[1 + strspn(text + 1, "abcdefghijklmnopqrstuvwxyz#0123456789")] != ';')
            return false;
        text++;
    }
    return depth == 0;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

static void hostile_names_stay_well_formed(void)
{
    CU_ASSERT_FALSE(is_well_formed("<a><b></a>"));
    CU_ASSERT_FALSE(is_well_formed("<a>x & y</a>"));
    CU_ASSERT_FALSE(is_well_formed("<a b=\"<\"/>"));
    for (uint64_t seed = 20; seed < 24; seed++) {
        struct sample *sample = sample_create(seed);
        char *text = sample_write("timeline", &sample_header, sample->events, SAMPLE_EVENTS,
                                  sample->total_s);
        CU_ASSERT_TRUE(is_well_formed(text));
        CU_ASSERT_EQUAL(strncmp(text, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "&lt;&amp;&gt;"));
        free(text);
        free(sample);
    }
}

static struct event slice(const char *name, uint64_t micro_batch, double start_s,
                          double end_s)
{
    return (struct event){.kind = EVENT_COMPUTE,
                          .name = name,
                          .layer = EVENT_NONE,
                          .edge = EVENT_NONE,
                          .micro_batch = micro_batch,
                          .start_s = start_s,
                          .end_s = end_s};
}

/* 1000 pixels stand for 10 s, from pixel 130 on. */
static void slices_are_in_place(void)
{
    struct event events[] = {
        slice("forward", 0, 0, 1),    slice("forward", 0, 1, 2), slice("forward", 1, 2, 3),
        slice("forward", 1, 3.5, 4),  slice("update", 1, 4, 4),  slice("other", 7, 4, 10),
        slice("forward", 9, 11, 100), /* of a step that is not kept */
    };
    events[6].step = 3;
    char *text = sample_write("timeline", &sample_header, events, 7, 100);
    /* Two layers of one micro-batch are one slice; a gap or another one parts them. */
    CU_ASSERT_EQUAL(count_of(text, "</title></rect>"), 4);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "x=\"130.00\" width=\"199.40\" y=\"46\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "x=\"330.00\" width=\"99.40\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "x=\"480.00\" width=\"49.40\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "x=\"530.00\" width=\"599.40\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "<title>other, step 0, micro-batch 7, 4.00 s to"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "whole run: 100 s"));
    CU_ASSERT_PTR_NULL(strstr(text, "Cut after"));
    CU_ASSERT_TRUE(is_well_formed(text));
    free(text);
}

static void transfers_have_a_line_of_their_own(void)
{
    struct event event = {.kind = EVENT_TRANSFER,
                          .processor = 1,
                          .edge = 1,
                          .layer = EVENT_NONE,
                          .bytes = 5,
                          .end_s = 1};
    char *text = sample_write("timeline", &sample_header, &event, 1, 1);
    CU_ASSERT_EQUAL(count_of(text, "</title></rect>"), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "y=\"89\" height=\"4\"><title>transfer,"));
    free(text);
}

/* More slices than a page can bear: the first ones, and a note. */
static void a_long_run_is_cut(void)
{
    enum { COUNT = 6000 };
    struct event *events = calloc(COUNT, sizeof(*events));
    CU_ASSERT_PTR_NOT_NULL_FATAL(events);
    for (size_t i = 0; i < COUNT; i++)
        events[i] = slice("forward", i, (double)i, (double)i + 1);
    char *text = sample_write("timeline", &sample_header, events, COUNT, COUNT);
    CU_ASSERT_EQUAL(count_of(text, "</title></rect>"), 5000);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "Cut after 5000 slices; 1000 later events are not shown."));
    CU_ASSERT_TRUE(is_well_formed(text));
    CU_ASSERT(strlen(text) < 2000000);
    free(text);
    free(events);
}

static void many_processors_are_cut(void)
{
    enum { COUNT = 100 };
    static struct trace_processor processors[COUNT];
    static struct event events[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        processors[i].name = "p";
        events[i] = slice("forward", 0, 0, 1);
        events[i].processor = i;
    }
    struct trace_header header = {
        .method = "many", .processors = processors, .processor_count = COUNT};
    char *text = sample_write("timeline", &header, events, COUNT, 1);
    CU_ASSERT_EQUAL(count_of(text, "</title></rect>"), 64);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "The first 64 of 100 processors."));
    free(text);
}

static void without_events_there_are_axes(void)
{
    static const struct trace_header nothing = {.method = ""};
    char *text = sample_write("timeline", &nothing, NULL, 0, 0);
    CU_ASSERT_TRUE(is_well_formed(text));
    free(text);
    text = sample_write("timeline", &sample_header, NULL, 0, 2);
    CU_ASSERT_TRUE(is_well_formed(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ">2.00 s</text>"));
    free(text);
}

static const struct check checks[] = {
    {"hostile names stay well-formed", hostile_names_stay_well_formed},
    {"slices are in place", slices_are_in_place},
    {"transfers have a line of their own", transfers_have_a_line_of_their_own},
    {"a long run is cut, with a note", a_long_run_is_cut},
    {"many processors are cut, with a note", many_processors_are_cut},
    {"without events there are axes", without_events_there_are_axes},
};

CHECK_MAIN("timeline.svg", checks)
