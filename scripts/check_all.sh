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
if ! git rev-parse --quiet --verify "$base^{commit}" >/dev/null 2>&1; then
  echo "skipped  everything: there is no commit to compare with (no repository, or one without history)"
  exit 0
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
check_words() { scripts/check_words.sh; }
check_scripts() {
  local script status=0
  for script in "${scripts[@]}"; do bash -n "$script" || status=1; done
  return $status
}
check_tidy() {
  local units=() file
  # A file that no target builds has no compile command. Headers are checked with the files that include them.
  while read -r file; do
    if grep -qF "\"file\": \"$PWD/$file\"" "$commands"; then units+=("$PWD/$file"); fi
  done < <(changed 'src/*.cc')
  if [[ ${#units[@]} -gt $max_tidy_files ]]; then
    echo "         clang-tidy: $max_tidy_files of ${#units[@]} changed files; BALEEN_TIDY_FILES=N takes more"
    # Drawn by the commit: a second run of the same checks looks at the same files.
    mapfile -t units < <(printf '%s\n' "${units[@]}" |
      shuf -n "$max_tidy_files" --random-source=<(yes "$(git rev-parse HEAD)"))
  fi
  if [[ ${#units[@]} -gt 0 ]]; then scripts/lint.sh debug "${units[@]}"; fi
}

if [[ ${#sources[@]} -eq 0 ]]; then
  skip format "no C++ file changed"
elif command -v clang-format >/dev/null; then
  check "format of ${#sources[@]} files" clang-format --dry-run -Werror "${sources[@]}"
else
  skip format "clang-format is not installed"
fi
check "names: no type is defined twice" scripts/check_names.sh
check "words: the field's terms, not the authors' own; comments have a subject" check_words
check "doors: command line, JSON and files are read in one place each" scripts/check_doors.sh
check "documents: names are in the tree, the table of USES is the build's" scripts/check_docs.py
check "lines of at most 110 columns" check_lines
check "syntax of ${#scripts[@]} scripts" check_scripts
# The build for debuggers compiles file by file, as clang-tidy must.
commands=build/debug/compile_commands.json
max_tidy_files=${BALEEN_TIDY_FILES:-12}
if [[ ! -e $commands ]]; then cmake --preset debug >/dev/null 2>&1; fi
if ! command -v clang-tidy >/dev/null; then
  skip clang-tidy "it is not installed"
elif [[ ! -e $commands ]]; then
  skip clang-tidy "$commands is missing, and cmake --preset debug did not make it"
else
  check "clang-tidy on changed files of src/" check_tidy
fi
exit $failed
