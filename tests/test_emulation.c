/* Emulated number formats, through the trainer alone: no clock is needed. */
#include "engine/rounding.h"
#include "sim/trainer.h"
#include "tests/simulate.h"

struct run {
    struct experiment *experiment;
    struct dataset *dataset;
    struct trainer *trainer;
};

static struct run train(const char *precision, unsigned steps)
{
    struct run r = {0};
    struct error error;
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model\": {\"preset\": \"mlp\", \"depth\": 2, \"hidden\": 24}, \"data\": "
             "{\"kind\": \"synthetic\", \"features\": 12, \"classes\": 3}, \"platform\": "
             "\"two-processors\", \"precision\": %s, \"batch\": 8, \"micro_batch\": 4, "
             "\"steps\": 5, \"seed\": 3, \"methods\": [\"backprop\"]}",
             precision);
    r.experiment = read_experiment(text, &error);
    if (r.experiment == NULL)
        printf("\n  %s\n", error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.experiment);
    r.dataset = experiment_open_data(r.experiment, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.dataset);
    const struct trainer_options options = {.plan = r.experiment->plans[0],
                                            .model = r.experiment->model,
                                            .dataset = r.dataset,
                                            .steps = 5,
                                            .seed = 3};
    r.trainer = trainer_create(&options, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.trainer);
    const size_t layers = r.experiment->model->layer_count;
    for (unsigned i = 0; i < 2 * steps; i++) {
        trainer_load(r.trainer, 0, i);
        trainer_forward(r.trainer, 0, i, 0, layers, false);
        trainer_loss(r.trainer, 0, i);
        trainer_backward(r.trainer, 0, i, 0, layers, BACKWARD_ALL);
        if (i % 2 == 1)
            trainer_update(r.trainer, 0, i / 2);
    }
    return r;
}

static void finish(struct run *r)
{
    trainer_free(r->trainer);
    dataset_free(r->dataset);
    experiment_free(r->experiment);
}

/* How many of the values are not numbers of the format. */
static size_t outside(const struct rounding *format, const scalar *values, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        scalar value = values[i];
        rounding_nearest(format, &value, 1);
        wrong += value != values[i];
    }
    return wrong;
}

static void check_stored(const char *precision, const struct rounding *weights,
                         const struct rounding *activations)
{
    struct run r = train(precision, 5);
    struct network *network = trainer_network(r.trainer, 0);
    const struct part *part = &r.experiment->plans[0]->parts[0];
    size_t count;
    const scalar *parameters = network_parameters(network, &count);
    size_t off_weights = outside(weights, parameters, count);
    size_t off_logits =
        outside(activations, network_value(network, 0, part->logits_value), 4 * 3);
    CU_ASSERT_EQUAL(off_weights, 0);
    CU_ASSERT_EQUAL(off_logits, 0);
    finish(&r);
}

static void stored_values(void)
{
    check_stored("{\"weights\": \"fp16\", \"activations\": \"fp16\", \"emulate\": true}",
                 &rounding_fp16, &rounding_fp16);
    check_stored("{\"weights\": \"fp8\", \"activations\": \"fp16\", \"emulate\": true, "
                 "\"stochastic_rounding\": true}",
                 &rounding_fp8, &rounding_fp16);
    /* and the check can fail */
    struct run r = train("\"fp16\"", 5);
    size_t count;
    const scalar *parameters = network_parameters(trainer_network(r.trainer, 0), &count);
    CU_ASSERT(outside(&rounding_fp16, parameters, count) > count / 2);
    finish(&r);
}

static void check_same(const char *a, const char *b, bool same)
{
    struct run one = train(a, 5), other = train(b, 5);
    size_t count;
    const scalar *p = network_parameters(trainer_network(one.trainer, 0), &count);
    const scalar *q = network_parameters(trainer_network(other.trainer, 0), NULL);
    CU_ASSERT_EQUAL(memcmp(p, q, count * sizeof *p) == 0, same);
    finish(&one);
    finish(&other);
}

static void what_does_not_matter(void)
{
    check_same("\"fp32\"", "{\"emulate\": true}", true);
    check_same("\"fp32\"", "\"fp16\"", true); /* accounted, not emulated */
    check_same("\"fp32\"", "{\"loss_scale\": 1024}", true); /* a power of two is exact */
    check_same("{\"weights\": \"fp16\", \"emulate\": true, \"stochastic_rounding\": true}",
               "{\"weights\": \"fp16\", \"emulate\": true, \"stochastic_rounding\": true}",
               true);
    check_same("{\"weights\": \"fp16\", \"emulate\": true, \"stochastic_rounding\": true}",
               "{\"weights\": \"fp16\", \"emulate\": true}", false);
}

static void refused(void)
{
    struct error error;
    struct experiment *e = read_experiment(
        "{\"model\": \"mlp\", \"numerics\": false, \"platform\": \"two-processors\", "
        "\"precision\": {\"stochastic_rounding\": true}, \"methods\": [\"backprop\"]}",
        &error);
    CU_ASSERT_PTR_NULL(e);
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.message, "emulate"));
}

static const struct check checks[] = {
    {"stored values are numbers of their format", stored_values},
    {"what does not change the numbers", what_does_not_matter},
    {"stochastic rounding alone is refused", refused},
};

CHECK_MAIN("emulation", checks)
