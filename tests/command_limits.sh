#!/usr/bin/env bash
# What this computer cannot give: a message and status 4, never a hang; what could be done
# is told all the same.
. "$(dirname "$0")/shell_checks.sh"

cat >e.json <<'END'
{"model": {"preset": "mlp", "hidden": 32, "depth": 3}, "data": {"kind": "synthetic"},
 "platform": "ipu-m2000", "batch": 8, "micro_batch": 4, "steps": 3,
 "methods": ["backprop", "pipeline", "local"]}
END

# limited STATUS "ulimit arguments" ARGUMENT...: within a limit, and within a minute.
limited() {
    local wanted=$1 limit=$2 status
    shift 2
    checks=$((checks + 1))
    (
        ulimit $limit || exit 99
        timeout 60 "$podsim" "$@" >out 2>err </dev/null
    )
    status=$?
    [ "$status" = "$wanted" ] || fail "ulimit $limit: podsim $*: status $status, not $wanted"
}

# More methods than files may be open at once.
python3 - <<'END'
import json
e = json.load(open("e.json"))
e["methods"] = [{"name": "m%d" % i, "kind": "backprop"} for i in range(40)]
json.dump(e, open("many.json", "w"))
END
limited 0 "-n 24" compare many.json --cost-only -q -j2
[ "$(grep -c '^m[0-9]* ' out)" = 40 ] || fail "not a row for each of 40 methods"

# A file that may grow no further is named; the table comes.
limited 4 "-f 8" compare e.json -q -o result
grep -q 'trace.json: .*File too large' out || fail "does not say which file is too large"
grep -q '^backprop ' out || fail "no table beside what failed"

# Memory: the sanitizers need more of it than any limit leaves.
if ! grep -q __asan_init "$podsim"; then
    limited 4 "-v 400000" compare e.json -q -j1
    grep -q 'no memory left' out || fail "does not say that memory is short"
fi

# A child that is killed takes no other's result with it.
checks=$((checks + 1))
python3 - "$podsim" <<'END' || fail "a killed child takes other results with it"
import os, signal, subprocess, sys, time
podsim = subprocess.Popen([sys.argv[1], "compare", "e.json", "-q", "-j1", "--set", "steps=3000"],
                          stdout=subprocess.PIPE, text=True)
children = "/proc/%d/task/%d/children" % (podsim.pid, podsim.pid)
if not os.path.exists(children):
    podsim.kill()
    sys.exit(0)
while not (child := open(children).read().split()):
    time.sleep(0.01)
os.kill(int(child[0]), signal.SIGKILL)
out = podsim.communicate(timeout=120)[0]
assert podsim.returncode == 4, podsim.returncode
rows = {line.split()[0]: line for line in out.splitlines() if line}
assert "stopped" in rows["backprop"] and "signal 9" in out
assert " yes " in rows["pipeline"] and " yes " in rows["local"]
END

# An older summary does not stay beside new traces.
expect 0 compare e.json -q -o old
limited 4 "-f 8" compare e.json -q -o old
checks=$((checks + 1))
python3 -c 'import json; assert json.load(open("old/summary.json"))["methods"][0]["failed"]' 2>/dev/null ||
    [ ! -e old/summary.json ] || fail "an old summary is left"
finish
