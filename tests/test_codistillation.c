/* Codistillation: what the models learn from each other. */
#include "tests/codistillation_run.h"

/* Alone, or with no weight on the others, a model trains as if they were not there. */
static void no_influence(void)
{
    struct simulation *s = train(
        quick_link, 8,
        "\"backprop\", "
        "{\"name\": \"p1\", \"kind\": \"codistillation\", \"models\": 1}, "
        "{\"name\": \"c1\", \"kind\": \"codistillation\", \"models\": 1, \"exchange\": "
        "\"checkpoints\", \"period\": 2}, "
        "{\"name\": \"p0\", \"kind\": \"codistillation\", \"models\": 3, \"alpha\": 0}, "
        "{\"name\": \"c0\", \"kind\": \"codistillation\", \"models\": 3, \"alpha\": 0, "
        "\"exchange\": \"checkpoints\", \"period\": 2}, "
        "{\"name\": \"s0\", \"kind\": \"codistillation\", \"models\": 2, \"alpha\": 0, "
        "\"initialization\": \"same\"}, "
        "{\"name\": \"o0\", \"kind\": \"codistillation\", \"models\": 2, \"alpha\": 0, "
        "\"initialization\": \"same\", \"exchange\": \"checkpoints\", \"period\": 2, "
        "\"data\": \"own\"}, "
        "{\"name\": \"p\", \"kind\": \"codistillation\", \"models\": 3}");
    struct simulated **m = s->methods;
    for (size_t i = 1; i <= 5; i++)
        CU_ASSERT(same_parts(m[0], 0, m[i], 0, 1));
    for (size_t k = 1; k < 3; k++) {
        CU_ASSERT(same_parts(m[3], k, m[4], k, 1));
        CU_ASSERT_FALSE(same_parts(m[3], k, m[3], k - 1, 1));
    }
    CU_ASSERT(same_parts(m[0], 0, m[5], 1, 1));
    CU_ASSERT_FALSE(same_parts(m[6], 0, m[6], 1, 1)); /* other samples */
    CU_ASSERT_FALSE(same_parts(m[0], 0, m[7], 0, 1));
    CU_ASSERT_EQUAL(m[1]->bytes + m[2]->bytes, 0);
    CU_ASSERT_EQUAL(same_steps(m[0], m[3], 0), 8);
    simulation_free(s);
}

static void alpha_schedules(void)
{
    struct teaching t = {.alpha = 3, .burn_in_steps = 10};
    CU_ASSERT_EQUAL(teaching_alpha(&t, 9), 0);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 10), 3);
    t.schedule = ALPHA_RAMP;
    t.schedule_steps = 4;
    CU_ASSERT_EQUAL(teaching_alpha(&t, 9), 0);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 10), 0.75);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 12), 2.25);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 13), 3);
    CU_ASSERT_EQUAL(teaching_alpha(&t, UINT64_MAX), 3);
    t.schedule = ALPHA_DELAYED;
    t.schedule_steps = 12;
    CU_ASSERT_EQUAL(teaching_alpha(&t, 11), 0);
    CU_ASSERT_EQUAL(teaching_alpha(&t, 12), 3);
}

