#!/usr/bin/env bash
# Says which C++ files .clang-format would change, and where; changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v clang-format >/dev/null; then
  echo "check_format.sh: clang-format is missing; apt-get install clang-format" >&2
  exit 1
fi

find src tests bench -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' | sort |
  xargs clang-format --dry-run -Werror
