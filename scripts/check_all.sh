#!/usr/bin/env bash
# check_all.sh [BASE]: what can be said of a change without running it. BASE is the commit that it is compared
# with: the merge base with main, or on main itself the commit before. Every check runs; the status is 1 if
# one found something. A check whose tool is missing says so. Include fences are the build's: a folder sees
# only the headers of the folders that it USES (cmake/baleen_folder.cmake).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=${1-}
if [[ -z $base ]]; then
  for branch in main origin/main; do
    if base=$(git merge-base HEAD "$branch" 2>/dev/null); then break; fi
  done
  if [[ -z $base || $base == "$(git rev-parse HEAD)" && -z $(git status --porcelain) ]]; then
    base=$(git rev-parse HEAD^)
  fi
fi
echo "compared with $(git log -1 --format='%h %s' "$base")"

# Files that exist and differ from BASE, committed or not.
changed() {
  { git diff --name-only --diff-filter=d "$base" -- "$@"
    git ls-files --others --exclude-standard -- "$@"; } | sort -u
}

failed=0
check() { # check NAME COMMAND...
  local name=$1
  shift
  if "$@"; then echo "ok       $name"; else echo "FAILED   $name"; failed=1; fi
}
skip() { echo "skipped  $1: $2"; }

mapfile -t sources < <(changed '*.cc' '*.h' '*.cu' '*.cuh')
mapfile -t scripts < <(changed '*.sh' .ci/run)

check_lines() { scripts/check_lines.sh "$base"; }
check_scripts() {
  local script status=0
  for script in "${scripts[@]}"; do bash -n "$script" || status=1; done
  return $status
}
if [[ ${#sources[@]} -eq 0 ]]; then
  skip format "no C++ file changed"
elif command -v clang-format >/dev/null; then
  check "format of ${#sources[@]} files" clang-format --dry-run -Werror "${sources[@]}"
else
  skip format "clang-format is not installed"
fi
check "names: no type is defined twice" scripts/check_names.sh
check "doors: command line, JSON and files are read in one place each" scripts/check_doors.sh
check "lines of at most 110 columns" check_lines
check "syntax of ${#scripts[@]} scripts" check_scripts
commands=build/release/compile_commands.json
# Headers are checked with the files that include them. A file takes some ten seconds.
max_units=20
units=()
if [[ -e $commands ]]; then
  while read -r file; do
    # A file that no target builds has no compile command.
    if grep -qF "\"file\": \"$PWD/$file\"" "$commands"; then units+=("$PWD/$file"); fi
  done < <(changed 'src/*.cc')
fi
if ! command -v clang-tidy >/dev/null; then
  skip clang-tidy "it is not installed"
elif [[ ! -e $commands ]]; then
  skip clang-tidy "$commands is missing; scripts/build.sh release makes it"
elif [[ ${#units[@]} -eq 0 ]]; then
  skip clang-tidy "no compiled file of src/ changed"
elif [[ ${#units[@]} -gt $max_units ]]; then
  skip clang-tidy "${#units[@]} files changed; scripts/lint.sh release FILE... checks them"
else
  check "clang-tidy on ${#units[@]} files" scripts/lint.sh release "${units[@]}"
fi
exit $failed
