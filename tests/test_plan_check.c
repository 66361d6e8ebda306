/* Programs that cannot finish, or would compute nonsense, are refused before they run, and
 * the message names the instructions. Two stages of an MLP on two processors, by hand. */
#include "tests/check.h"

#include "engine/model.h"
#include "sim/plan.h"

#include <stdio.h>
#include <string.h>

enum { MICRO_BATCHES = 3 };

struct hand {
    struct plan *plan;
    struct code *code[2];
    uint32_t forward_edge, back_edge;
    struct error error;
};

static struct model *small_model(void)
{
    struct error error;
    struct json_file *file = json_file_parse(
        "m.json", "{\"preset\": \"mlp\", \"input\": [4], \"hidden\": 4, \"depth\": 1}",
        &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    struct json_at root = json_root(file);
    struct model *model = model_read(&root, &error);
    json_file_free(file);
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    return model;
}

static struct hand begin(uint32_t slots, uint64_t capacity)
{
    struct hand h = {.plan = plan_create("by hand", "test", &h.error)};
    CU_ASSERT_PTR_NOT_NULL_FATAL(h.plan);
    struct plan *plan = h.plan;
    const struct copy copy = {.shards = 1, .shares = 1, .end_part = 2};
    uint32_t index;
    plan->model = small_model();
    plan->batch = 6;
    plan->micro_batch = 2;
    plan->micro_batches = MICRO_BATCHES;
    plan->processor_count = 2;
    plan->models = 1;
    CU_ASSERT_FATAL(plan_add_copy(plan, &copy, &index, &h.error));
    for (uint32_t i = 0; i < 2; i++) {
        const struct part part = {.stage = i,
                                  .processor = i,
                                  .first_layer = plan->model->blocks[i].first_layer,
                                  .end_layer = plan->model->blocks[i].end_layer,
                                  .trains = true,
                                  .slots = slots,
                                  .activation_in = PLAN_NONE,
                                  .activation_out = PLAN_NONE,
                                  .gradient_from = PLAN_NONE,
                                  .gradient_to = PLAN_NONE};
        CU_ASSERT_FATAL(plan_add_part(plan, &part, &index, &h.error));
    }
    CU_ASSERT_FATAL(plan_add_edge(plan, 0, 1, PAYLOAD_ACTIVATIONS, capacity,
                                  &h.forward_edge, &h.error));
    CU_ASSERT_FATAL(
        plan_add_edge(plan, 1, 0, PAYLOAD_GRADIENTS, capacity, &h.back_edge, &h.error));
    struct stream *stream;
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_FATAL(plan_stream(plan, i, &stream, &h.error));
    for (uint32_t i = 0; i < 2; i++)
        h.code[i] = &plan->streams[plan->main_stream[i]].body;
    return h;
}

static void add(struct hand *h, uint32_t processor, enum operation operation,
                int64_t micro_batch)
{
    uint32_t target = PLAN_NONE;
    if (operation == OP_SEND)
        target = processor == 0 ? h->forward_edge : h->back_edge;
    if (operation == OP_RECEIVE)
        target = processor == 0 ? h->back_edge : h->forward_edge;
    CU_ASSERT_FATAL(
        code_add(h->code[processor], operation, processor, target, micro_batch, &h->error));
}

/* Words, in the order of operations; a digit is the micro-batch of what follows. */
static void program(struct hand *h, uint32_t processor, const char *text)
{
    static const struct {
        char letter;
        enum operation operation;
    } words[] = {{'l', OP_LOAD},    {'f', OP_FORWARD},  {'s', OP_SEND},
                 {'r', OP_RECEIVE}, {'b', OP_BACKWARD}, {'u', OP_UPDATE}};
    int64_t micro_batch = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c >= '0' && *c <= '9')
            micro_batch = *c - '0';
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (words[i].letter == *c)
                add(h, processor, words[i].operation, micro_batch);
    }
}

static void accept(uint32_t slots, uint64_t capacity, const char *first, const char *second)
{
    struct hand h = begin(slots, capacity);
    program(&h, 0, first);
    program(&h, 1, second);
    bool good = plan_check(h.plan, &h.error);
    if (!good)
        printf("\n  %s\n", h.error.message);
    CU_ASSERT(good);
    plan_free(h.plan);
}

/* The message must have each of the texts (a NULL ends them). */
static void refuse(uint32_t slots, uint64_t capacity, const char *first, const char *second,
                   const char *const *texts)
{
    struct hand h = begin(slots, capacity);
    program(&h, 0, first);
    program(&h, 1, second);
    CU_ASSERT_FALSE(plan_check(h.plan, &h.error));
    CU_ASSERT_EQUAL(h.error.status, STATUS_BAD_INPUT);
    for (; *texts != NULL; texts++) {
        bool there = strstr(h.error.message, *texts) != NULL;
        if (!there)
            printf("\n  \"%s\" is not in: %s\n", *texts, h.error.message);
        CU_ASSERT(there);
    }
    plan_free(h.plan);
}

