/* Many tiles with memory of their own, bulk-synchronous: compute, then exchange. A pass
 * takes overhead + max(arithmetic, tile memory) + what passes between the tiles. */
#include "base/checked.h"
#include "sim/platform_keys.h"
#include "sim/processors/kinds.h"
#include "sim/rate.h"

#include <stdlib.h>

struct ipu {
    struct rate rate;
    double memory_bandwidth_bytes_per_s;
    uint64_t tiles;
    uint64_t grain_flops_per_tile;         /* 0: any work spreads over all tiles */
    double exchange_bandwidth_bytes_per_s; /* 0: exchange is not charged */
    double exchange_fraction;
    double exchange_sync_s;
};

static const char *const keys[] = {"peak_flops_per_s",
                                   "efficiency",
                                   "overhead_s",
                                   "tiles",
                                   "memory_bytes_per_tile",
                                   "memory_bandwidth_bytes_per_s",
                                   "exchange",
                                   "streaming",
                                   "grain_flops_per_tile"};

static bool read_exchange(const struct json_at *at, struct ipu *ipu, struct error *error)
{
    struct json_at member;
    if (!json_optional(at, "exchange", &member))
        return true;
    ipu->exchange_fraction = 1;
    return platform_check_keys(&member, &platform_exchange_keys, NULL, 0, error) &&
           platform_member_positive(&member, "bandwidth_bytes_per_s", 1e21,
                                    &ipu->exchange_bandwidth_bytes_per_s, error) &&
           json_read_number(&member, "fraction", 0, 1, &ipu->exchange_fraction, error) &&
           json_read_number(&member, "sync_s", 0, 1e6, &ipu->exchange_sync_s, error);
}

static bool read_tiles(const struct json_at *at, struct ipu *ipu,
                       struct processor *processor, struct error *error)
{
    struct json_at member, per_tile;
    ipu->tiles = 1;
    bool tiled = json_optional(at, "tiles", &member);
    if (tiled && !json_u64(&member, 1, 1000000000, &ipu->tiles, error))
        return false;
    if (json_optional(at, "memory_bytes_per_tile", &per_tile)) {
        uint64_t bytes = 0, total = 0;
        if (!tiled)
            return json_fail(&per_tile, error, "needs \"tiles\" beside it");
        if (!json_u64(&per_tile, 1, UINT64_MAX, &bytes, error))
            return false;
        if (!checked_multiply(bytes, ipu->tiles, &total) || total > UINT64_C(1) << 53)
            return json_fail(&per_tile, error, "is too much for %llu tiles",
                             (unsigned long long)ipu->tiles);
        if (processor->memory_bytes == 0)
            processor->memory_bytes = total;
        if (processor->memory_bytes > total)
            return json_fail(at, error,
                             "memory_bytes %llu is above tiles x "
                             "memory_bytes_per_tile = %llu",
                             (unsigned long long)processor->memory_bytes,
                             (unsigned long long)total);
    }
    if (!json_optional(at, "grain_flops_per_tile", &member))
        return true;
    if (!tiled)
        return json_fail(&member, error, "needs \"tiles\" beside it");
    return json_u64(&member, 1, UINT64_MAX, &ipu->grain_flops_per_tile, error);
}

static bool read_streaming(const struct json_at *at, struct processor *processor,
                           struct error *error)
{
    struct json_at member, bytes;
    if (!json_optional(at, "streaming", &member))
        return true;
    return platform_check_keys(&member, &platform_memory_keys, NULL, 0, error) &&
           json_member(&member, "bytes", &bytes, error) &&
           json_u64(&bytes, 1, UINT64_MAX, &processor->streaming_bytes, error) &&
           platform_member_positive(&member, "bandwidth_bytes_per_s", 1e21,
                                    &processor->streaming_bandwidth_bytes_per_s, error);
}

static bool ipu_read(const struct json_at *at, struct processor *processor,
                     struct error *error)
{
    struct ipu *ipu = checked_calloc(1, sizeof(*ipu));
    if (ipu == NULL)
        return error_memory(error, "processor");
    processor->parameters = ipu;
    return rate_read(at, &ipu->rate, error) &&
           platform_member_positive(at, "memory_bandwidth_bytes_per_s", 1e21,
                                    &ipu->memory_bandwidth_bytes_per_s, error) &&
           read_tiles(at, ipu, processor, error) && read_exchange(at, ipu, error) &&
           read_streaming(at, processor, error);
}

static void ipu_release(void *parameters)
{
    struct ipu *ipu = parameters;
    rate_release(&ipu->rate);
    free(ipu);
}

/* A work of F FLOPs occupies at most ceil(F / grain) tiles. */
static double tile_share(const struct ipu *ipu, uint64_t flops)
{
    if (ipu->grain_flops_per_tile == 0 || flops == 0)
        return 1;
    uint64_t used = (flops - 1) / ipu->grain_flops_per_tile + 1;
    return used >= ipu->tiles ? 1 : (double)used / (double)ipu->tiles;
}

static bool ipu_seconds(const struct processor *processor, const struct work *work,
                        double *seconds, struct error *error)
{
    const struct ipu *ipu = processor->parameters;
    double compute_s = 0;
    if (!rate_seconds(&ipu->rate, work, tile_share(ipu, work->flops), &compute_s, error))
        return false;
    double memory_s = (double)work->bytes / ipu->memory_bandwidth_bytes_per_s;
    double exchange_s = 0;
    if (ipu->exchange_bandwidth_bytes_per_s > 0 && (work->bytes > 0 || work->flops > 0))
        exchange_s = ipu->exchange_sync_s + (double)work->bytes * ipu->exchange_fraction /
                                                ipu->exchange_bandwidth_bytes_per_s;
    *seconds =
        ipu->rate.overhead_s + (compute_s > memory_s ? compute_s : memory_s) + exchange_s;
    return true;
}

static double ipu_peak(const struct processor *processor, enum number_format format)
{
    const struct ipu *ipu = processor->parameters;
    return ipu->rate.peak_flops_per_s[format];
}

const struct processor_kind processor_ipu = {
    .name = "ipu",
    .summary = "tiles with memory of their own; compute, sync and exchange in turn",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .overlap = false,
    .read = ipu_read,
    .release = ipu_release,
    .seconds = ipu_seconds,
    .peak_flops_per_s = ipu_peak,
};
