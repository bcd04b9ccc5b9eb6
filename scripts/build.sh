#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures build/PRESET if it has never been, then builds the targets, or everything.
# Silent but for one line of progress on a terminal; when something fails, the compiler's words.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?"which preset? see CMakePresets.json"}
shift
folder=build/$preset
log=$folder/build.log
mkdir -p "$folder"

progress() {
  if [[ -t 2 ]]; then printf '\r\033[K%s' "$1" >&2; fi
}

if [[ ! -e $folder/build.ninja ]]; then
  progress "configuring"
  launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  if ! cmake --preset "$preset" "${launcher[@]}" >"$log" 2>&1; then
    progress ""
    cat "$log" >&2
    exit 1
  fi
fi

# Into a pipe, ninja prints a line for each step: "[12/80] Building CXX object ...".
if ! ninja -C "$folder" "$@" 2>&1 | tee "$log" | while IFS= read -r line; do
  if [[ $line =~ ^\[([0-9]+/[0-9]+)\] ]]; then progress "building ${BASH_REMATCH[1]}"; fi
done; then
  progress ""
  sed -n '/^FAILED\|^ninja: error\|^CMake Error/,$p' "$log" >&2
  echo "build.sh: building preset $preset failed; the whole log is $PWD/$log" >&2
  exit 1
fi
progress ""
