#!/usr/bin/env bash
# scripts/check_lines.sh says which new lines are too long, by characters, in files that git knows and in
# those that it does not.
set -euo pipefail
checks=$(readlink -f scripts)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/scripts"
cp "$checks/check_lines.sh" "$folder/scripts/"
cd "$folder"
export GIT_CONFIG_GLOBAL=/dev/null
git init -q .
git config user.name a
git config user.email a
long=$(printf 'x%.0s' {1..111})
echo "$long" >old.cc
git add . && git commit -qm base

scripts/check_lines.sh HEAD || { echo "an old line is refused" >&2; exit 1; }
printf 'short\n%s\n' "$long" >new.cc
printf '%s\n%s\n' "$long" "y$long" >old.cc
printf '| %s |\nhttps://%s\n%s\n' "$long" "$long" "$(printf 'é%.0s' {1..110})" >table.md
found=$(scripts/check_lines.sh HEAD | sort) && { echo "long lines pass" >&2; exit 1; }
[[ $found == $'new.cc:2: 111 columns\nold.cc:2: 112 columns' ]] || { echo "found: $found" >&2; exit 1; }
