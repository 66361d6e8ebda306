/* Experiments that are wrong: each is refused with bad-input status and one message that
 * names the file, the place and what is allowed there. */
#include "tests/machine_text.h"
#include "tests/simulate.h"

static char *base_text(void)
{
    char *text = NULL;
    struct text_link link = {1e9, 1e-6};
    CU_ASSERT_FATAL(
        asprintf(
            &text,
            "{\"name\": \"base\", \"model\": {\"preset\": \"mlp\", \"depth\": 3, "
            "\"hidden\": 8}, "
            "\"data\": {\"kind\": \"synthetic\", \"features\": 8, \"classes\": 3}, "
            "\"platform\": %s, \"batch\": 8, \"micro_batch\": 2, \"steps\": 3, "
            "\"methods\": [\"backprop\", {\"kind\": \"pipeline\", \"stages\": 4}, "
            "{\"kind\": \"local\"}, {\"kind\": \"codistillation\"}, \"data_parallel\"]}",
            roofline_machine(4, "line", true, 1 << 20, link)) >= 0);
    return text;
}

/* The base with one value changed; NULL when that is refused, with the error. */
static struct experiment *read_changed(const char *key, const char *value,
                                       struct error *error)
{
    char *text = base_text();
    *error = (struct error){0};
    struct json_file *file = json_file_parse("e.json", text, error);
    free(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    if (key != NULL && !json_file_set(file, key, value, error)) {
        json_file_free(file);
        return NULL;
    }
    return experiment_read(file, error);
}

struct wrong {
    const char *key, *value, *place, *says;
};

static const struct wrong values[] = {
    {"stepz", "3", "e.json: ", "\"steps\""},
    {"steps", "0", "steps: ", "from 1"},
    {"steps", "-1", "steps: ", "from 1"},
    {"steps", "1.5", "steps: ", "integer"},
    {"steps", "\"many\"", "steps: ", "integer"},
    {"steps", "null", "steps: ", "null"},
    {"steps", "1e300", "steps: ", "integer"},
    {"batch", "0", "batch: ", "from 1"},
    {"batch", "7", "micro_batch: ", "divide"},
    {"micro_batch", "3", "micro_batch: ", "divide"},
    {"micro_batch", "16", "micro_batch: ", "divide"},
    {"batch", "1099511627776", "methods[0]", "micro-batches"},
    {"seed", "-1", "seed: ", "from 0"},
    {"trace_steps", "-1", "trace_steps: ", "from 0"},
    {"evaluate_every", "0.5", "evaluate_every: ", "integer"},
    {"target_accuracy", "1.5", "target_accuracy: ", "from 0 to 1"},
    {"numerics", "1", "numerics: ", "true or false"},
    {"fidelity", "\"perfect\"", "fidelity: ", "auto"},
    {"name", "7", "name: ", "string"},
    {"precision", "\"fp12\"", "precision: ", "fp16"},
    {"precision", "{\"wieghts\": \"fp16\"}", "precision: ", "\"weights\""},
    {"precision", "16", "precision: ", "fp16"},
    {"optimizer", "\"sdg\"", "optimizer", "sgd"},
    {"optimizer.learning_rate", "-1", "optimizer.learning_rate: ", "from 0"},
    {"optimizer.momentun", "1", "optimizer: ", "\"momentum\""},
    {"model", "\"mlq\"", "model", "mlp"},
    {"model", "null", "model: ", "preset"},
    {"model.hidden", "0", "model.hidden: ", "from 1"},
    {"model.classes", "7", "model: ", "7"},
    {"model.input", "[9]", "model: ", "shape 9"},
    {"model.input", "[]", "model.input: ", "list"},
    {"model.width", "7", "model: ", "hidden"},
    {"data", "null", "data: ", "null"},
    {"data", "\"mnist\"", "data.kind: ", "fashion_mnist"},
    {"data.classes", "1", "data.classes: ", "from 2"},
    {"data.train_samples", "0", "data.train_samples: ", "from 1"},
    {"methods", "[]", "methods: ", "at least one"},
    {"methods", "{}", "methods: ", "list"},
    {"methods.0", "\"backprob\"", "methods[0]", "\"backprop\""},
    {"methods.0", "7", "methods[0]: ", "object"},
    {"methods.0", "{\"name\": \"x\"}", "methods[0]: ", "\"kind\""},
    {"methods.0", "{\"kind\": \"backprop\", \"name\": \"local\"}", "methods[2]",
     "\"local\""},
    {"methods.0", "{\"kind\": \"backprop\", \"name\": \"a/b\"}",
     "methods[0].name: ", "a/b"},
    {"methods.0", "{\"kind\": \"backprop\", \"name\": \"\"}", "methods[0].name: ", "name"},
    {"methods.0", "{\"kind\": \"backprop\", \"name\": \"..\"}",
     "methods[0].name: ", "name"},
    {"methods.0", "{\"kind\": \"backprop\", \"stages\": 2}", "methods[0]: ", "\"stages\""},
    {"methods.1.stages", "5", "methods[1]", "4 blocks"},
    {"methods.1.stages", "0", "methods[1].stages: ", "from 1"},
    {"methods.1.stages", "[1, 1]", "methods[1]", "only 2"},
    {"methods.1.stages", "[1, 4]", "methods[1]", "more than 4"},
    {"methods.1.stages", "[4, 0]", "methods[1].stages[1]: ", "from 1"},
    {"methods.1.stages", "[]", "methods[1].stages: ", "0 stages"},
    {"methods.1.stages", "\"two\"", "methods[1].stages: ", "auto"},
    {"methods.1.schedule", "\"1b1f\"", "methods[1].schedule: ", "\"1f1b\""},
    {"methods.1.recompute", "\"all\"", "methods[1].recompute: ", "none"},
    {"methods.1.queue_capacity", "0", "methods[1].queue_capacity: ", "from 1"},
    {"methods.1.placement", "[0, 1, 2, 4]", "methods[1]", "processor 4"},
    {"methods.1.placement", "[0, 1, 2, 2]", "methods[1].placement[3]: ", "twice"},
    {"methods.1.placement", "[0, 1, 2, -1]", "methods[1].placement[3]: ", "from 0"},
    {"methods.1.placement", "[0, 1]", "methods[1]", "needs more"},
    {"methods.0", "{\"kind\": \"backprop\", \"placement\": [0, 1]}", "methods[0]",
     "uses 1"},
    {"methods.1.placement", "[]", "methods[1].placement: ", "list"},
    {"methods.1.placement", "\"p0\"", "methods[1].placement: ", "list"},
    {"methods.2.head", "\"round\"", "methods[2]", "auto"},
    {"methods.3.models", "0", "methods[3].models: ", "from 1"},
    {"methods.3.models", "5", "methods[3]", "4 processors"},
    {"methods.3.alpha", "-1", "methods[3].alpha: ", "from 0"},
    {"methods.3.distance", "\"l1\"", "methods[3].distance: ", "mse"},
    {"methods.3.inner", "\"codistillation\"", "methods[3]", "codistillation"},
    {"methods.3.inner", "{\"kind\": \"pipeline\", \"placement\": [0, 1, 2, 3]}",
     "methods[3].inner", "outermost"},
    {"methods.4", "{\"kind\": \"data_parallel\", \"replicas\": 3}", "methods[4]", "evenly"},
    {"methods.4", "{\"kind\": \"data_parallel\", \"replicas\": 0}",
     "methods[4].replicas: ", "from 1"},
    {"platform", "\"nonesuch\"", "platform: ", "ipu-m2000"},
    {"platform", "7", "platform: ", "name"},
    {"platform", "\"/\"", "platform: ", "no such file"},
    {"platform.processors.count", "0", "platform.processors.count: ", "from 1"},
    {"platform.processors.kind", "\"gpu\"", "platform.processors.kind: ", "roofline"},
    {"platform.processors.memory", "1", "platform.processors: ", "memory_bytes"},
    {"platform.processors.peak_flops_per_s", "{\"fp16\": 1e9}", "methods[0]", "fp32"},
    {"platform.topology.link.bandwidth_bytes_per_s", "-1",
     "platform.topology.link.bandwidth_bytes_per_s: ", "from 0"},
    {"platform.topology.link.bandwidth_bytes_per_s", "0",
     "platform.topology.link.bandwidth_bytes_per_s: ", "above 0"},
    {"platform.topology.link.bandwidth", "1",
     "platform.topology.link: ", "bandwidth_bytes_per_s"},
    {"platform.topology",
     "{\"kind\": \"links\", \"links\": [{\"from\": 0, \"to\": 1, "
     "\"bandwidth_bytes_per_s\": 1, \"latency_s\": 0}]}",
     "platform.topology: ", "not connected"},
    {"platform.processors", "[{\"name\": \"a\", \"kind\": \"roofline\"}]",
     "platform.processors[0]", "missing"},
};

static void wrong_values(void)
{
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct error error;
        const struct wrong *w = &values[i];
        struct experiment *e = read_changed(w->key, w->value, &error);
        bool refused = e == NULL && error.status == STATUS_BAD_INPUT &&
                       strncmp(error.message, "e.json: ", 8) == 0 &&
                       strstr(error.message, w->place) != NULL &&
                       strstr(error.message, w->says) != NULL &&
                       strchr(error.message, '\n') == NULL;
        if (!refused)
            printf("\n  %s = %s: %s\n", w->key, w->value,
                   e == NULL ? error.message : "was accepted");
        CU_ASSERT(refused);
        experiment_free(e);
    }
}

