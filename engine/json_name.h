/* Objects for which a bare name may stand: "adam" is {"kind": "adam"}. */
#ifndef PODSIM_ENGINE_JSON_NAME_H
#define PODSIM_ENGINE_JSON_NAME_H

#include "base/json.h"

/* Where a string stands, puts in its place an object whose member `key` it is, so that the
 * defaults read next have somewhere to be written. Anything else is left alone. */
bool json_name_expand(const struct json_at *at, const char *key, struct error *error);

#endif
