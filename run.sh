#!/usr/bin/env bash
# Installs what is missing, builds, and runs baleen with the arguments given; with none, the bundled model
# tells a story. The second time only the last of these takes time. Where a GPU and nvcc are, the module of
# kernels that the GPU gets is built too; the program says what it found.
set -euo pipefail
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

mapfile -t modules < <("$root/scripts/gpu_module_targets.sh")

"$root/scripts/install_packages.sh"
"$root/scripts/build.sh" release baleen "${modules[@]}"

if [[ $# -eq 0 ]]; then
  set -- run --chat "Tell me a story about a fox who finds a lantern."
fi
exec "$root/build/release/src/app/baleen" "$@"
