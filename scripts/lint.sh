#!/usr/bin/env bash
# lint.sh [PRESET] [FILE...]: no type has two definitions (check_names.sh); clang-tidy with the checks of .clang-tidy over the
# C++ files of src/, or those named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/check_names.sh
if ! command -v clang-tidy >/dev/null; then
  echo "lint.sh: clang-tidy is missing; apt-get install clang-tidy" >&2
  exit 1
fi

preset=${1-release}
shift || true
commands=build/$preset/compile_commands.json
if [[ ! -e $commands ]]; then
  echo "lint.sh: $commands is missing; run scripts/build.sh $preset first" >&2
  exit 1
fi

if [[ $# -gt 0 ]]; then
  files=("$@")
else
  # A file that no target builds has no compile command, and clang-tidy would guess one.
  mapfile -t files < <(sed -n 's/^ *"file": "\(.*\/src\/.*\)",*$/\1/p' "$commands" | sort -u)
fi
# The commands are g++'s, some of whose warnings clang does not know.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy -p "build/$preset" --quiet --extra-arg=-Wno-unknown-warning-option \
    2> >(grep -v 'warnings generated' >&2)
