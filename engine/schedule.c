/* Learning-rate schedules: a factor on the learning rate by step. All begin with
 * warmup_steps of linear growth, the last of which has the full rate. */
#include "base/checked.h"
#include "engine/json_name.h"
#include "engine/optimizers/kinds.h"

#include <math.h>

struct schedule {
    const char *name;
    bool decays; /* reads decay_steps, decay_factor, weight_decay_after */
    /* After the warm-up; step < total. */
    double (*factor)(const struct optimizer_options *options, uint64_t step,
                     uint64_t total);
};

static double constant(const struct optimizer_options *options, uint64_t step,
                       uint64_t total)
{
    (void)options, (void)step, (void)total;
    return 1;
}

static size_t decays_done(const struct optimizer_options *options, uint64_t step)
{
    size_t done = 0;
    while (done < options->decay_count && step >= options->decay_steps[done])
        done++;
    return done;
}

static double steps(const struct optimizer_options *options, uint64_t step, uint64_t total)
{
    (void)total;
    return pow(options->decay_factor, (double)decays_done(options, step));
}

/* The share of the steps after the warm-up that is done. */
static double progress(const struct optimizer_options *options, uint64_t step,
                       uint64_t total)
{
    if (total <= options->warmup_steps)
        return 0;
    double done = (double)(step - options->warmup_steps);
    return fmin(1, done / (double)(total - options->warmup_steps));
}

static double linear(const struct optimizer_options *options, uint64_t step, uint64_t total)
{
    return 1 - progress(options, step, total);
}

static double cosine(const struct optimizer_options *options, uint64_t step, uint64_t total)
{
    const double pi = 3.14159265358979323846;
    return 0.5 * (1 + cos(pi * progress(options, step, total)));
}

/* As in Vaswani et al. 2017, with the learning rate as its peak. */
static double inverse_sqrt(const struct optimizer_options *options, uint64_t step,
                           uint64_t total)
{
    (void)total;
    double warmup = options->warmup_steps > 0 ? (double)options->warmup_steps : 1;
    return sqrt(warmup / (double)(step + 1));
}

static const struct schedule schedules[] = {
    {"constant", false, constant},
    {"step", true, steps},
    {"linear", false, linear},
    {"cosine", false, cosine},
    {"inverse_sqrt", false, inverse_sqrt},
};
enum { SCHEDULE_COUNT = sizeof schedules / sizeof schedules[0] };

double optimizer_learning_rate(const struct optimizer_options *options, uint64_t step,
                               uint64_t total_steps)
{
    if (step < options->warmup_steps)
        return options->learning_rate *
               ((double)(step + 1) / (double)options->warmup_steps);
    return options->learning_rate *
           schedules[options->schedule].factor(options, step, total_steps);
}

double optimizer_weight_decay(const struct optimizer_options *options, uint64_t step)
{
    size_t done = 0;
    while (done < options->weight_decay_count && step >= options->weight_decay_steps[done])
        done++;
    return done > 0 ? options->weight_decay_values[done - 1] : options->weight_decay;
}

static uint64_t times(uint64_t steps, uint64_t updates)
{
    uint64_t product;
    return checked_multiply(steps, updates, &product) ? product : UINT64_MAX;
}

void optimizer_count_updates(struct optimizer_options *options, uint64_t updates_per_step)
{
    options->warmup_steps = times(options->warmup_steps, updates_per_step);
    for (size_t i = 0; i < options->decay_count; i++)
        options->decay_steps[i] = times(options->decay_steps[i], updates_per_step);
    for (size_t i = 0; i < options->weight_decay_count; i++)
        options->weight_decay_steps[i] =
            times(options->weight_decay_steps[i], updates_per_step);
}

static bool read_decay_steps(const struct json_at *at, struct optimizer_options *options,
                             struct error *error)
{
    struct json_at list, element;
    if (!json_member(at, "decay_steps", &list, error))
        return false;
    options->decay_count = json_length(&list);
    if (options->decay_count == 0 || options->decay_count > OPTIMIZER_MAX_DECAYS)
        return json_fail(&list, error, "must be a list of 1 to %d steps",
                         OPTIMIZER_MAX_DECAYS);
    for (size_t i = 0; i < options->decay_count; i++)
        if (!json_element(&list, i, &element) ||
            !json_u64(&element, i == 0 ? 0 : options->decay_steps[i - 1] + 1, UINT64_MAX,
                      &options->decay_steps[i], error))
            return false;
    return true;
}

static bool read_weight_decays(const struct json_at *at, struct optimizer_options *options,
                               struct error *error)
{
    struct json_at list, element;
    if (!json_optional(at, "weight_decay_after", &list))
        return true;
    if (json_length(&list) != options->decay_count)
        return json_fail(&list, error, "must be a list of %zu numbers, one a decay step",
                         options->decay_count);
    options->weight_decay_count = options->decay_count;
    for (size_t i = 0; i < options->decay_count; i++) {
        options->weight_decay_steps[i] = options->decay_steps[i];
        if (!json_element(&list, i, &element) ||
            !json_number(&element, 0, 1, &options->weight_decay_values[i], error))
            return false;
    }
    return true;
}

bool optimizer_weight_decays_read(const struct json_at *list, struct optimizer_options *options,
                                  struct error *error)
{
    struct json_at pair, step, value;
    size_t count = json_length(list);
    if (!json_is_array(list) || count == 0 || count > OPTIMIZER_MAX_DECAYS)
        return json_fail(list, error, "must be a list of 1 to %d pairs [step, weight decay]",
                         OPTIMIZER_MAX_DECAYS);
    options->weight_decay_count = count;
    for (size_t i = 0; i < count; i++) {
        json_element(list, i, &pair);
        if (!json_is_array(&pair) || json_length(&pair) != 2)
            return json_fail(&pair, error, "must be a pair [step, weight decay]");
        json_element(&pair, 0, &step);
        json_element(&pair, 1, &value);
        if (!json_u64(&step, i == 0 ? 0 : options->weight_decay_steps[i - 1] + 1, UINT64_MAX,
                      &options->weight_decay_steps[i], error) ||
            !json_number(&value, 0, 1, &options->weight_decay_values[i], error))
            return false;
    }
    return true;
}

static bool no_decays(const struct json_at *at, const char *const *keys, size_t count,
                      struct error *error)
{
    struct json_at found;
    for (size_t i = 0; i < count; i++)
        if (json_optional(at, keys[i], &found))
            return json_fail(&found, error, "only a schedule of kind \"step\" has it");
    return true;
}

bool optimizer_schedule_read(const struct json_at *at, struct optimizer_options *options,
                             struct error *error)
{
    static const char *const keys[] = {"kind", "warmup_steps", "decay_steps",
                                       "decay_factor", "weight_decay_after"};
    const char *names[SCHEDULE_COUNT];
    for (size_t i = 0; i < SCHEDULE_COUNT; i++)
        names[i] = schedules[i].name;
    if (!json_name_expand(at, "kind", error) || !json_keys(at, keys, 5, error) ||
        !json_read_choice(at, "kind", names, SCHEDULE_COUNT, &options->schedule, error) ||
        !json_read_u64(at, "warmup_steps", 0, UINT64_MAX, &options->warmup_steps, error))
        return false;
    if (!schedules[options->schedule].decays)
        return no_decays(at, keys + 2, 3, error);
    return read_decay_steps(at, options, error) &&
           json_read_number(at, "decay_factor", 0, 1, &options->decay_factor, error) &&
           read_weight_decays(at, options, error);
}
