#!/usr/bin/env bash
# Bad input of every kind: exit status 2 (4 for this computer's faults), one message that
# names file and place, nothing on standard output, no folder left behind.
. "$(dirname "$0")/shell_checks.sh"

# The file itself.
refuse 2 "nofile.json" compare nofile.json -o result
refuse 2 "directory" compare . -o result
: >empty.json
refuse 2 "empty.json: the file is empty" compare empty.json -o result
head -c 100 e.json >short.json
refuse 2 "short.json:3:" compare short.json -o result
head -c 400 "$podsim" >binary.json
refuse 2 "binary.json" compare binary.json -o result
python3 -c 'print("{\"model\": " + "[" * 3000 + "]" * 3000 + "}")' >deep.json
refuse 2 "deep.json:1:" compare deep.json -o result
refuse 2 "deeper" run deep.json
sed 's/"steps": 12/"steps": 12, "steps": 13/' e.json >twice.json
refuse 2 "steps" compare twice.json -o result
sed 's/"seed": 3/"seed": 1e999/' e.json >large.json
refuse 2 "large.json" compare large.json -o result
{ cat e.json; echo '{}'; } >more.json
refuse 2 "more.json" compare more.json -o result
cp e.json locked.json
chmod 000 locked.json
[ -r locked.json ] || refuse 2 "locked.json" compare locked.json -o result

# Keys, types, numbers.
set_refused() { refuse 2 "$1" compare e.json -o result --set "$2"; }
set_refused '"steps"' stepz=3
set_refused 'e.json: steps: ' steps=0
set_refused 'e.json: steps: ' steps=1.5
set_refused 'e.json: steps: ' 'steps="12"'
set_refused 'e.json: steps: ' steps=-4
set_refused 'e.json: seed: ' seed=1e300
set_refused 'e.json: micro_batch: ' micro_batch=3
set_refused 'e.json: methods[0]' 'methods.0=backprob'
set_refused 'methods[1]' methods.pipeline.stages=5
set_refused 'methods[1]' 'methods.pipeline.stages=[1,2]'
set_refused 'methods[1]' 'methods.pipeline.placement=[0,1,2,6]'
set_refused 'methods[1].placement[1]' 'methods.pipeline.placement=[0,0,1,2]'
set_refused 'methods[2]' 'methods.recompute.name=pipeline'
set_refused 'methods[5]' methods.data_parallel.replicas=3
set_refused 'no element' methods.9.kind=local
set_refused 'nothing below' steps.x=3
set_refused 'empty' =3
set_refused 'platform' platform=nonesuch
set_refused 'model' model.depht=3
set_refused 'fits' 'data={"kind": "idx", "train_images": "none", "train_labels": "none", "test_images": "none", "test_labels": "none", "fits": 1}'

# The machine's own file.
machine_refused() {
    sed "$2" machine.json >other.json
    refuse 2 "$1" compare e.json -o result --set platform=other.json
    refuse 2 "$1" platform other.json
}
machine_refused 'other.json: topology.link.bandwidth_bytes_per_s: ' 's/1e7/-1e7/'
machine_refused 'other.json: processors: ' 's/memory_bytes/memory_bites/'
machine_refused 'other.json: processors.kind: ' 's/"ipu"/"cpu"/'
machine_refused 'other.json: topology.kind: ' 's/"ring"/"rink"/'
machine_refused 'other.json:' 's/"topology"/"topology/'
machine_refused 'from p0 to p2' 's/"kind": "ring", "link": {/"kind": "links", "links": [{"from": 0, "to": 1, /; s/}}}$/}]}}/'
cat >names.json <<'END'
{"name": "n", "processors": [
 {"name": "a", "kind": "ipu", "peak_flops_per_s": 1, "memory_bytes": 1, "memory_bandwidth_bytes_per_s": 1},
 {"name": "a", "kind": "ipu", "peak_flops_per_s": 1, "memory_bytes": 1, "memory_bandwidth_bytes_per_s": 1}],
 "topology": {"kind": "line", "link": {"bandwidth_bytes_per_s": 1, "latency_s": 0}}}
END
refuse 2 'named "a"' platform names.json
refuse 2 'named "a"' compare e.json -o result --set platform=names.json

