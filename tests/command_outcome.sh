#!/usr/bin/env bash
# What the commands print and how they end.
docs=$(realpath "$(dirname "$0")/../docs")
. "$(dirname "$0")/shell_checks.sh"

# Every command that describes.
expect 0 --help
grep -q compare out || fail "--help does not name the commands"
expect 0 --version
grep -q '^podsim [0-9]' out || fail "--version: $(cat out)"
expect 0 model resnet34
grep -q 21797672 out || fail "resnet34 has not 21,797,672 parameters"
expect 0 platform ipu-m2000
expect 0 platform machine.json
expect 0 platform machine.json --xml
checks=$((checks + 1))
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse("out")' || fail "--xml is not XML"
expect 0 platform machine.json --svg machine.svg
checks=$((checks + 1))
python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("machine.svg")' || fail "--svg is not XML"

# The built-in experiment is found wherever podsim is called.
expect 0 compare --cost-only --set steps=2
grep -q codistillation out || fail "the built-in experiment has no codistillation"

# Installed, it takes the data that was installed with it.
checks=$((checks + 1))
cmake --install "$(dirname "$podsim")" --prefix "$folder/prefix" >log 2>&1 || fail "install: $(cat log)"
sed -i 's/five methods/installed methods/' prefix/share/podsim/analysis/experiments/built-in.json
checks=$((checks + 1))
prefix/bin/podsim compare --cost-only --set steps=2 -q | grep -q '^installed methods' ||
    fail "an installed podsim does not find its own experiment"
checks=$((checks + 1))
rm prefix/share/podsim/platforms/bow-2000.json
prefix/bin/podsim platform bow-2000 >log 2>&1 && fail "an installed podsim reads another's platforms"
rm -rf prefix

# A method in depth: its files lie in the folder itself.
expect 0 run e.json --set 'methods=["local"]' -o result
for file in summary.json events.csv trace.json; do
    checks=$((checks + 1))
    [ -s "result/$file" ] || fail "run: no $file"
done
for line in 'Where the time goes' 'Where the memory goes' 'What moves' 'What holds it up' \
    '^p0 .*%' '^weights .*%' '^p0 -> p1 ' 'Simulated: '; do
    checks=$((checks + 1))
    grep -q "$line" out || fail "run does not print \"$line\""
done
checks=$((checks + 1))
python3 - <<'END' || fail "run: table and summary disagree"
import json, re
m = json.load(open("result/summary.json"))["methods"][0]
out = open("out").read()
for p in m["processor_time"]:
    whole = p["computing_s"] + p["communicating_s"] + sum(p["waiting_s"].values()) + p["idle_s"]
    assert abs(whole - m["time_s"]) <= 1e-12 * m["time_s"]
    row = re.search("^" + p["processor"] + r" +stage \d +([\d.]+)% +([\d.]+)%", out, re.M)
    assert abs(float(row[1]) - 100 * p["computing_s"] / m["time_s"]) <= 0.0501
    assert abs(float(row[2]) - 100 * p["communicating_s"] / m["time_s"]) <= 0.0501
import csv
used = {r["link"]: r for r in csv.DictReader(open("result/links.csv")) if r["used"] == "1"}
assert sorted(used) == sorted(l["link"] for l in m["links"])
for l in m["links"]:
    assert int(used[l["link"]]["bytes"]) == l["bytes"]
    assert float(used[l["link"]]["utilisation"]) == l["utilisation"]
END
rm -rf result

# One of several is picked by its name.
expect 0 run e.json --method local --json
checks=$((checks + 1))
python3 -c 'import json; m = json.load(open("out"))["methods"]; assert [x["name"] for x in m] == ["local"]' ||
    fail "run --method local runs something else"
expect 2 run e.json
grep -q -- '--method NAME (there are backprop, ' err || fail "run of several: $(cat err)"
expect 2 run e.json --method nothing
grep -q 'no method is called "nothing"; there are backprop, ' err || fail "--method: $(cat err)"
expect 2 compare e.json --method local

# Below a name, or a file, its contents can be set: one slow processor, one slow link.
time_of() {
    python3 -c 'import json; print(json.load(open("out"))["methods"][0]["time_s"])'
}
slower() { # than $before, with these options
    expect 0 run e.json --cost-only --method pipeline --json "$@"
    checks=$((checks + 1))
    python3 -c 'import sys; sys.exit(not float(sys.argv[1]) > 1.2 * float(sys.argv[2]))' \
        "$(time_of)" "$before" || fail "not slower: $*"
}
expect 0 run e.json --cost-only --method pipeline --json
before=$(time_of)
slower --set 'platform.trouble={"stragglers": [{"processor": "p1", "slowdown": 3}]}'
slower --set platform.processors.slowdown=2
slower --set platform=two-processors --set 'methods.pipeline.stages=2' \
    --set platform.topology.link.bandwidth_bytes_per_s=1e5
cp out inline.json
mkdir -p other && python3 -c '
import json
e = json.load(open("inline.json"))["experiment"]
assert isinstance(e["platform"], dict)
json.dump(e, open("other/resolved.json", "w"))'
expect 0 run other/resolved.json --json
checks=$((checks + 1))
[ "$(time_of)" = "$(python3 -c 'import json; print(json.load(open("inline.json"))["methods"][0]["time_s"])')" ] ||
    fail "a resolved experiment with a machine in it gives something else"