static const char gpipe0[] = "0lfs 1lfs 2lfs 0rb 1rb 2rb 0u";
static const char gpipe1[] = "0rf 1rf 2rf 0bs 1bs 2bs 0u";
static const char one0[] = "0lfs 1lfs 0rb 2lfs 1rb 2rb 0u";
static const char one1[] = "0rfbs 1rfbs 2rfbs 0u";

static void good_programs(void)
{
    accept(3, 1, gpipe0, gpipe1);
    accept(3, 2, gpipe0, gpipe1);
    accept(2, 1, one0, one1);
    accept(3, 9, one0, one1);
    accept(1, 1, "", "");
}

static void receives_face_each_other(void)
{
    const char *const texts[] = {"processor 0", "processor 1",
                                 "receive gradients of micro-batch 0, processor 1 to 0",
                                 "receive activations of micro-batch 0, processor 0 to 1",
                                 NULL};
    refuse(3, 2, "0l 0r fs 0b u", "0r f b s u", texts);
}

/* One queue place each way: both wait for room. */
static void sends_face_each_other(void)
{
    const char *const texts[] = {"send activations of micro-batch 1",
                                 "send gradients of micro-batch 1", "processor 0",
                                 "processor 1", NULL};
    refuse(3, 1, "0s 1s 0r 1r", "0s 1s 0r 1r", texts);
    accept(3, 2, "0s 1s 0r 1r", "0s 1s 0r 1r");
}

static void nobody_takes(void)
{
    const char *const texts[] = {"activations", "processor 0 to 1", "9 sent", "0 received",
                                 NULL};
    refuse(3, 100, "0lfsb 1lfsb 2lfsb", "", texts);
    const char *const waits[] = {"send activations", "processor 0", "instruction", NULL};
    refuse(3, 2, "0lfsb 1lfsb 2lfsb", "", waits); /* full before that */
}

static void nobody_sends(void)
{
    const char *const texts[] = {"processor 1", "receive activations of micro-batch 0",
                                 NULL};
    refuse(3, 2, "0lfb", "0rfb", texts);
}

static void backward_first(void)
{
    const char *const texts[] = {"processor 0", "backward of micro-batch 0",
                                 "before its forward", NULL};
    refuse(3, 2, "0lbf", "", texts);
    const char *const other[] = {"processor 0", "backward of micro-batch 1",
                                 "before its forward", NULL};
    refuse(3, 2, "0lf 1b 1lf 0b", "", other); /* another one's forward does not count */
    const char *const twice[] = {"backward of micro-batch 0", "before its forward", NULL};
    refuse(3, 2, "0lfbb", "", twice);
}

static void too_few_slots(void)
{
    const char *const texts[] = {"processor 0", "forward of micro-batch 2", "slot", NULL};
    refuse(2, 2, gpipe0, gpipe1, texts);
    const char *const none[] = {"processor 0", "forward of micro-batch 0", "slot", NULL};
    refuse(0, 2, gpipe0, gpipe1, none);
    /* two slots would do for two micro-batches, were they not 0 and 2 */
    const char *const same[] = {"forward of micro-batch 2", "slot", NULL};
    refuse(2, 2, "0lf 2lf 0b 2b 1lf 1b", "", same);
}

static void out_of_order(void)
{
    const char *const texts[] = {"activations", "processor 0 to 1", "order", NULL};
    refuse(3, 3, "0lfs 1lfs 2lfs 0b 1b 2b", "1rf 0rf 2rf 0b 1b 2b", texts);
}

/* What is wrong only from the second step on. */
static void later_steps(void)
{
    const char *const texts[] = {"forward of micro-batch", "slot", NULL};
    refuse(4, 2, "0lf 1lf 2lf 0b 1b", "", texts);
}

/* Every collective's and barrier's members come, or the plan is refused. */
static void barriers(void)
{
    for (uint32_t members = 2; members <= 3; members++) {
        struct hand h = begin(1, 1);
        uint32_t barrier;
        CU_ASSERT_FATAL(plan_add_barrier(h.plan, members, &barrier, &h.error));
        for (uint32_t i = 0; i < 2; i++)
            CU_ASSERT_FATAL(code_add(h.code[i], OP_BARRIER, i, barrier, 0, &h.error));
        CU_ASSERT_EQUAL(plan_check(h.plan, &h.error), members == 2);
        CU_ASSERT(members == 2 || strstr(h.error.message, "barrier") != NULL);
        plan_free(h.plan);
    }
}

static const struct check checks[] = {
    {"good programs", good_programs},
    {"two receives face each other", receives_face_each_other},
    {"two sends face each other", sends_face_each_other},
    {"a send that nobody takes", nobody_takes},
    {"a receive that nobody serves", nobody_sends},
    {"backward before forward", backward_first},
    {"too few slots", too_few_slots},
    {"received in another order", out_of_order},
    {"faults of later steps", later_steps},
    {"a barrier that is not full", barriers},
};

CHECK_MAIN("plan check", checks)
