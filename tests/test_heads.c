/* The head that shares the embedding. */
#include "tests/simulate.h"

static struct model *read_model(const char *text, struct error *error)
{
    struct json_file *file = json_file_parse("model", text, error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    struct json_at root = json_root(file);
    struct model *model = model_read(&root, error);
    json_file_free(file);
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    return model;
}

static struct model *with_heads(const char *text, const char *kind, uint64_t *before,
                                struct error *error)
{
    struct model *model = read_model(text, error);
    const size_t ends[] = {1, model->block_count};
    size_t heads[2], bodies[2];
    *before = model_parameter_count(model);
    struct model *copy = model_with_heads(model, ends, 2, kind, heads, bodies, error);
    model_free(model);
    return copy;
}

static const char lm[] = "{\"preset\": \"transformer_lm\", \"width\": 24, \"depth\": 3, "
                         "\"heads\": 2, \"length\": 5, \"vocabulary\": 11}";

static void shares_the_matrix(void)
{
    struct error error = {STATUS_OK, ""};
    uint64_t before;
    struct model *own = with_heads(lm, "projection", &before, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(own);
    CU_ASSERT_EQUAL(model_parameter_count(own) - before, 2 * 24 + 24 * 11 + 11);
    struct model *tied = with_heads(lm, "tied_projection", &before, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(tied);
    CU_ASSERT_EQUAL(model_parameter_count(tied) - before, 2 * 24);
    model_free(own);
    model_free(tied);
}

static void refused_without_an_embedding(void)
{
    struct error error = {STATUS_OK, ""};
    uint64_t before;
    struct model *none = with_heads("{\"preset\": \"mlp\", \"depth\": 2}", "tied_projection",
                                    &before, &error);
    CU_ASSERT_PTR_NULL(none);
    CU_ASSERT_EQUAL(error.status, STATUS_BAD_INPUT);
}

/* All chunks hold equal copies of the matrix: one chunk or many, the evaluation finds it. */
static void trains(void)
{
    struct simulation *s = simulate(
        "{\"model\": %s, \"data\": {\"kind\": \"synthetic_sequence\", \"length\": 5, "
        "\"vocabulary\": 11}, \"platform\": \"ipu-m2000\", \"batch\": 4, \"micro_batch\": 2, "
        "\"steps\": 6, \"methods\": [{\"kind\": \"local\", \"stages\": 3, \"head\": "
        "\"tied_projection\"}, {\"name\": \"own\", \"kind\": \"local\", \"stages\": 3}]}",
        lm);
    CU_ASSERT_FATAL(s->methods[0]->done && s->methods[1]->done);
    double first = simulated_metric(s->methods[0], "loss", 2, 0);
    double last = simulated_metric(s->methods[0], "loss", 2, 5);
    CU_ASSERT(isfinite(last) && last < first);
    CU_ASSERT(s->methods[0]->bytes > s->methods[1]->bytes); /* the summing of gradients */
    simulation_free(s);
}

static const struct check checks[] = {
    {"it adds a norm alone", shares_the_matrix},
    {"it is refused where there is no embedding", refused_without_an_embedding},
    {"it trains, and its gradients travel", trains},
};

CHECK_MAIN("heads", checks)
