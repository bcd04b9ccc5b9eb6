#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures build/PRESET if it has never been, or if other packages are
# installed than then, and builds the targets, or everything. Says how far it is: on a terminal in one line,
# elsewhere in a line a minute. When something fails, the compiler's words. BALEEN_PROGRESS_SECONDS: seconds
# between those lines.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?"which preset? see CMakePresets.json"}
shift
folder=build/$preset
log=$folder/build.log
interval=${BALEEN_PROGRESS_SECONDS:-60}
mkdir -p "$folder"

# With paths relative to the checkout, build folders and clones find each other's objects in the cache.
if command -v ccache >/dev/null && [[ -z $(ccache -k base_dir 2>/dev/null) ]]; then export CCACHE_BASEDIR=$PWD; fi

show() {
  if [[ -t 2 ]]; then printf '\r\033[K%s' "$1" >&2; fi
}

# Reads what ninja prints into a pipe, a line for each step: "[12/80] Building CXX object ...".
follow() {
  local line='' place='' said=$SECONDS status
  while true; do
    status=0
    IFS= read -r -t "$((interval > 0 ? interval : 1))" line || status=$?
    if [[ $status -gt 0 && $status -le 128 ]]; then break; fi  # the end; more than 128: nothing came in time
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      place="$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))% (${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} steps)"
      show "building $place"
    fi
    if [[ ! -t 2 ]] && ((SECONDS - said >= interval)); then
      said=$SECONDS
      echo "building, ${place:-0%}" >&2
    fi
  done
}

# What configuration looks for, and so depends on: packages with their versions, the commands that stand for
# some of them, those that are unpacked, and the compiler for GPUs.
installed() {
  local names
  mapfile -t names < <(sed 's/[[:space:]]*#.*//; s/[[:space:]].*//' scripts/packages.txt | grep .)
  dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\n' "${names[@]%|*}" 2>/dev/null | sort || true
  local name
  for name in "${names[@]}" '|nvcc' '|/usr/local/cuda/bin/nvcc'; do
    if [[ $name == *'|'* ]]; then command -v "${name#*|}" || true; fi
  done
  find build/unpacked/usr/sbin -type f 2>/dev/null | sort || true
}

# What an earlier configuration did not find is looked for again, and what is gone is no longer believed in: a
# cache made then holds paths of both.
found=$(installed)
if [[ ! -e $folder/build.ninja || $found != "$(cat "$folder/configured_with" 2>/dev/null)" ]]; then
  show "configuring"
  launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  if ! cmake --fresh --preset "$preset" "${launcher[@]}" >"$log" 2>&1; then
    show ""
    cat "$log" >&2
    exit 1
  fi
  echo "$found" >"$folder/configured_with"
fi

if ! ninja -C "$folder" "$@" 2>&1 | tee "$log" | follow; then
  show ""
  sed -n '/^FAILED\|^ninja: error\|^CMake Error/,$p' "$log" >&2
  echo "build.sh: building preset $preset failed; the whole log is $PWD/$log" >&2
  exit 1
fi
show ""
