/* Synchronous methods compute what one processor computes, bit for bit, at every step;
 * the speed of a link changes no number. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

static const struct text_link slow_link = {1e6, 1e-4}, fast_link = {1e12, 0};

/* Layers of many kinds: what is kept for backward, what is drawn at random, what crosses
 * a cut twice (the residual). Seven blocks. */
static const char model[] =
    "{\"input\": [12], \"blocks\": ["
    "{\"name\": \"in\", \"layers\": [{\"kind\": \"linear\", \"out\": 16}, {\"kind\": "
    "\"relu\"}]},"
    "{\"name\": \"norm\", \"layers\": [{\"kind\": \"layer_norm\", \"name\": \"norm\"}, "
    "{\"kind\": \"linear\", \"out\": 16}, {\"kind\": \"gelu\"}]},"
    "{\"name\": \"residual\", \"layers\": [{\"kind\": \"linear\", \"out\": 16}, {\"kind\": "
    "\"relu\"}, "
    "{\"kind\": \"add\", \"inputs\": [\"previous\", \"block_input\"]}]},"
    "{\"name\": \"drop\", \"layers\": [{\"kind\": \"dropout\", \"rate\": 0.2}, "
    "{\"kind\": \"linear\", \"out\": 9}]},"
    "{\"name\": \"far\", \"layers\": [{\"kind\": \"relu\"}, {\"kind\": \"linear\", "
    "\"out\": 16}, "
    "{\"kind\": \"add\", \"inputs\": [\"previous\", \"norm.norm\"]}]},"
    "{\"name\": \"late\", \"layers\": [{\"kind\": \"gelu\"}, {\"kind\": \"linear\", "
    "\"out\": 7}]},"
    "{\"name\": \"out\", \"layers\": [{\"kind\": \"linear\", \"out\": 4}]}]}";
static const char data[] =
    "{\"kind\": \"synthetic\", \"features\": 12, \"classes\": 4, "
    "\"separation\": 2, \"train_samples\": 50, \"test_samples\": 37}";
static const char sgd[] = "{\"kind\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9}";

/* The metrics that any processor told of this name, in their order. */
static size_t series(const struct simulated *s, const char *name, double *values,
                     size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < s->event_count && count < most; i++)
        if (s->events[i].kind == EVENT_METRIC && strcmp(s->events[i].name, name) == 0)
            values[count++] = s->events[i].value;
    return count;
}

static bool same_series(const struct simulated *a, const struct simulated *b,
                        const char *name, size_t steps)
{
    double x[64], y[64];
    size_t n = series(a, name, x, 64), m = series(b, name, y, 64);
    return n == steps && m == steps && memcmp(x, y, n * sizeof *x) == 0;
}

/* Loss of every step, and accuracy and loss on the test set after every step. */
static void check_same(const struct simulated *a, const struct simulated *b, size_t steps)
{
    CU_ASSERT(same_series(a, b, "loss", steps));
    CU_ASSERT(same_series(a, b, "accuracy", steps));
    CU_ASSERT(same_series(a, b, "test loss", steps));
}

static void check_learns(const struct simulated *s, size_t steps)
{
    double loss[64] = {0};
    size_t count = series(s, "loss", loss, 64);
    CU_ASSERT_EQUAL_FATAL(count, steps);
    CU_ASSERT(loss[count - 1] < 0.9 * loss[0]);
    for (size_t i = 0; i < count; i++)
        CU_ASSERT(isfinite(loss[i]) && loss[i] > 0);
}

static struct simulation *train(const char *optimizer, uint64_t batch, uint64_t micro_batch,
                                uint64_t steps, size_t processors, bool overlap,
                                struct text_link link, const char *methods)
{
    return simulate("{\"model\": %s, \"data\": %s, \"platform\": %s, \"optimizer\": %s, "
                    "\"batch\": %d, \"micro_batch\": %d, \"steps\": %d, \"seed\": 5, "
                    "\"evaluate_every\": 1, \"methods\": [%s]}",
                    model, data,
                    roofline_machine(processors, "full", overlap, 1 << 24, link), optimizer,
                    (int)batch, (int)micro_batch, (int)steps, methods);
}

