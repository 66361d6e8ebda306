#include "sim/precision.h"

#include "engine/rounding.h"

const char *const number_format_names[FORMAT_COUNT] = {"fp32", "fp16", "bf16", "fp8"};

static const uint64_t format_bytes[FORMAT_COUNT] = {4, 2, 2, 1};

const char *number_format_name(enum number_format format)
{
    return (unsigned)format < FORMAT_COUNT ? number_format_names[format] : "unknown";
}

uint64_t number_format_bytes(enum number_format format)
{
    return (unsigned)format < FORMAT_COUNT ? format_bytes[format] : 0;
}

const struct rounding *number_format_rounding(enum number_format format)
{
    static const struct rounding *const roundings[FORMAT_COUNT] = {
        NULL, &rounding_fp16, &rounding_bf16, &rounding_fp8};
    return roundings[format];
}

/* Keys that only make sense together with another. */
static bool check_emulation(const struct json_at *at, const struct precision *precision,
                            struct error *error)
{
    if (!precision->emulate && precision->stochastic_rounding)
        return json_fail(at, error,
                         "\"stochastic_rounding\" has no effect without \"emulate\": true");
    return true;
}

static bool read_emulation(const struct json_at *at, struct precision *precision,
                           struct error *error)
{
    return json_read_boolean(at, "emulate", &precision->emulate, error) &&
           json_read_boolean(at, "stochastic_rounding", &precision->stochastic_rounding,
                             error) &&
           json_read_number(at, "loss_scale", 1e-30, 1e30, &precision->loss_scale, error) &&
           check_emulation(at, precision, error);
}

bool precision_read(const struct json_at *at, struct precision *precision,
                    struct error *error)
{
    static const char *const keys[] = {"weights",   "activations", "gradients",
                                       "optimizer", "emulate",     "stochastic_rounding",
                                       "loss_scale"};
    enum { ROLES = 4 };
    *precision = (struct precision){.loss_scale = 1};
    size_t chosen[ROLES] = {FORMAT_FP32, FORMAT_FP32, FORMAT_FP32, FORMAT_FP32};

    if (json_is_string(at)) {
        if (!json_choice(at, number_format_names, FORMAT_COUNT, &chosen[0], error))
            return false;
        chosen[1] = chosen[2] = chosen[3] = chosen[0];
    } else if (json_is_object(at)) {
        if (!json_keys(at, keys, sizeof(keys) / sizeof(keys[0]), error))
            return false;
        for (size_t i = 0; i < ROLES; i++)
            if (!json_read_choice(at, keys[i], number_format_names, FORMAT_COUNT,
                                  &chosen[i], error))
                return false;
        if (!read_emulation(at, precision, error))
            return false;
    } else {
        return json_fail(at, error,
                         "must be a number format (\"fp16\") or an object with one "
                         "for each of weights, activations, gradients, optimizer");
    }
    precision->weights = (enum number_format)chosen[0];
    precision->activations = (enum number_format)chosen[1];
    precision->gradients = (enum number_format)chosen[2];
    precision->optimizer = (enum number_format)chosen[3];
    return true;
}
