/* For tests: a plan whose programs consist of one collective, in real simulations. */
#ifndef PODSIM_TESTS_COLLECTIVE_RUN_H
#define PODSIM_TESTS_COLLECTIVE_RUN_H

#include "sim/collective.h"
#include "tests/machine_text.h"
#include "tests/simulate.h"

struct collective_case {
    const char *algorithm, *topology;
    bool overlap;
    uint32_t ranks, group;
    uint64_t count; /* scalars of 4 bytes */
    enum collective_goal goal;
    struct text_link link;
    uint32_t *rings;
    uint32_t ring_count;
    const char *fidelity; /* NULL: auto */
};

struct collective_outcome {
    double time_s;
    uint64_t bytes, messages;
    uint64_t largest_sent; /* bytes of the rank that sends most */
};

static inline struct collective collective_of(const struct collective_case *k,
                                              uint32_t *parts)
{
    for (uint32_t i = 0; i < k->ranks; i++)
        parts[i] = i;
    struct collective c = {
        .algorithm = collective_algorithm_find(k->algorithm),
        .goal = k->goal,
        .count = k->count,
        .parts = parts,
        .ranks = k->ranks,
        .group = k->group,
        .rings = k->rings,
        .ring_count = k->ring_count,
    };
    c.lanes = c.algorithm->lanes == NULL ? 1 : c.algorithm->lanes(&c);
    return c;
}

static inline struct plan *collective_plan(const struct experiment *e,
                                           const struct collective_case *k)
{
    struct error error = {0};
    struct plan *plan = plan_create("collective", "collective", &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(plan);
    plan->model = model_copy(e->model, &error);
    plan->batch = plan->micro_batch = plan->micro_batches = 1;
    plan->processor_count = k->ranks;
    plan->models = 1;
    bool good = plan->model != NULL;
    for (uint32_t i = 0; good && i < k->ranks; i++) {
        const struct copy copy = {
            .shards = 1, .shares = 1, .first_part = i, .end_part = i + 1};
        const struct part part = {.copy = i,
                                  .processor = i,
                                  .end_layer = plan->model->layer_count,
                                  .slots = 1,
                                  .activation_in = PLAN_NONE,
                                  .activation_out = PLAN_NONE,
                                  .gradient_from = PLAN_NONE,
                                  .gradient_to = PLAN_NONE};
        uint32_t index;
        good = plan_add_copy(plan, &copy, &index, &error) &&
               plan_add_part(plan, &part, &index, &error);
    }
    uint32_t *parts = calloc(k->ranks, sizeof *parts), index = 0;
    struct collective c = collective_of(k, parts);
    good = good && plan_add_collective(plan, &c, &index, &error);
    for (uint32_t i = 0; good && i < k->ranks; i++) {
        struct stream *stream;
        good = plan_stream(plan, i, &stream, &error) &&
               code_add(&stream->body, OP_COLLECTIVE, i, index, 0, &error);
    }
    free(parts);
    if (good && !plan_check(plan, &error))
        printf("\n  %s, %u ranks: %s\n", k->algorithm, k->ranks, error.message);
    CU_ASSERT_FATAL(good && error.message[0] == '\0');
    return plan;
}

static inline struct collective_outcome run_collective(const struct collective_case *k)
{
    char text[8192];
    struct error error;
    struct collective_outcome outcome = {0};
    snprintf(text, sizeof text,
             "{\"model\": %s, \"platform\": %s, \"numerics\": false, \"steps\": 1, "
             "\"batch\": 1, \"fidelity\": \"%s\", \"methods\": [\"backprop\"]}",
             even_model(1, 1),
             table_machine(k->ranks, k->topology, k->overlap, 1, 1, k->link),
             k->fidelity != NULL ? k->fidelity : "auto");
    struct experiment *e = read_experiment(text, &error);
    if (e == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    struct plan *plan = collective_plan(e, k);
    struct simulated *s = simulate_plan(e, plan, NULL);
    uint64_t *sent = calloc(k->ranks, sizeof *sent);
    for (size_t i = 0; i < plan->edge_count && i < SIMULATED_EDGES; i++)
        sent[plan->edges[i].from_processor] += s->edges[i].bytes;
    for (uint32_t i = 0; i < k->ranks; i++)
        outcome.largest_sent =
            sent[i] > outcome.largest_sent ? sent[i] : outcome.largest_sent;
    outcome.time_s = s->result.time_s;
    outcome.bytes = s->bytes;
    outcome.messages = s->messages;
    free(sent);
    munmap(s, sizeof *s);
    plan_free(plan);
    experiment_free(e);
    return outcome;
}

#endif
