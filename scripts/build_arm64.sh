#!/usr/bin/env bash
# Builds everything for 64-bit Arm on an x86 Debian; `./test.sh --preset arm64 -R numeric` then runs tests under qemu,
# some hundred times slower than natively. It adds arm64 as a foreign architecture of this system's dpkg and installs
# Debian's own arm64 libraries, which live beside the native ones in /usr/lib/aarch64-linux-gnu, except for
# those of MPI and Prometheus: they take the native ones' place, so do this in a container. Tests that run
# several threads may hang under qemu. Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $EUID -ne 0 ]]; then
  echo "build_arm64.sh: adding an architecture to dpkg needs root; run it with sudo, or in a container" >&2
  exit 1
fi

scripts/install_packages.sh

# Libraries are wanted from arm64, whatever packages.txt has of them; headers alone are the same for every
# architecture, and benchmarks are not built.
mapfile -t libraries < <(sed 's/#.*//' scripts/packages.txt | tr -d ' \t' | grep -E -- '-dev$' |
  grep -vxE 'nlohmann-json3-dev|libcli11-dev|libboost[0-9.]+-dev|libbenchmark-dev|dpkg-dev' |
  sed 's/$/:arm64/')
wanted=(g++-aarch64-linux-gnu qemu-user "${libraries[@]}")
if ! dpkg-query -W "${wanted[@]}" >/dev/null 2>&1; then
  dpkg --add-architecture arm64
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${wanted[@]}"
fi

scripts/build.sh arm64
