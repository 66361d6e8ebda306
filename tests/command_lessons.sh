#!/usr/bin/env bash
# One test for each way in which tools of this kind lose their users, by its name.
. tests/shell_checks.sh
lesson() { echo "lesson $1"; }

# experiment BATCH MICRO_BATCH METHODS [MORE]: an mlp by shape on machine.json
experiment() {
    cat >e.json <<END
{"model": {"preset": "mlp", "input": [64], "depth": 7, "hidden": 64, "classes": 10},
 "numerics": false, "platform": "machine.json", "batch": $1, "micro_batch": $2, "steps": 2,
 "methods": [$3]${4:-}}
END
}
# value KEY: of the first method in the JSON on standard output
value() { grep -m1 -oP "\"$1\":\s*\K[-0-9.e+]+" out; }
check() { checks=$((checks + 1)); [ "$1" = "$2" ] || fail "$3: $1 is not $2"; }
close() {
    checks=$((checks + 1))
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-9 * b && d > -1e-9 * b) }' ||
        fail "$3: $1 is not $2"
}

lesson "1: sizes above 2 GB are whole, tiny ones are not zero"
sed 's/"memory_bytes": 1000000/"memory_bytes": 1e15/' machine.json >large.json
experiment 1048576 1048576 '{"kind": "local", "stages": [4, 4]}'
expect 0 compare e.json --json --set platform=large.json --set model.hidden=65536 --set steps=3
check "$(value bytes_total)" $((3 * 4 * 65536 * 1048576)) "bytes of a large message"
experiment 8 1 '{"kind": "data_parallel", "replicas": 6}'
cat >tiny.json <<'END'
{"model": {"input": [1], "blocks": [{"name": "b", "layers": [{"kind": "linear", "out": 1}]}]},
 "numerics": false, "platform": "machine.json", "batch": 6, "micro_batch": 1, "steps": 1,
 "methods": [{"kind": "data_parallel", "replicas": 6}]}
END
expect 0 compare tiny.json --json --set fidelity=message
check "$(value bytes_total)" $((2 * 5 * 2 * 4)) "an all-reduce of two scalars over six ranks"

cat >wide.json <<'END'
{"model": {"input": [65536], "blocks": [{"name": "b", "layers": [{"kind": "linear", "out": 65536,
 "bias": 0}]}]}, "numerics": false, "platform": "large.json", "batch": 6, "micro_batch": 1,
 "steps": 1, "methods": [{"kind": "data_parallel", "replicas": 6}]}
END
for fidelity in message auto; do # 16 GiB of gradients in six pieces that are not equal
    expect 0 compare wide.json --json --set fidelity=$fidelity
    check "$(value bytes_total)" $((2 * 5 * 4 * 65536 * 65536)) "a large all-reduce, $fidelity"
done

lesson "2: units are in the keys, and others are refused"
sed 's/bandwidth_bytes_per_s": 1e7/bandwidth_gbit_per_s": 0.08/' machine.json >units.json
refuse 2 'bandwidth_bytes_per_s' platform units.json
experiment 8 8 '{"kind": "local", "stages": [4, 4]}'
expect 0 run e.json --json -o result
one=$((8 * 64 * 4))
# 2,048 bytes at 1e7 bytes/s and 2 us: neither bits, nor binary prefixes, nor elements.
taken=$(awk -F, '/^transfer,/ {printf "%.9e", $12 - $11; exit}' result/events.csv)
head -1 result/events.csv | cut -d, -f11,12 | grep -qx 'start_s,end_s' || fail "columns"
close "$taken" "$(awk -v b=$one 'BEGIN { printf "%.12e", b / 1e7 + 2e-6 }')" "seconds of a message"
head -1 result/links.csv | grep -q 'bandwidth_bytes_per_s,bytes' || fail "units in links.csv"
rm -rf result

lesson "3: a misspelt setting is refused, with the nearest that is known"
refuse 2 'micro_batch' compare e.json --set micro_bacth=4
refuse 2 'schedule' compare e.json --set 'methods=[{"kind": "pipeline", "shedule": "gpipe"}]'

lesson "4: a setting without effect says so"
refuse 2 'no effect' model mlp --cost-only
refuse 2 'virtual' compare e.json \
    --set 'methods=[{"kind": "pipeline", "schedule": "gpipe", "virtual": 2}]'
experiment 8 4 '{"kind": "local", "stages": 2}'
expect 0 compare e.json --json
before=$(value time_s)
experiment 8 4 '{"kind": "local", "stages": 4}'
expect 0 compare e.json --json
checks=$((checks + 1))
[ "$before" != "$(value time_s)" ] || fail "2 and 4 stages take the same time"

