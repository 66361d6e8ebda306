#include "sim/rate.h"

#include "base/checked.h"
#include "sim/platform_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double max_flops_per_s = 1e24;

void curve_release(struct curve *curve)
{
    free(curve->x);
    free(curve->y);
    *curve = (struct curve){0};
}

static bool curve_allocate(struct curve *curve, size_t count, struct error *error)
{
    curve->x = checked_calloc(count, sizeof(*curve->x));
    curve->y = checked_calloc(count, sizeof(*curve->y));
    curve->count = count;
    return (curve->x != NULL && curve->y != NULL) || error_memory(error, "curve");
}

static bool curve_read_point(const struct json_at *at, double maximum_y,
                             struct curve *curve, size_t index, struct error *error)
{
    struct json_at x, y;
    if (json_length(at) != 2 || !json_element(at, 0, &x) || !json_element(at, 1, &y))
        return json_fail(at, error, "must be a pair [flops, value]");
    if (!platform_positive(&x, 1e30, &curve->x[index], error) ||
        !platform_positive(&y, maximum_y, &curve->y[index], error))
        return false;
    if (index > 0 && curve->x[index] <= curve->x[index - 1])
        return json_fail(&x, error, "must be above the point before, %g",
                         curve->x[index - 1]);
    return true;
}

bool curve_read(const struct json_at *at, double maximum_y, struct curve *curve,
                struct error *error)
{
    if (json_is_number(at))
        return curve_allocate(curve, 1, error) &&
               platform_positive(at, maximum_y, &curve->y[0], error);
    size_t count = json_length(at);
    if (count == 0)
        return json_fail(at, error, "must be a number or a list of [flops, value] pairs");
    if (!curve_allocate(curve, count, error))
        return false;
    struct json_at point;
    json_element(at, 0, &point);
    for (size_t i = 0; i < count; i++) {
        if (!curve_read_point(&point, maximum_y, curve, i, error))
            return false;
        json_next(&point);
    }
    return true;
}

double curve_value(const struct curve *curve, double x, bool logarithmic)
{
    if (curve->count == 1 || x <= curve->x[0])
        return curve->y[0];
    for (size_t i = 1; i < curve->count; i++) {
        double x0 = curve->x[i - 1], x1 = curve->x[i];
        double y0 = curve->y[i - 1], y1 = curve->y[i];
        if (x > x1)
            continue;
        double part = logarithmic ? log(x / x0) / log(x1 / x0) : (x - x0) / (x1 - x0);
        return y0 + part * (y1 - y0);
    }
    return curve->y[curve->count - 1];
}

static bool read_peak(const struct json_at *at, struct rate *rate, struct error *error)
{
    double number = 0;
    if (json_is_number(at)) {
        if (!platform_positive(at, max_flops_per_s, &number, error))
            return false;
        for (size_t i = 0; i < FORMAT_COUNT; i++)
            rate->peak_flops_per_s[i] = number;
        return true;
    }
    const struct key_set formats = {"peak", number_format_names, FORMAT_COUNT};
    if (!platform_check_keys(at, &formats, NULL, 0, error))
        return false;
    size_t given = 0;
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        struct json_at member;
        if (!json_optional(at, number_format_names[i], &member))
            continue;
        if (!platform_positive(&member, max_flops_per_s, &rate->peak_flops_per_s[i], error))
            return false;
        given++;
    }
    return given > 0 || json_fail(at, error, "must give at least one number format");
}

/* A class that is not named takes "other"; without "other" every class must be there. */
static bool read_efficiency(const struct json_at *at, struct rate *rate,
                            struct error *error)
{
    const char *names[OPERATION_CLASSES + 1];
    for (size_t i = 0; i < OPERATION_CLASSES; i++)
        names[i] = operation_class_name((enum operation_class)i);
    names[OPERATION_CLASSES] = "other";
    const struct key_set classes = {"efficiency", names, OPERATION_CLASSES + 1};
    bool by_class = json_is_object(at);
    if (by_class && !platform_check_keys(at, &classes, NULL, 0, error))
        return false;
    for (size_t i = 0; i < OPERATION_CLASSES; i++) {
        struct json_at member = *at;
        if (by_class && !json_optional(at, names[i], &member) &&
            !json_optional(at, "other", &member))
            return json_fail(at, error, "gives neither \"%s\" nor \"other\"", names[i]);
        if (!curve_read(&member, 1, &rate->efficiency[i], error))
            return false;
    }
    return true;
}

bool rate_read(const struct json_at *at, struct rate *rate, struct error *error)
{
    struct json_at member;
    if (!json_member(at, "peak_flops_per_s", &member, error) ||
        !read_peak(&member, rate, error))
        return false;
    /* Without an efficiency the peak is reached; written down, so that it is seen. */
    if (!json_optional(at, "efficiency", &member)) {
        double one = 1;
        if (!json_read_number(at, "efficiency", 0, 1, &one, error) ||
            !json_member(at, "efficiency", &member, error))
            return false;
    }
    return read_efficiency(&member, rate, error) &&
           json_read_number(at, "overhead_s", 0, 1e6, &rate->overhead_s, error);
}

void rate_release(struct rate *rate)
{
    for (size_t i = 0; i < OPERATION_CLASSES; i++)
        curve_release(&rate->efficiency[i]);
}

bool rate_seconds(const struct rate *rate, const struct work *work, double share,
                  double *seconds, struct error *error)
{
    *seconds = 0;
    if (work->flops == 0)
        return true;
    double peak = rate->peak_flops_per_s[work->format];
    if (!(peak > 0))
        return error_set(error, STATUS_BAD_INPUT,
                         "no peak_flops_per_s for %s, which %s%s%s needs",
                         number_format_name(work->format), work->pass,
                         strcmp(work->pass, work->layer_name) == 0 ? "" : " of ",
                         strcmp(work->pass, work->layer_name) == 0 ? "" : work->layer_name);
    double flops = (double)work->flops;
    double efficiency = curve_value(&rate->efficiency[work->operation], flops, true);
    *seconds = flops / (peak * efficiency * share);
    return true;
}