static void missing_keys(void)
{
    static const char *const needed[] = {"model", "data", "platform", "methods"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        struct error error;
        char *text = base_text(), quoted[32];
        struct json_file *file = json_file_parse("e.json", text, &error);
        free(text);
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        cJSON_DeleteItemFromObjectCaseSensitive(json_file_tree(file), needed[i]);
        struct experiment *e = experiment_read(file, &error);
        CU_ASSERT_PTR_NULL(e);
        CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
        snprintf(quoted, sizeof quoted, "\"%s\"", needed[i]);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.message, quoted));
        experiment_free(e);
    }
}

/* The tree is the experiment with everything that was not said written down, and reading
 * that again gives the same experiment. */
static void resolved(void)
{
    struct error error;
    struct experiment *e = read_changed(NULL, NULL, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    static const char *const written[] = {"seed",      "trace_steps", "evaluate_every",
                                          "precision", "optimizer",   "target_accuracy",
                                          "fidelity"};
    const cJSON *tree = json_file_tree(e->file);
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        CU_ASSERT_PTR_NOT_NULL(cJSON_GetObjectItemCaseSensitive(tree, written[i]));
    char *first = cJSON_Print(tree);
    struct experiment *again = read_experiment(first, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(again);
    char *second = cJSON_Print(json_file_tree(again->file));
    CU_ASSERT_STRING_EQUAL(first, second);
    CU_ASSERT_EQUAL(again->method_count, e->method_count);
    cJSON_free(first);
    cJSON_free(second);
    experiment_free(again);
    experiment_free(e);
}

/* Values that are odd but fine. */
static void accepted(void)
{
    static const struct wrong fine[] = {
        {"comment", "\"why\"", NULL, NULL},
        {"steps", "1", NULL, NULL},
        {"batch", "4", NULL, NULL},
        {"micro_batch", "4", NULL, NULL},
        {"seed", "9007199254740992", NULL, NULL},
        {"trace_steps", "0", NULL, NULL},
        {"evaluate_every", "0", NULL, NULL},
        {"target_accuracy", "0", NULL, NULL},
        {"methods", "[\"backprop\"]", NULL, NULL},
        {"methods.1.placement", "[3, 1, 0, 2]", NULL, NULL},
        {"methods.1.stages", "[1, 1, 1, 1]", NULL, NULL},
        {"methods.1.name", "\"a b-c_d.e+f\"", NULL, NULL},
        {"platform", "\"ipu-m2000\"", NULL, NULL},
        {"platform.topology.link.bandwidth_bytes_per_s", "\"infinite\"", NULL, NULL},
        {"model.depth", "7", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        struct error error;
        struct experiment *e = read_changed(fine[i].key, fine[i].value, &error);
        if (e == NULL)
            printf("\n  %s = %s: %s\n", fine[i].key, fine[i].value, error.message);
        CU_ASSERT_PTR_NOT_NULL(e);
        experiment_free(e);
    }
}

/* Any text at all: no crash, and a message when refused. */
static void damaged(void)
{
    char *text = base_text();
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        struct error error;
        char *copy = strdup(text);
        CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
        copy[i] = "}]\"0,:-x"[i % 8];
        struct experiment *e = read_experiment(copy, &error);
        CU_ASSERT(e != NULL ||
                  (error.status == STATUS_BAD_INPUT && error.message[0] != '\0'));
        experiment_free(e);
        copy[i] = '\0'; /* cut off */
        e = read_experiment(copy, &error);
        CU_ASSERT(e == NULL && error.status == STATUS_BAD_INPUT);
        free(copy);
    }
    free(text);
}

static const struct check checks[] = {
    {"wrong values are refused with place and advice", wrong_values},
    {"missing keys", missing_keys},
    {"the resolved experiment", resolved},
    {"odd values are accepted", accepted},
    {"damaged text", damaged},
};

CHECK_MAIN("experiment", checks)