/* Method 0 against all others. */
static void check_all(const char *optimizer, uint64_t batch, uint64_t micro_batch,
                      bool overlap, const char *methods)
{
    const size_t steps = 8;
    struct simulation *s =
        train(optimizer, batch, micro_batch, steps, 8, overlap, slow_link, methods);
    check_learns(s->methods[0], steps);
    for (size_t i = 1; i < s->count; i++)
        check_same(s->methods[0], s->methods[i], steps);
    simulation_free(s);
}

static void every_stage_count(void)
{
    for (int p = 1; p <= 7; p++)
        for (uint64_t micro_batch = 12; micro_batch >= 3; micro_batch -= 3) {
            char methods[2048];
            if (12 % micro_batch != 0)
                continue;
            snprintf(
                methods, sizeof methods,
                "\"backprop\", "
                "{\"name\": \"br\", \"kind\": \"backprop\", \"recompute\": \"stage\"}, "
                "{\"name\": \"g\", \"kind\": \"pipeline\", \"stages\": %d, \"schedule\": "
                "\"gpipe\"}, "
                "{\"name\": \"f\", \"kind\": \"pipeline\", \"stages\": %d, \"schedule\": "
                "\"1f1b\", "
                "\"queue_capacity\": 1}, "
                "{\"name\": \"gr\", \"kind\": \"pipeline\", \"stages\": %d, \"schedule\": "
                "\"gpipe\", "
                "\"recompute\": \"stage\"}, "
                "{\"name\": \"fr\", \"kind\": \"pipeline\", \"stages\": %d, \"schedule\": "
                "\"1f1b\", "
                "\"recompute\": \"stage\", \"queue_capacity\": 5}",
                p, p, p, p);
            check_all(sgd, 12, micro_batch, p % 2 == 0, methods);
        }
}

/* All 64 ways of cutting seven blocks, some on processors in another order. */
static void every_cut(void)
{
    for (unsigned cuts = 0; cuts < 64; cuts++) {
        char methods[1024], list[64] = "";
        unsigned run = 1, stages = 1;
        for (unsigned i = 0; i < 6; i++, run++)
            if ((cuts >> i & 1u) != 0) {
                snprintf(list + strlen(list), 16, "%u, ", run);
                run = 0;
                stages++;
            }
        snprintf(list + strlen(list), 16, "%u", run);
        char placement[64] = "";
        for (unsigned i = 0; i < stages; i++)
            snprintf(placement + strlen(placement), 16, "%s%u", i > 0 ? ", " : "",
                     (5 * i + 3) % 8);
        snprintf(methods, sizeof methods,
                 "\"backprop\", {\"kind\": \"pipeline\", \"stages\": [%s], \"schedule\": "
                 "\"%s\", "
                 "\"placement\": [%s]}",
                 list, cuts % 2 == 0 ? "gpipe" : "1f1b", placement);
        check_all(sgd, 8, 2, cuts % 3 == 0, methods);
    }
}

static void every_optimizer(void)
{
    static const char *const optimizers[] = {
        "{\"kind\": \"sgd\", \"learning_rate\": 0.1, \"weight_decay\": 0.01}",
        "{\"kind\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9, \"nesterov\": "
        "true}",
        "{\"kind\": \"adam\", \"learning_rate\": 0.02}",
        "{\"kind\": \"adamw\", \"learning_rate\": 0.02, \"weight_decay\": 0.1}",
        "{\"kind\": \"lars\", \"learning_rate\": 0.1, \"trust\": 0.3}",
    };
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++)
        check_all(optimizers[i], 9, 3, true,
                  "\"backprop\", {\"kind\": \"pipeline\", \"stages\": 3}, "
                  "{\"name\": \"one\", \"kind\": \"codistillation\", \"models\": 1}");
}

/* Clipping by the norm of all gradients: right on one processor, refused where no
 * processor has them all. */
