/* Bytes that a processor sends an update, ResNet-50: the all-reduce of data parallelism
 * against what codistilled models exchange ("up to 1000x less", Sodhani et al., "A Closer
 * Look at Codistillation for Distributed Training", arXiv 2010.02838). */
#include "analysis/published.h"
#include "analysis/summary.h"

#include <string.h>

enum { UPDATES = 2500 }; /* the run has one more: after the last one nobody sends */

/* Bytes of a payload that one processor sends an update. */
static double sent_bytes(const cJSON *method, const char *payload, double updates)
{
    const cJSON *edge;
    uint64_t bytes = 0;
    cJSON_ArrayForEach(edge, cJSON_GetObjectItemCaseSensitive(method, "edges"))
    {
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(edge, "payload");
        if (cJSON_IsString(own) && strcmp(own->valuestring, payload) == 0)
            bytes += summary_u64(edge, "bytes");
    }
    return (double)bytes / (double)summary_u64(method, "processors") / updates;
}

static bool find(const cJSON *methods, const char *name, const char *payload,
                 double updates, double *bytes, struct error *error)
{
    const cJSON *method = published_method(methods, name, error);
    if (method == NULL)
        return false;
    *bytes = sent_bytes(method, payload, updates);
    return *bytes > 0 || error_set(error, STATUS_FAILED, "%s sends no %s", name, payload);
}

static bool measure(const cJSON *methods, struct published_report *report,
                    struct error *error)
{
    double of_16, of_2, of_32, of_256, checkpoints;
    if (!find(methods, "all-reduce of 16", "pieces", UPDATES + 1, &of_16, error) ||
        !find(methods, "all-reduce of 2", "pieces", UPDATES + 1, &of_2, error) ||
        !find(methods, "predictions of 32 samples", "predictions", UPDATES + 1, &of_32,
              error) ||
        !find(methods, "predictions of 256 samples", "predictions", UPDATES, &of_256,
              error) ||
        !find(methods, "checkpoints", "parameters", UPDATES, &checkpoints, error))
        return false;
    const double ring = 1.0 / 16 + 1e-3; /* a ring of n sends (n - 1) / n of the limit */
    published_add(report, "all-reduce of 16 / predictions of 32 samples", "", 1597, ring,
                  of_16 / of_32);
    published_add(report, "all-reduce of 2 / predictions of 32 samples", "", 799, 1e-3,
                  of_2 / of_32);
    published_add(report, "all-reduce of 16 / predictions of 256 samples every 5 updates",
                  "", 998, ring, of_16 / of_256);
    published_add(report, "all-reduce of 16 / checkpoints every 2,500 updates", "", 5000,
                  ring, of_16 / checkpoints);
    return true;
}

const struct published_result published_sodhani2020_traffic = {
    .name = "sodhani2020-traffic",
    .source =
        "Sodhani et al., arXiv 2010.02838: ResNet-50, bytes of an all-reduce / exchanged",
    .experiment = "sodhani2020-traffic.json",
    .choices = "The source says \"up to 1000x\"; the ratios follow from its settings with "
               "b = 25,557,032\n"
               "parameters and 1,000 classes, one word size for all: 2b, the limit of a "
               "long ring, to\n"
               "32,000 logits is 1,597, b to them 799, 2b to 256,000 logits every 5 "
               "updates 998, 2b to b\n"
               "every 2,500 updates 5,000. Here every byte is counted in a run of 2,501 "
               "updates. A ring\n"
               "of 16 sends 15/16 of its limit, so three ratios must be 6.25 % lower; a "
               "ring of 2 sends\n"
               "b. Predictions of 32 samples: two models of 8 replicas each, bytes between "
               "the models\n"
               "only. The all-reduce of 16 is run on 16 samples a processor, which changes "
               "no byte of it.\n",
    .measure = measure,
};