# The same bytes over a ring and over a switch: the far pairs of a ring share its links.
for kind in ring switch; do
    experiment 4 1 '{"kind": "data_parallel", "replicas": 4, "all_reduce": "halving_doubling"}'
    sed "s/\"kind\": \"ring\"/\"kind\": \"$kind\"/; s/\"count\": 6/\"count\": 4/" machine.json >$kind.json
    grep -q "\"kind\": \"$kind\"" $kind.json || fail "no $kind in machine.json"
    expect 0 compare e.json --json --set platform=$kind.json
    value time_s >time-$kind
    value bytes_total >bytes-$kind
done
same bytes-ring bytes-switch
checks=$((checks + 1))
! cmp -s time-ring time-switch || fail "a ring and a switch take the same time"

lesson "5: two runs of one input are the same"
expect 0 compare e.json --json -o first
expect 0 compare e.json --json -o second -j 1
same first second
rm -rf first second

lesson "6: nothing is written where nobody asked for it"
touch before
expect 0 compare e.json
checks=$((checks + 1))
[ -z "$(find . -newer before -type f ! -name out ! -name 'err*')" ] || fail "files appeared"

lesson "7: who waits for whom is said"
experiment 20 4 '{"kind": "pipeline", "schedule": "interleaved", "stages": 2, "queue_capacity": 1}'
refuse 2 'the programs cannot finish: processor 0' run e.json
grep -q 'send .*waits, and processor 1: instruction .* waits' err || fail "who waits: $(cat err)"
expect 3 run e.json --set 'methods=[{"kind": "pipeline", "stages": 3}]' \
    --set "platform=$(tr -d '\n' <machine.json | sed 's/}}$/}, "trouble": {"failures": [{"processor": "p1", "at_s": 0}]}}/')"
grep -q 'processor p1 .*failed' out || fail "no word of who failed: $(cat out)"

lesson "8: progress on a terminal, none elsewhere"
experiment 8 4 '{"kind": "local", "stages": 4}'
expect 0 compare e.json --set steps=3
checks=$((checks + 1))
[ ! -s err ] || fail "progress without a terminal: $(cat err)"
if command -v script >/dev/null; then
    checks=$((checks + 1))
    script -qec "'$podsim' compare e.json --set steps=3" /dev/null </dev/null >terminal 2>&1
    grep -q 'simulated' terminal || fail "no progress bar on a terminal"
fi

# What is known so far is there when a long run is broken off.
experiment 64 2 '{"kind": "pipeline", "stages": 4}' ', "fidelity": "message", "trace_steps": 0'
"$podsim" run e.json --set steps=10000000 -o result >out 2>err &
for _ in $(seq 100); do
    sleep 0.1
    [ "$(head -c 100000 result/events.csv 2>/dev/null | wc -c)" = 100000 ] && break
done
kill $! && wait $! 2>/dev/null
checks=$((checks + 1))
grep -q '^transfer,activations,' result/events.csv || fail "nothing of a run broken off"
rm -rf result

lesson "9: any count works, and irregular machines"
sed 's/"count": 6/"count": 7/' machine.json >seven.json
for n in 1 2 3 5 7; do
    experiment $((n * 4)) 4 "{\"kind\": \"data_parallel\", \"replicas\": $n}, {\"kind\": \"pipeline\", \"stages\": $n}, {\"kind\": \"codistillation\", \"models\": $n}"
    expect 0 compare e.json --json --set platform=seven.json
done
experiment 8 8 '{"kind": "pipeline", "stages": 8}'
expect 0 compare e.json --set platform=dgx-1 --json
# Groups of ranks: three replicas of a pipeline of two, whose sums are over three ranks.
experiment 12 2 '{"kind": "data_parallel", "replicas": 3, "inner": {"kind": "pipeline", "stages": 2}}'
expect 0 compare e.json --json --set fidelity=message
cat >mixed.json <<'END'
{"name": "mixed", "processors": [
  {"name": "a", "count": 2, "kind": "ipu", "peak_flops_per_s": 1e9, "memory_bytes": 1000000,
   "memory_bandwidth_bytes_per_s": 1e9},
  {"name": "b", "count": 1, "kind": "roofline", "peak_flops_per_s": 4e9,
   "memory_bytes": 2000000, "memory_bandwidth_bytes_per_s": 1e9}],
 "topology": {"kind": "links", "links": [
  {"from": "a0", "to": "a1", "bandwidth_bytes_per_s": 1e7, "latency_s": 0},
  {"from": "a1", "to": "b0", "bandwidth_bytes_per_s": 3e6, "latency_s": 1e-3}]}}
