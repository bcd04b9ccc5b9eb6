#!/usr/bin/env bash
# gpu_module_targets.sh [DEV]: the targets of the modules that this machine's GPUs get: of each compute
# capability the first row of src/device/gpu_architectures.cc that runs on it; all modules (gpu_modules) where
# nvidia-smi does not say what there is. Nothing without a GPU, without nvcc, or where no row runs. DEV: the
# folder of devices (/dev).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/has_gpu.sh "$@" || exit 0

smi=$(command -v nvidia-smi || echo /usr/lib/wsl/lib/nvidia-smi)
capabilities=$("$smi" --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u) || capabilities=""
if [[ ! $capabilities =~ ^[0-9]+\.[0-9]+ ]]; then
  echo gpu_modules
  exit
fi
# Of each row: name, least and most compute capability as major * 100 + minor.
rows=$(sed -nE '
  s/.*\.name = "([^"]*)".*/\1/p
  s/.*\.least = \{([0-9]+), ([0-9]+)\}.*/\1 \2/p
  s/.*\.most = \{([0-9]+), ([0-9]+)\}.*/\1 \2/p
  s/.*\.most = kAnyLater.*/99999 0/p' src/device/gpu_architectures.cc | paste - - -)
while IFS=. read -r major minor; do
  while read -r name least least_minor most most_minor; do
    capability=$((100 * major + minor))
    if ((100 * least + least_minor <= capability && capability <= 100 * most + most_minor)); then
      echo "baleen_$name"
      break
    fi
  done <<<"$rows"
done <<<"$capabilities" | sort -u
