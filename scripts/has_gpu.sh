#!/usr/bin/env bash
# has_gpu.sh [DEV]: whether this machine has an NVIDIA GPU and a compiler for it. Without the compiler there
# is nothing to build, and the program says what is missing. DEV: the folder of devices (/dev).
set -euo pipefail
devices=${1:-/dev}
compgen -G "$devices/nvidia[0-9]*" >/dev/null || [[ -e $devices/dxg ]] || exit 1  # dxg: under Windows
command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]