END
experiment 8 4 '{"kind": "pipeline", "stages": 3}, {"kind": "data_parallel", "replicas": 2}'
expect 0 compare e.json --set platform=mixed.json --json

lesson "10: pipelines have warm-up, 1F1B and uneven stages"
for schedule in gpipe 1f1b interleaved zero_bubble grouped pipedream; do
    experiment 16 4 "{\"kind\": \"pipeline\", \"stages\": 3, \"schedule\": \"$schedule\"}"
    expect 0 compare e.json --json
done
# In a step of equal stages: four micro-batches and two to warm up, forward and backward.
cat >table.json <<'END'
{"name": "table", "processors": {"name": "p", "count": 6, "kind": "table", "overlap": true,
 "memory_bytes": 1e12, "kinds": {"linear": {"forward": 1, "backward": 2}, "relu": {"forward": 1e-30,
 "backward": 1e-30}, "loss": {"loss": 1e-30}, "update": {"update": 1e-30}}},
 "topology": {"kind": "ring", "link": {"bandwidth_bytes_per_s": "infinite", "latency_s": 0}}}
END
for schedule in gpipe 1f1b; do
    experiment 16 4 "{\"kind\": \"pipeline\", \"schedule\": \"$schedule\", \"stages\": [2, 2, 2]}"
    expect 0 compare e.json --json --set platform=table.json --set model.depth=5
    close "$(value time_per_step_s)" 36 "a step of three equal stages, $schedule"
    # The last stage is never idle between its first forward and its last backward, 4 x 12;
    # before it two forwards of 1 s, after it two backwards of 2 s.
    experiment 16 4 "{\"kind\": \"pipeline\", \"schedule\": \"$schedule\", \"stages\": [1, 1, 4]}"
    expect 0 compare e.json --json --set platform=table.json --set model.depth=5
    close "$(value time_per_step_s)" 54 "a step of uneven stages, $schedule"
    # The first stage is the slow one, 4 s forward and 8 s back; the others take 1 and 2.
    # GPipe: four forwards of it, 1 + 1 and 2 + 2 until a gradient is back, four backwards.
    # 1F1B: never idle, for the first gradient is back at 10 s, before its third forward ends.
    slow=$([ $schedule = gpipe ] && echo 54 || echo 48)
    experiment 16 4 "{\"kind\": \"pipeline\", \"schedule\": \"$schedule\", \"stages\": [4, 1, 1]}"
    expect 0 compare e.json --json --set platform=table.json --set model.depth=5
    close "$(value time_per_step_s)" $slow "a step whose first stage is slow, $schedule"
    value peak_bytes >peak-$schedule
done
checks=$((checks + 1))
[ "$(cat peak-1f1b)" -lt "$(cat peak-gpipe)" ] || fail "1F1B keeps as much as GPipe"

lesson "11: capacity is enforced, the peak of every stage told"
expect 3 run e.json --set 'methods=[{"kind": "local", "stages": [1, 7]}]' --set batch=2048 \
    --set micro_batch=2048
grep -q 'lacks' out || fail "no word of what is lacking: $(cat out)"
experiment 8 8 '{"kind": "pipeline", "stages": [1, 2, 5]}'
expect 0 compare e.json --json
check "$(grep -c '"peak_bytes"' out)" 3 "peaks of the stages"

lesson "12: bytes of every link"
experiment 8 8 '{"kind": "local", "stages": [4, 4]}'
expect 0 run e.json -o result
checks=$((checks + 1))
grep -q "^p0->p1,.*,$((2 * one)),2," result/links.csv || fail "links.csv: $(grep p0 result/links.csv)"
rm -rf result

lesson "16: exit statuses mean something, legal zeros are legal"
for algorithm in ring recursive_doubling halving_doubling halving_doubling_folded tree \
    hierarchical multi_ring; do
    experiment 6 1 "{\"kind\": \"data_parallel\", \"replicas\": 6, \"all_reduce\": \"$algorithm\"}"
    expect 0 compare e.json --json --set fidelity=message
done
sed 's/"latency_s": 1e-6/"latency_s": 0/; s/"overhead_s": 1e-6/"overhead_s": 0/; s/"sync_s": 1e-6/"sync_s": 0/' \
    machine.json >zeros.json
expect 0 compare e.json --json --set platform=zeros.json
expect 2 compare e.json --no-such-flag
finish
