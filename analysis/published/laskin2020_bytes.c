/* Bytes moved by local parallelism and by pipelined backprop on 4 IPUs: 43.2 and 86.4 MB
 * (Laskin, Metz et al., "Parallel Training of Deep Networks with Local Updates", arXiv
 * 2012.03837). Half, because gradients do not travel back. */
#include "analysis/published.h"
#include "analysis/summary.h"

static bool measure(const cJSON *methods, struct published_report *report,
                    struct error *error)
{
    const cJSON *local = published_method(methods, "local", error);
    const cJSON *pipeline = published_method(methods, "pipeline", error);
    if (local == NULL || pipeline == NULL)
        return false;
    double local_bytes = (double)summary_u64(local, "bytes_per_step");
    double pipeline_bytes = (double)summary_u64(pipeline, "bytes_per_step");
    const double mb = 1e6, mib = 1024.0 * 1024.0;
    published_add(report, "backprop / local, bytes of a step", "", 2, 0,
                  pipeline_bytes / local_bytes);
    published_add(report, "local parallelism, bytes of a step", "MB", 43.2, 0.05,
                  local_bytes / mb);
    published_add(report, "pipelined backprop, bytes of a step", "MB", 86.4, 0.05,
                  pipeline_bytes / mb);
    published_add(report, "local parallelism, MB read as MiB", "MiB", 43.2, 0.01,
                  local_bytes / mib);
    published_add(report, "pipelined backprop, MB read as MiB", "MiB", 86.4, 0.01,
                  pipeline_bytes / mib);
    return true;
}

const struct published_result published_laskin2020_bytes = {
    .name = "laskin2020-bytes",
    .source = "Laskin, Metz et al., arXiv 2012.03837: ResNet-34, 4 IPUs, bytes moved",
    .experiment = "laskin2020-bytes.json",
    .choices =
        "The source does not say the batch, the word size or the cuts. Chosen: 64 samples of\n"
        "224x224 in fp16, ResNet-34 cut where its channel count changes ([3, 4, 6, 3] blocks),\n"
        "one micro-batch. That passes 351,232 values a sample over three boundaries,\n"
        "44,957,696 bytes forward and as many back. (32 samples in fp32 give the same bytes.)\n"
        "Nothing was tuned to meet the figures; only the ratio is independent of the choice.\n",
    .measure = measure,
};