/* Inside, anything goes. */
static void inner_methods(void)
{
    static const char *const inner[] = {
        "\"backprop\"",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"gpipe\"}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"gpipe\", \"recompute\": "
        "\"stage\"}",
        "{\"kind\": \"pipeline\", \"stages\": 3, \"queue_capacity\": 1}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"grouped\"}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"zero_bubble\"}",
        "{\"kind\": \"pipeline\", \"stages\": 2, \"schedule\": \"pipedream\"}",
        "{\"kind\": \"local\", \"stages\": 3}",
        "{\"kind\": \"local\", \"stages\": 2, \"granularity\": \"layerwise\"}",
        "{\"kind\": \"local\", \"stages\": 3, \"granularity\": \"overlapping\"}",
        "{\"kind\": \"local\", \"stages\": 2, \"granularity\": \"last\"}",
        "{\"kind\": \"local\", \"stages\": 2, \"update_every\": 1}",
        "{\"kind\": \"data_parallel\", \"replicas\": 3}",
        "{\"kind\": \"data_parallel\", \"replicas\": 3, \"inner\": {\"kind\": "
        "\"pipeline\", "
        "\"stages\": 2}}",
    };
    static const char *const exchanges[] = {"\"predictions\"",
                                            "\"checkpoints\", \"period\": 2",
                                            "\"checkpoints\", \"period\": 2, \"alpha\": 0"};
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        char methods[2048] = "";
        for (size_t k = 0; k < 3; k++)
            snprintf(
                methods + strlen(methods), sizeof methods - strlen(methods),
                "%s{\"name\": \"%zu\", \"kind\": \"codistillation\", \"exchange\": %s, "
                "\"inner\": %s}",
                k > 0 ? ", " : "", k, exchanges[k], inner[i]);
        struct simulation *s = train_on(12, i % 2 == 0, quick_link, sgd, 2, STEPS, methods);
        struct simulation *free_run = simulate(
            "{\"model\": %s, \"platform\": %s, \"optimizer\": %s, \"numerics\": false, "
            "\"batch\": %d, \"micro_batch\": 2, \"steps\": %d, \"methods\": [%s]}",
            model_text, roofline_machine(12, "full", i % 2 == 0, 1 << 24, quick_link), sgd,
            BATCH, STEPS, methods);
        double loss[64];
        for (size_t k = 0; k < 3; k++) {
            const struct simulated *m = s->methods[k];
            uint32_t last = s->experiment->plans[k]
                                ->parts[s->experiment->plans[k]->copies[0].end_part - 1]
                                .processor;
            size_t count = series(m, "loss", last, loss);
            CU_ASSERT_EQUAL(count, STEPS);
            CU_ASSERT(count > 0 && isfinite(loss[count - 1]));
            for (uint32_t p = 0; p < m->processor_count; p++) {
                CU_ASSERT_EQUAL(m->processors[p].final_bytes, 0);
                CU_ASSERT_EQUAL(m->processors[p].peak_bytes,
                                free_run->methods[k]->processors[p].peak_bytes);
            }
            CHECK_CLOSE(m->result.time_s, free_run->methods[k]->result.time_s, 1e-12);
            CU_ASSERT_EQUAL(m->bytes, free_run->methods[k]->bytes);
        }
        size_t parts = s->experiment->plans[1]->copies[0].end_part;
        CU_ASSERT_FALSE(same_parts(s->methods[1], 0, s->methods[2], 0, parts));
        simulation_free(s);
        simulation_free(free_run);
    }
}

/* One model's processor fails: the other goes on with the last weights that came, and no
 * number or time of it depends on the failure but through them. */
static void failure(void)
{
    char machine[4096];
    static const char methods[] =
        "{\"name\": \"c\", \"kind\": \"codistillation\", \"exchange\": \"checkpoints\", "
        "\"period\": 2, \"inner\": {\"kind\": \"pipeline\", \"stages\": 2}}";
    const char *sound = roofline_machine(4, "full", true, 1 << 24, quick_link);
    snprintf(
        machine, sizeof machine,
        "%.*s, \"trouble\": {\"failures\": [{\"processor\": \"p3\", \"at_s\": 0.0011}]}}",
        (int)strlen(sound) - 1, sound);
    struct simulation *s = simulate(
        "{\"model\": %s, \"data\": %s, \"platform\": %s, \"batch\": %d, \"steps\": %d, "
        "\"methods\": [%s]}",
        model_text, data_text, machine, BATCH, STEPS, methods);
    double ages[64], losses[64];
    const struct simulated *m = s->methods[0];
    size_t count = series(m, "teacher age", 0, ages);
    CU_ASSERT_FATAL(count > 4);
    CU_ASSERT_EQUAL(series(m, "loss", 1, losses), STEPS);
    CU_ASSERT(series(m, "loss", 3, losses) < STEPS);
    for (size_t i = count - 3; i < count; i++)
        CU_ASSERT_EQUAL(ages[i], ages[i - 1] + 1);
    CU_ASSERT(ages[count - 1] >= 4);
    simulation_free(s);
}

