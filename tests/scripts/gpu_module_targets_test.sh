#!/usr/bin/env bash
# What scripts/gpu_module_targets.sh says, over made-up devices, compilers and words of nvidia-smi.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/dev" "$folder/none" "$folder/bin"
touch "$folder/dev/nvidia0"
printf '#!/bin/sh\n' >"$folder/bin/nvcc"

expect() {  # expect "WORDS OF NVIDIA-SMI" "TARGETS" [DEV]
  printf '#!/bin/sh\nprintf "%s"\n' "$1" >"$folder/bin/nvidia-smi"
  chmod +x "$folder/bin/nvcc" "$folder/bin/nvidia-smi"
  local found
  found=$(PATH=$folder/bin:$PATH scripts/gpu_module_targets.sh "$folder/${3:-dev}" | tr '\n' ' ')
  if [[ $found != "$2" ]]; then
    echo "nvidia-smi says '$1': '$found' instead of '$2'" >&2
    exit 1
  fi
}
expect '9.0\n' 'baleen_sm90 '
expect '8.9\n' 'baleen_sm80 '
expect '8.0\n8.0\n' 'baleen_sm80 '
expect '12.0\n' 'baleen_sm80 '
expect '9.0\n8.6\n' 'baleen_sm80 baleen_sm90 '
expect '7.5\n' ''
expect 'NVIDIA-SMI has failed because it could not communicate with the driver\n' 'gpu_modules '
expect '8.9\n' '' none
