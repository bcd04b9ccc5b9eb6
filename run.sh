#!/usr/bin/env bash
# Installs what is missing, builds, and runs baleen with the arguments given; with none, the bundled model
# tells a story. The second time only the last of these takes time. Kernels for GPUs are built where a GPU
# and nvcc are.
set -euo pipefail
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

targets=(baleen)
if "$root/scripts/has_gpu.sh"; then targets+=(gpu_modules); fi

"$root/scripts/install_packages.sh"
"$root/scripts/build.sh" release "${targets[@]}"

if [[ $# -eq 0 ]]; then
  set -- run --chat "Tell me a story about a fox who finds a lantern."
fi
exec "$root/build/release/src/app/baleen" "$@"
