# For the command_*.sh suites: source it with the podsim binary as $1. Works in a folder of
# its own, which it removes.
podsim=$(realpath "$1")
folder=$(mktemp -d "${TMPDIR:-/tmp}/podsim-command-XXXXXX")
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
checks=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# A line of the sanitiser about SimGrid's stacks is no message of podsim's.
messages() {
    grep -v -e '^==[0-9]*==WARNING: ASan is ignoring' -e '^False positive error reports' \
        -e '^For details see https://github.com/google/sanitizers' "$1"
}

# expect STATUS ARGUMENT...: runs podsim, keeps out and err, checks the exit status.
expect() {
    local wanted=$1 status
    shift
    checks=$((checks + 1))
    "$podsim" "$@" >out 2>err.raw </dev/null
    status=$?
    messages err.raw >err
    [ "$status" = "$wanted" ] || fail "podsim $*: status $status, not $wanted: $(head -c 300 err)"
}

# refuse STATUS TEXT ARGUMENT...: one message on standard error that has the text, nothing
# on standard output, nothing left in the folder "result".
refuse() {
    local wanted=$1 text=$2
    shift 2
    expect "$wanted" "$@"
    [ ! -s out ] || fail "podsim $*: writes on standard output: $(head -c 100 out)"
    [ "$(grep -c . err)" = 1 ] || fail "podsim $*: not one message: $(cat err)"
    grep -qF -- "$text" err || fail "podsim $*: \"$text\" is not in: $(cat err)"
    [ ! -e result ] || { fail "podsim $*: leaves a folder"; rm -rf result; }
}

same() {
    checks=$((checks + 1))
    diff -r "$1" "$2" >difference 2>&1 || fail "$1 and $2 differ: $(head -c 500 difference)"
}

finish() {
    echo "$checks checks, $failures failures"
    [ "$failures" = 0 ]
}

# A small machine and a small experiment.
cat >machine.json <<'END'
{"name": "small", "processors": {"name": "p", "count": 6, "kind": "ipu",
 "peak_flops_per_s": 1e9, "memory_bytes": 1000000, "memory_bandwidth_bytes_per_s": 1e9,
 "overhead_s": 1e-6, "sync_s": 1e-6},
 "topology": {"kind": "ring", "link": {"bandwidth_bytes_per_s": 1e7, "latency_s": 1e-6}}}
END
cat >e.json <<'END'
{"name": "small experiment",
 "model": {"preset": "mlp", "depth": 3, "hidden": 16},
 "data": {"kind": "synthetic", "features": 16, "classes": 4, "train_samples": 200,
          "test_samples": 50},
 "platform": "machine.json", "batch": 8, "micro_batch": 2, "steps": 12, "seed": 3,
 "methods": ["backprop", {"kind": "pipeline", "stages": 4},
   {"name": "recompute", "kind": "pipeline", "schedule": "gpipe", "recompute": "stage"},
   "local", {"kind": "codistillation", "models": 3, "inner": {"kind": "pipeline", "stages": 2}},
   {"kind": "data_parallel", "replicas": 4}]}
END