static void clipping(void)
{
    static const char clipped[] =
        "{\"kind\": \"sgd\", \"learning_rate\": 0.2, \"clip_norm\": 0.5}";
    check_all(clipped, 9, 3, true, "\"backprop\", {\"kind\": \"pipeline\", \"stages\": 1}");
    char text[8192];
    struct error error;
    snprintf(text, sizeof text,
             "{\"model\": %s, \"data\": %s, \"platform\": %s, \"optimizer\": %s, "
             "\"batch\": 4, \"methods\": [{\"kind\": \"pipeline\", \"stages\": 2}]}",
             model, data, roofline_machine(2, "line", true, 1 << 24, slow_link), clipped);
    CU_ASSERT_PTR_NULL(read_experiment(text, &error));
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "methods[0]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "clip_norm"));
}

/* One chunk has no head of its own and no neighbour: it is backprop. */
static void local_of_one_chunk(void)
{
    check_all(sgd, 12, 12, true, "\"backprop\", {\"kind\": \"local\", \"stages\": 1}");
    check_all(
        sgd, 12, 3, false,
        "\"backprop\", {\"kind\": \"local\", \"stages\": [7], \"queue_capacity\": 9}");
}

static void codistillation_of_one(void)
{
    check_all(
        sgd, 12, 4, true,
        "\"backprop\", {\"name\": \"all\", \"kind\": \"codistillation\", \"models\": 1, "
        "\"alpha\": 3}, "
        "{\"name\": \"ring\", \"kind\": \"codistillation\", \"models\": 1, \"topology\": "
        "\"ring\"}, "
        "{\"name\": \"pipe\", \"kind\": \"codistillation\", \"models\": 1, \"distance\": "
        "\"kl\", "
        "\"inner\": {\"kind\": \"pipeline\", \"stages\": 4, \"recompute\": \"stage\"}}, "
        "{\"name\": \"replica\", \"kind\": \"data_parallel\", \"replicas\": 1}");
}

/* With alpha 0, or before burn-in is over, models that start alike train as one alone. */
static void codistillation_without_effect(void)
{
    static const char *const settings[] = {
        "\"alpha\": 0", "\"alpha\": 0, \"distance\": \"kl\"", "\"burn_in_steps\": 8",
        "\"alpha\": 0, \"topology\": \"ring\", \"inner\": {\"kind\": \"pipeline\", "
        "\"stages\": 2}"};
    const size_t steps = 8;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char methods[512];
        snprintf(methods, sizeof methods,
                 "\"backprop\", {\"kind\": \"codistillation\", \"models\": 3, "
                 "\"initialization\": \"same\", %s}",
                 settings[i]);
        struct simulation *s = train(sgd, 12, 4, steps, 8, true, slow_link, methods);
        uint32_t stages = i == 3 ? 2 : 1;
        for (uint32_t model_number = 0; model_number < 3; model_number++)
            for (size_t step = 0; step < steps; step++) {
                double alone = simulated_metric(s->methods[0], "loss", 0, step);
                uint32_t processor = model_number * stages + stages - 1;
                CU_ASSERT(alone ==
                          simulated_metric(s->methods[1], "loss", processor, step));
            }
        simulation_free(s);
    }
}

/* The distillation term does something, and models that are the same stay the same. */
static void codistillation_with_effect(void)
{
    const size_t steps = 8;
    struct simulation *s = train(
        sgd, 12, 4, steps, 8, true, slow_link,
        "\"backprop\", {\"name\": \"d\", \"kind\": \"codistillation\", \"models\": 2}, "
        "{\"name\": \"k\", \"kind\": \"codistillation\", \"models\": 2, \"distance\": "
        "\"kl\", "
        "\"temperature\": 2}, "
        "{\"name\": \"s\", \"kind\": \"codistillation\", \"models\": 2, "
        "\"initialization\": \"same\"}, "
        "{\"name\": \"b\", \"kind\": \"codistillation\", \"models\": 2, \"burn_in_steps\": "
        "4}");
    const struct simulated *alone = s->methods[0];
    for (size_t i = 1; i <= 2; i++) {
        CU_ASSERT(simulated_metric(s->methods[i], "loss", 0, 0) ==
                  simulated_metric(alone, "loss", 0, 0));
        CU_ASSERT(simulated_metric(s->methods[i], "loss", 0, steps - 1) !=
                  simulated_metric(alone, "loss", 0, steps - 1));
        CU_ASSERT(simulated_metric(s->methods[i], "loss", 0, 0) !=
                  simulated_metric(s->methods[i], "loss", 1, 0));
    }
    for (size_t step = 0; step < steps; step++) {
        /* equal predictions: the distance and its gradient are zero */
        CU_ASSERT(simulated_metric(s->methods[3], "loss", 0, step) ==
                  simulated_metric(alone, "loss", 0, step));
        /* step 4's own loss is still that of weights untouched by a teacher */
        bool touched = simulated_metric(s->methods[4], "loss", 0, step) !=
                       simulated_metric(alone, "loss", 0, step);
        CU_ASSERT(touched == (step > 4));
    }
    simulation_free(s);
}

