#!/usr/bin/env bash
# Installs the Debian packages that podsim needs and that are missing.
# `tools/install.sh tests` adds those that only tests use.
set -euo pipefail
packages=(gcc libc6-dev cmake ninja-build pkg-config libsimgrid-dev libopenblas-dev
    libcjson-dev libdnnl-dev zlib1g-dev dataset-fashion-mnist)
if [ "${1:-}" = tests ]; then
    packages+=(libcunit1-dev python3-torch python3-jsonschema)
fi
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'install ok installed' ||
        missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
echo "Installing ${missing[*]}" >&2
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
