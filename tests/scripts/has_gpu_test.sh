#!/usr/bin/env bash
# Kernels are built where a GPU and nvcc are, and nowhere else.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder"/{none,controls,one,windows,bin}
touch "$folder"/controls/nvidiactl "$folder"/one/nvidia0 "$folder"/windows/dxg
printf '#!/bin/sh\n' >"$folder/bin/nvcc"
chmod +x "$folder/bin/nvcc"

with_nvcc() { PATH=$folder/bin:$PATH scripts/has_gpu.sh "$folder/$1"; }
for devices in one windows; do
  with_nvcc $devices || { echo "no GPU found in $devices" >&2; exit 1; }
done
for devices in none controls; do
  if with_nvcc $devices; then echo "a GPU found in $devices" >&2; exit 1; fi
done
if [[ ! -x /usr/local/cuda/bin/nvcc ]] && PATH=/usr/bin:/bin scripts/has_gpu.sh "$folder/one"; then
  echo "kernels wanted without nvcc" >&2
  exit 1
fi
