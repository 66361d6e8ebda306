#!/usr/bin/env bash
# The same experiment, the same bytes in every file: whatever runs beside it, whatever the
# environment, wherever it is called from; and what --cost-only leaves the same.
. "$(dirname "$0")/shell_checks.sh"

expect 0 compare e.json -o first
cp out first.out
[ ! -s err ] || fail "a run writes on standard error: $(cat err)"
for file in events.csv links.csv memory.csv trace.json trace.paje timeline.svg; do
    checks=$((checks + 1))
    [ "$(find first -name "$file" -size +0 | wc -l)" = 6 ] || fail "not six files $file"
done
checks=$((checks + 1))
[ -s first/summary.json ] || fail "no summary.json"

again() { # NAME, then what goes before podsim
    local name=$1
    shift
    checks=$((checks + 1))
    "$@" "$podsim" compare e.json -o "$name" >"$name.out" 2>err.raw || fail "$name: fails"
    same first "$name"
    sed "s/to $name:/to first:/" "$name.out" >"$name.first"
    same first.out "$name.first"
}
again plain env
again one env
expect 0 compare e.json -o serial -j 1
same first serial
expect 0 compare e.json -o wide -j 9 --quiet
same first wide
again german env LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8
again german_c env LC_NUMERIC=de_DE
again threads env OPENBLAS_NUM_THREADS=4 OMP_NUM_THREADS=3
again time env TZ=Pacific/Apia
again columns env COLUMNS=20 TERM=dumb

# From another folder, by a path.
checks=$((checks + 1))
mkdir elsewhere
(cd elsewhere && "$podsim" compare ../e.json -o ../moved >../moved.out 2>/dev/null) ||
    fail "from another folder: fails"
same first moved
rm -rf moved
checks=$((checks + 1))
(cd / && "$podsim" compare "$folder/e.json" -o "$folder/moved" >/dev/null 2>&1) ||
    fail "from /: fails"
same first moved

# Two at once, into folders of their own.
checks=$((checks + 1))
"$podsim" compare e.json -o left >/dev/null 2>&1 &
"$podsim" compare e.json -o right >/dev/null 2>&1
wait $!
same first left
same first right

# Into a folder that has an older result.
expect 0 compare e.json -o left --seed 99
checks=$((checks + 1))
diff -q first/summary.json left/summary.json >/dev/null && fail "another seed, the same result"
expect 0 compare e.json -o left
same first left

# --json prints what summary.json holds; the summary's experiment gives the same again.
expect 0 compare e.json --json
cp out printed.json
same printed.json first/summary.json

python3 - <<'END' || fail "the resolved experiment"
import json
json.dump(json.load(open("first/summary.json"))["experiment"], open("resolved.json", "w"))
END
expect 0 compare resolved.json -o resolved
same first resolved

# What costs is the same with and without numerics: to the bit when every message is
# simulated, time to rounding when repeated steps are not.
expect 0 compare e.json --json --set fidelity=message
cp out numeric.json
expect 0 compare e.json --json --set fidelity=message --cost-only
cp out costs.json
expect 0 compare e.json --json --cost-only
cp out quick.json
checks=$((checks + 1))
python3 - <<'END' || fail "--cost-only differs"
import json
def methods(name):
    return json.load(open(name))["methods"]
exact = ["name", "kind", "processors", "steps", "bytes_total", "bytes_per_step", "messages",
         "fits", "edges", "memory", "processor_time", "links"]
def close(a, c, time_s, place):
    """Counts and names equal, seconds and shares to rounding."""
    if isinstance(a, dict):
        assert a.keys() == c.keys(), (place, a.keys(), c.keys())
        for key in a:
            close(a[key], c[key], time_s, place + (key,))
    elif isinstance(a, list):
        assert len(a) == len(c), place
        for i, (x, y) in enumerate(zip(a, c)):
            close(x, y, time_s, place + (i,))
    elif str(place[-1]).endswith("_s") or "waiting_s" in place or place[-1] == "utilisation":
        assert abs(a - c) <= 1e-9 * max(time_s, a), (place, a, c)
    else:
        assert a == c, (place, a, c)
def together(method):
    """What a collective that is worked out does not tell apart."""
    for p in method["processor_time"]:
        p["communicating_s"] += sum(p.pop("waiting_s").values())
times = ["time_s", "time_per_step_s", "samples_per_s", "busy_fraction"]
for a, b, c in zip(methods("numeric.json"), methods("costs.json"), methods("quick.json")):
    for key in exact + times:
        assert a[key] == b[key], (a["name"], key, a[key], b[key])
    together(a), together(c)
    for key in exact:
        close(a[key], c[key], a["time_s"], (a["name"], key))
    for key in times:
        assert abs(a[key] - c[key]) <= 1e-11 * abs(a[key]), (a["name"], key, a[key], c[key])
    assert a["loss"] is not None and a["accuracy"] is not None and a["curve"]
    assert b["loss"] is None and b["accuracy"] is None and b["curve"] == []
assert len(methods("numeric.json")) == 6
END
finish
