#!/usr/bin/env bash
# Installs what is missing, builds podsim, and compares the methods of the built-in
# experiment. Further arguments go to `podsim compare`.
set -euo pipefail
cd "$(dirname "$0")"
bash tools/install.sh
cmake --preset release > build.log 2>&1 || { cat build.log >&2; exit 1; }
cmake --build --preset release --target podsim -j "$(nproc)" > build.log 2>&1 ||
    { cat build.log >&2; exit 1; }
rm -f build.log
echo "Built build/podsim. Training on a simulated machine:" >&2
build/podsim compare "$@"