/* What programs compute does not depend on when messages arrive. */
static void link_speed(void)
{
    static const char methods[] =
        "{\"name\": \"p\", \"kind\": \"pipeline\", \"stages\": 4}, "
        "{\"name\": \"l\", \"kind\": \"local\", \"stages\": 4}, "
        "{\"name\": \"c\", \"kind\": \"codistillation\", \"models\": 3}, "
        "{\"name\": \"d\", \"kind\": \"data_parallel\", \"replicas\": 3}, "
        "{\"name\": \"e\", \"kind\": \"codistillation\", \"models\": 2, "
        "\"inner\": {\"kind\": \"local\", \"stages\": 3}}";
    const size_t steps = 6;
    struct simulation *slow = train(sgd, 12, 2, steps, 8, false, slow_link, methods);
    struct simulation *fast = train(sgd, 12, 2, steps, 8, true, fast_link, methods);
    for (size_t i = 0; i < slow->count; i++) {
        const struct simulated *a = slow->methods[i], *b = fast->methods[i];
        CU_ASSERT(b->result.time_s < a->result.time_s);
        CU_ASSERT_EQUAL(a->bytes, b->bytes);
        for (uint32_t processor = 0; processor < 8; processor++)
            for (size_t step = 0; step < steps; step++) {
                double x = simulated_metric(a, "loss", processor, step);
                double y = simulated_metric(b, "loss", processor, step);
                CU_ASSERT(x == y || (isnan(x) && isnan(y)));
            }
        double last[2];
        last[0] = simulated_metric(a, "test loss", 0, steps - 1);
        last[1] = simulated_metric(b, "test loss", 0, steps - 1);
        CU_ASSERT(last[0] == last[1] || (isnan(last[0]) && isnan(last[1])));
    }
    simulation_free(slow);
    simulation_free(fast);
}

/* Up to the order of sums: replicas share what one processor does alone. */
static void replicas(void)
{
    const size_t steps = 5;
    for (int r = 2; r <= 6; r++) {
        char methods[512];
        if (12 % r != 0)
            continue;
        snprintf(methods, sizeof methods,
                 "\"backprop\", {\"kind\": \"data_parallel\", \"replicas\": %d}", r);
        struct simulation *s = train(sgd, 12, 1, steps, 8, true, fast_link, methods);
        for (size_t step = 0; step < steps; step++) {
            double mean = 0;
            for (uint32_t processor = 0; processor < (uint32_t)r; processor++)
                mean += simulated_metric(s->methods[1], "loss", processor, step) / r;
            CHECK_CLOSE(mean, simulated_metric(s->methods[0], "loss", 0, step), 2e-5);
        }
        CHECK_CLOSE(simulated_metric(s->methods[1], "test loss", 0, steps - 1),
                    simulated_metric(s->methods[0], "test loss", 0, steps - 1), 2e-5);
        simulation_free(s);
    }
}

static const struct check checks[] = {
    {"pipelines of 1 to 7 stages are backprop", every_stage_count},
    {"every cut, any placement", every_cut},
    {"every optimiser", every_optimizer},
    {"clipping by the norm of all gradients", clipping},
    {"local with one chunk is backprop", local_of_one_chunk},
    {"codistillation of one model is backprop", codistillation_of_one},
    {"codistillation with alpha 0 or in burn-in is backprop",
     codistillation_without_effect},
    {"the distillation term", codistillation_with_effect},
    {"a faster link changes no number", link_speed},
    {"data parallel, up to the order of sums", replicas},
};

CHECK_MAIN("method numerics", checks)