/* A method's own weight decay schedule takes the place of the experiment's. */
static void weight_decay(void)
{
    static const char scheduled[] =
        "{\"learning_rate\": 0.05, \"momentum\": 0.9, \"weight_decay\": 0.001, "
        "\"weight_decay_schedule\": [[3, 0.5], [6, 0]]}";
    static const char methods[] =
        "\"backprop\", "
        "{\"name\": \"s\", \"kind\": \"codistillation\", \"models\": 1, "
        "\"weight_decay_schedule\": [[3, 0.5], [6, 0]]}, "
        "{\"name\": \"l\", \"kind\": \"codistillation\", \"models\": 1, "
        "\"weight_decay_schedule\": [[3, 0.5], [6, 0]], \"inner\": {\"kind\": \"local\", "
        "\"stages\": 1, \"update_every\": 1}}";
    struct simulation *a = train(quick_link, 8, methods);
    struct simulation *b =
        train_on(8, true, quick_link, scheduled, BATCH, 8, "\"backprop\"");
    CU_ASSERT_FALSE(same_parts(a->methods[0], 0, a->methods[1], 0, 1));
    CU_ASSERT(same_parts(a->methods[1], 0, b->methods[0], 0, 1));
    CU_ASSERT(same_parts(a->methods[2], 0, b->methods[0], 0, 1));
    CU_ASSERT_EQUAL(same_steps(a->methods[0], a->methods[1], 0), 4);
    simulation_free(a);
    simulation_free(b);
}

static void refusals(void)
{
    static const struct {
        const char *method, *part;
    } cases[] = {
        {"\"exchange\": \"weights\"", "checkpoints"},
        {"\"exchange\": \"checkpoints\"", "period"},
        {"\"period\": 0", "period"},
        {"\"exchange\": \"checkpoints\", \"period\": 0", "period"},
        {"\"data\": \"own\"", "coordinated sampling"},
        {"\"topology\": \"hierarchical\"", "group"},
        {"\"topology\": \"hierarchical\", \"models\": 4, \"group\": 3", "groups of 3"},
        {"\"group\": 2", "no effect"},
        {"\"temperature\": 2", "no effect"},
        {"\"distance\": \"kl\", \"temperature\": 0", "temperature"},
        {"\"ramp_steps\": 2", "no effect"},
        {"\"delay_steps\": 2", "no effect"},
        {"\"alpha_schedule\": \"ramp\"", "ramp_steps"},
        {"\"alpha_schedule\": \"delayed\", \"delay_steps\": 0", "delay_steps"},
        {"\"alpha\": -1", "alpha"},
        {"\"weight_decay_schedule\": []", "1 to 8"},
        {"\"weight_decay_schedule\": [[5, 0.1], [5, 0.2]]", "weight_decay_schedule[1]"},
        {"\"weight_decay_schedule\": [[5]]", "pair"},
        {"\"weight_decay_schedule\": [[5, 2]]", "weight_decay_schedule[0][1]"},
        {"\"models\": 0", "models"},
        {"\"models\": 5", "processors"},
        {"\"inner\": \"codistillation\"", "cannot be inside"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096];
        struct error error;
        snprintf(
            text, sizeof text,
            "{\"model\": %s, \"platform\": \"ipu-m2000\", \"numerics\": false, \"batch\": "
            "8, \"micro_batch\": 2, \"methods\": [{\"kind\": \"codistillation\", %s}]}",
            model_text, cases[i].method);
        struct experiment *e = read_experiment(text, &error);
        CU_ASSERT_PTR_NULL(e);
        if (e != NULL || strstr(error.message, cases[i].part) == NULL)
            printf("\n  %s: %s\n", cases[i].method, error.message);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, cases[i].part));
        experiment_free(e);
    }
}

static const struct check checks[] = {
    {"without influence it is plain training", no_influence},
    {"schedules of alpha", alpha_schedules},
    {"inner methods", inner_methods},
    {"a model that fails", failure},
    {"weight decay", weight_decay},
    {"refusals", refusals},
};

CHECK_MAIN("codistillation", checks)
