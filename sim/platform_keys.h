/* The keys that a platform file may have, object by object: what the reader checks and
 * what platforms/platform.schema.json must say too. "source" and "assumed" (where a figure
 * comes from) are allowed everywhere. */
#ifndef PODSIM_SIM_PLATFORM_KEYS_H
#define PODSIM_SIM_PLATFORM_KEYS_H

#include "base/json.h"

enum { PLATFORM_MAX_KEYS = 64 };

struct key_set {
    const char *name; /* of the definition in the schema */
    const char *const *keys;
    size_t count;
};

extern const struct key_set platform_root_keys;
extern const struct key_set platform_processor_keys; /* common to all kinds */
extern const struct key_set platform_power_keys;
extern const struct key_set platform_memory_keys; /* a memory beside the main one */
extern const struct key_set platform_exchange_keys;
extern const struct key_set platform_link_keys;
extern const struct key_set platform_joint_keys; /* an element of topology "links" */
extern const struct key_set platform_host_keys;
extern const struct key_set platform_trouble_keys;
extern const struct key_set platform_straggler_keys;
extern const struct key_set platform_degradation_keys;
extern const struct key_set platform_failure_keys;
extern const struct key_set platform_pass_keys; /* of a processor of kind table */

/* An object with the keys of the set, further keys (may be NULL) and no others. */
bool platform_check_keys(const struct json_at *at, const struct key_set *set,
                         const char *const *further, size_t further_count,
                         struct error *error);

/* Every set for the schema's test, those of the kinds of processors and topologies among
 * them ("processor_ipu", "topology_ring"); false when index is past the last. */
bool platform_key_set(size_t index, char name[64], const char *keys[PLATFORM_MAX_KEYS],
                      size_t *count);

/* Numbers of a platform file. */
bool platform_positive(const struct json_at *at, double maximum, double *value,
                       struct error *error);
bool platform_member_positive(const struct json_at *object, const char *key, double maximum,
                              double *value, struct error *error);
/* Letters, digits and -_./: a name that can be part of a link's name. */
bool platform_name_read(const struct json_at *at, const char **name, struct error *error);

#endif