# Data that are not what they should be.
idx='{"kind": "idx", "train_images": "images", "train_labels": "labels", "test_images": "images", "test_labels": "labels", "classes": 4}'
refuse 2 "images" compare e.json -o result --set "data=$idx"
printf '\0\0\10\3\0\0\0\2\0\0\0\4\0\0\0\4' >images # no pixels
printf '\0\0\10\1\0\0\0\2\1\2' >labels
refuse 2 "images" compare e.json -o result --set "data=$idx"
head -c 10 /dev/zero >images
refuse 2 "images" compare e.json -o result --set "data=$idx"

# Options.
usage_refused() { # two lines: the second says how to get help
    local text=$1
    shift
    expect 2 "$@"
    [ ! -s out ] || fail "podsim $*: writes on standard output"
    grep -qF -- "$text" err || fail "podsim $*: \"$text\" is not in: $(cat err)"
    [ ! -e result ] || fail "podsim $*: leaves a folder"
}
usage_refused "--bogus" compare e.json -o result --bogus
usage_refused "KEY=VALUE" compare e.json -o result --set steps
usage_refused "--seed" compare e.json -o result --seed=-1
usage_refused "--seed" compare e.json -o result --seed=1x
usage_refused "--jobs" compare e.json -o result -j 0
usage_refused "--output" compare e.json -o ""
usage_refused "requires an argument" compare e.json -o
usage_refused "Usage"
refuse 2 "comparr" comparr e.json
refuse 2 "--xml" compare e.json -o result --xml
refuse 2 "--svg" run e.json -o result --svg x.svg
refuse 2 "--seed" platform machine.json --seed 3
refuse 2 "--output" model mlp -o result
refuse 2 "--cost-only" validate --cost-only
refuse 2 "podsim run" run
refuse 2 "podsim compare" compare e.json machine.json
refuse 2 "podsim compare" run e.json -o result
refuse 2 "resnet34" model resnet35
refuse 2 "nonesuch" validate nonesuch
refuse 2 "ipu-m2000" platform ipu-m2001

# Names that would be those of files, or look like others.
refuse 2 "no name for a method" compare e.json -o result --set 'methods=[{"kind":"local","name":"Summary.json"}]'
refuse 2 "no name for a method" compare e.json -o result --set 'methods=[{"kind":"local","name":" "}]'
refuse 2 "no name for a method" compare e.json -o result --set 'methods=[{"kind":"local","name":"local "}]'

# Numbers that would become others; who set a value.
refuse 2 "9007199254740993" compare e.json -o result --set seed=9007199254740993
refuse 2 "set by an option" compare e.json -o result --set seed=x
sed 's/"peak_flops_per_s": 1e9/"peak_flops_per_s": {"fp32": 1e9}/' machine.json >single.json
refuse 2 "no peak_flops_per_s for fp16, which update needs" compare e.json --set platform=single.json --set 'precision={"weights":"fp16"}'
grep -q 'e.json: method' err || fail "an error of a run does not name the file: $(cat err)"

# A machine so slow that time ends is none that can: status 3, and the others are told.
sed 's/"peak_flops_per_s": *[0-9.e+]*/"peak_flops_per_s": 1e-300/' machine.json >slow.json
expect 3 compare e.json --set platform=slow.json --cost-only
grep -q '292 years' out || fail "does not say that time is too long: $(cat out)"

# This computer's faults.
refuse 4 "missing/result" compare e.json -o missing/result
refuse 4 "e.json/result" compare e.json -o e.json/result
refuse 4 "machine.json" compare e.json -o machine.json
mkdir locked
chmod 500 locked
[ -w locked ] || refuse 4 "locked/result" compare e.json -o locked/result
if [ -w /dev/full ]; then
    for arguments in "compare e.json" "compare e.json --json" "model resnet34" "platform ipu-m2000"; do
        checks=$((checks + 1))
        # shellcheck disable=SC2086
        "$podsim" $arguments >/dev/full 2>err.raw
        [ $? = 4 ] || fail "podsim $arguments on a full disk: not status 4"
        messages err.raw | grep -q "standard output" || fail "podsim $arguments on a full disk: no message"
    done
fi
finish
