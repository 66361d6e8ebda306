#!/usr/bin/env bash
# Installs what is missing, builds, and runs the whole suite: the release build with
# warnings as errors, then the same tests under AddressSanitizer and
# UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")"
bash tools/install.sh tests
jobs=$(nproc)
cmake --preset release -DPODSIM_WERROR=ON
cmake --build --preset release -j "$jobs"
ctest --preset release -j "$jobs"
cmake --preset debug -DPODSIM_WERROR=ON
cmake --build --preset debug -j "$jobs"
ctest --preset debug -j "$jobs"
