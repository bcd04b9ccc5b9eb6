#!/usr/bin/env bash
# scripts/build.sh, off a terminal, says how far it is, shows the compiler's words when something fails, and
# configures again once other packages are there. Scripts stand in for cmake and ninja.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/code/scripts" "$folder/bin"
cp scripts/build.sh scripts/packages.txt "$folder/code/scripts/"
cat >"$folder/bin/ninja" <<'NINJA'
#!/usr/bin/env bash
echo "ninja: Entering directory"
echo "[1/4] Building CXX object a.o"
echo "[3/4] Building CXX object b.o"
if [[ ${*: -1} == broken ]]; then printf 'FAILED: b.o\nb.cc:1: error: no\n'; exit 1; fi
NINJA
cat >"$folder/bin/cmake" <<'CMAKE'
#!/usr/bin/env bash
mkdir -p build/x && touch build/x/build.ninja && echo "$*" >>configurations
CMAKE
chmod +x "$folder/bin/ninja" "$folder/bin/cmake"
export PATH=$folder/bin:$PATH

fail() {
  echo "$1" >&2
  cat "$folder/err" >&2
  exit 1
}

BALEEN_PROGRESS_SECONDS=0 "$folder/code/scripts/build.sh" x baleen 2>"$folder/err" || fail "a good build failed"
grep -qxF 'building, 25% (1 of 4 steps)' "$folder/err" || fail "no line for step 1"
grep -qxF 'building, 75% (3 of 4 steps)' "$folder/err" || fail "no line for step 3"
"$folder/code/scripts/build.sh" x baleen 2>"$folder/err" || fail "a good build failed"
[[ ! -s $folder/err ]] || fail "a build of less than a minute should say nothing"
if "$folder/code/scripts/build.sh" x broken 2>"$folder/err"; then fail "a failed build succeeded"; fi
grep -qF 'b.cc:1: error: no' "$folder/err" || fail "the compiler's words are missing"

configurations() { wc -l <"$folder/code/configurations"; }
[[ $(configurations) -eq 1 ]] || fail "configured $(configurations) times with the same packages"
mkdir -p "$folder/code/build/unpacked/usr/sbin"
touch "$folder/code/build/unpacked/usr/sbin/nginx"
"$folder/code/scripts/build.sh" x baleen 2>"$folder/err" || fail "a good build failed"
[[ $(configurations) -eq 2 ]] || fail "not configured again after nginx was unpacked"
echo 'made-up|mpirun-of-nobody  # [test] a command that comes later' >>"$folder/code/scripts/packages.txt"
printf '#!/bin/sh\n' >"$folder/bin/mpirun-of-nobody" && chmod +x "$folder/bin/mpirun-of-nobody"
"$folder/code/scripts/build.sh" x baleen 2>"$folder/err" || fail "a good build failed"
[[ $(configurations) -eq 3 ]] || fail "not configured again after a command came"
"$folder/code/scripts/build.sh" x baleen 2>"$folder/err" || fail "a good build failed"
[[ $(configurations) -eq 3 ]] || fail "configured again with the same packages"
