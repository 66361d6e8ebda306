#include "sim/precision.h"

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

bool precision_read(const struct json_at *at, struct precision *precision,
                    struct error *error)
{
    static const char *const roles[] = {"weights", "activations", "gradients", "optimizer"};
    enum { ROLES = sizeof(roles) / sizeof(roles[0]) };
    size_t chosen[ROLES] = {FORMAT_FP32, FORMAT_FP32, FORMAT_FP32, FORMAT_FP32};

    if (json_is_string(at)) {
        if (!json_choice(at, number_format_names, FORMAT_COUNT, &chosen[0], error))
            return false;
        chosen[1] = chosen[2] = chosen[3] = chosen[0];
    } else if (json_is_object(at)) {
        if (!json_keys(at, roles, ROLES, error))
            return false;
        for (size_t i = 0; i < ROLES; i++)
            if (!json_read_choice(at, roles[i], number_format_names, FORMAT_COUNT,
                                  &chosen[i], error))
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