expect 0 compare --cost-only --set steps=1 --set data.train_samples=1000 --set model.hidden=64
expect 0 compare e.json --cost-only --set methods.local.stages=2 --set methods.0.recompute=stage
grep -q '^local  *2 ' out || fail "--set below a method that is a name"
expect 2 compare e.json --set platform.speed=3
grep -q 'e.json: platform: .*"speed"' err || fail "--set platform.speed: $(cat err)"
expect 2 compare e.json --set platform=nonesuch --set platform.trouble.seed=1
grep -q -- '--set platform.trouble.seed: platform "nonesuch": no such file' err ||
    fail "--set below an unknown platform: $(cat err)"

# Nothing fits: status 3, a table, and who lacks what; learned numbers are absent.
machine() { sed "s/1000000/$1/" machine.json >other.json; }
machine 100
expect 3 compare e.json --set platform=other.json
grep -q 'backprop does not fit: processor p0 lacks' out || fail "does not say what does not fit"
[ ! -s err ] || fail "a machine that is too small is no message: $(cat err)"
expect 3 compare e.json --set platform=other.json --json
checks=$((checks + 1))
python3 - <<'END' || fail "a summary of what does not fit"
import json
for m in json.load(open("out"))["methods"]:
    assert m["fits"] is False and m["loss"] is None and m["accuracy"] is None
    assert m["curve"] == [] and m["time_s"] > 0
    lack = m["shortage"]
    assert lack["processor"].startswith("p") and lack["lacks_bytes"] > 0
    assert lack["largest_category"] == "weights"
END
# Some do: status 0.
machine 9000
expect 0 compare e.json --set platform=other.json
grep -q 'backprop does not fit' out || fail "backprop fits into 9000 bytes"
grep -q 'pipeline does not fit' out && fail "a stage does not fit into 9000 bytes"
expect 3 run e.json --set platform=other.json --set 'methods=["backprop"]'

# Options change what they say and nothing else.
expect 0 compare e.json --json
cp out one.json
expect 0 compare e.json --json --seed 3
same out one.json
expect 0 compare e.json --json --seed 4
checks=$((checks + 1))
python3 - <<'END' || fail "another seed"
import json
a, b = json.load(open("one.json")), json.load(open("out"))
assert (a["seed"], b["seed"]) == (3, 4)
for m, n in zip(a["methods"], b["methods"]):
    assert m["time_s"] == n["time_s"] and m["bytes_total"] == n["bytes_total"]
    assert m["loss"] != n["loss"]
END

# The columns of the table are those of the summary.
expect 0 compare e.json --set steps=2
for name in backprop pipeline recompute local codistillation data_parallel; do
    checks=$((checks + 1))
    grep -q "^$name " out || fail "no row for $name"
done

# All files are what their names say.
expect 0 compare e.json -o result --set steps=4
checks=$((checks + 1))
python3 - <<'END' || fail "the files of a result"
import csv, glob, json, os, xml.dom.minidom
summary = json.load(open("result/summary.json"))
names = [m["name"] for m in summary["methods"]]
assert sorted(names + ["summary.json"]) == sorted(os.listdir("result"))
for m in summary["methods"]:
    folder = "result/" + m["name"] + "/"
    json.load(open(folder + "trace.json"))
    xml.dom.minidom.parse(folder + "timeline.svg")
    rows = list(csv.DictReader(open(folder + "events.csv")))
    assert rows
    for row in rows:
        assert None not in row.values() and None not in row
    links = list(csv.DictReader(open(folder + "links.csv")))
    assert links
    # edges are summed in the summary, and bytes fit
    assert m["bytes_total"] == sum(e["bytes"] for e in m["edges"])
    assert m["messages"] == sum(e["messages"] for e in m["edges"])
    for processor in m["memory"]:
        assert processor["peak_bytes"] == sum(processor["at_peak_bytes"].values())
    assert abs(m["time_per_step_s"] * m["steps"] - m["time_s"]) <= 1e-12 * m["time_s"]
END

# Every field and column has its meaning in docs/output.md.
expect 0 compare e.json -o result --set steps=4
checks=$((checks + 1))
python3 - "$docs/output.md" <<'END' || fail "docs/output.md lacks something"
import csv, glob, json, re, sys
words = set(re.findall(r"[A-Za-z_]+", open(sys.argv[1]).read()))
lacks = set()
def keys(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key not in words and not key.startswith("wait "):
                lacks.add(key)
            keys(value)
    elif isinstance(node, list):
        for value in node:
            keys(value)
summary = json.load(open("result/summary.json"))
summary["experiment"] = None
keys(summary)
for path in glob.glob("result/*/*.csv"):
    lacks |= {c for c in next(csv.reader(open(path))) if c not in words}
    if path.endswith("events.csv"):
        for row in csv.DictReader(open(path)):
            lacks |= {w for w in re.findall(r"[a-z]+", row["name"]) if w not in words}
assert not lacks, sorted(lacks)
END
finish
