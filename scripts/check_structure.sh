#!/usr/bin/env bash
# check_structure.sh [COMMIT]: prints in how many places the tree says what it should say once, of the work tree or of a
# commit. Changes nothing and refuses nothing: two runs, before and after a change, say what it did.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=${1-}
tree=$PWD
if [[ -n $commit ]]; then
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' EXIT
  git archive "$commit" src docs | tar -x -C "$tree"
fi
cd "$tree"

mapfile -t sources < <(find src -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' | sort)
count() { printf '%7d  %s\n' "$1" "$2"; }
files_with() { grep -lE "$@" "${sources[@]}" | wc -l; } # files_with [OPTION] PATTERN

# Names of the released layout in strings of code: comments may say which tensor an argument is.
tensor='^[^#]([^/]|/[^/])*"[^" ]*(wq_[ab]|wkv|wo_[ab]|wgate|attn_sink|hc_(attn|ffn|head)_|weights_proj|'
tensor+='tid2eid|gate\.(weight|bias)|\.shared_experts|\.experts\.|enorm|hnorm|[eh]_proj|\.ape)[^" ]*"'

count "$(cat "${sources[@]}" | wc -l)" "lines of src"
count "${#sources[@]}" "files of src"
count "$(perl -CSD -ne 'chomp; print "x\n" if length() > 110' "${sources[@]}" | wc -l)" \
  "lines of src longer than 110 columns"
count "$(files_with -i 'mtp')" "files that name mtp"
count "$(files_with "$tensor")" "files that name a tensor"
count "$(files_with 'DeviceKind::')" "files that ask for the kind of a device"
count "$(printf '%s\n' "${sources[@]}" | grep -v /sm90/ | xargs grep -lE 'sm90|Hopper|H100' | wc -l)" \
  "files outside sm90/ that name that architecture"
count "$(files_with 'is_alone')" "files that ask whether a rank is alone"
for tutorial in docs/adding_*.md; do
  count "$(grep -oE '`[a-z_<>/]+/[A-Za-z_<>.]+`' "$tutorial" | sort -u | wc -l)" "files that $tutorial names"
done
