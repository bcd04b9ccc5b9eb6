#!/usr/bin/env bash
# scripts/build.sh, off a terminal, says how far it is, and shows the compiler's words when something fails. A script stands
# in for ninja.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/code/scripts" "$folder/code/build/x" "$folder/bin"
cp scripts/build.sh "$folder/code/scripts/"
touch "$folder/code/build/x/build.ninja"
cat >"$folder/bin/ninja" <<'NINJA'
#!/usr/bin/env bash
echo "ninja: Entering directory"
echo "[1/4] Building CXX object a.o"
echo "[3/4] Building CXX object b.o"
if [[ ${*: -1} == broken ]]; then printf 'FAILED: b.o\nb.cc:1: error: no\n'; exit 1; fi
NINJA
chmod +x "$folder/bin/ninja"
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
