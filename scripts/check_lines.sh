#!/usr/bin/env bash
# check_lines.sh BASE: says which lines of code and documentation, new or changed since the commit BASE, are
# longer than 110 columns; changes nothing. Rows of tables, output of programs
# in pages and lines with an address cannot be wrapped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:?"compared with which commit?"}

added_lines() {
  git diff --unified=0 --no-color --diff-filter=d "$base" -- "$@"
  # New files that git does not know yet, as a diff from nothing.
  git ls-files --others --exclude-standard -- "$@" |
    while read -r file; do
      git diff --no-index --unified=0 --no-color /dev/null "$file" || true
    done
}

# Columns are characters, not bytes.
export LC_ALL=C.UTF-8
added_lines '*.cc' '*.h' '*.cu' '*.cuh' '*.cmake' '*CMakeLists.txt' '*.sh' '*.mjs' '*.md' \
  ':!web/dist' ':!tests/**/goldens' ':!tests/**/vectors' |
  perl -CSD -ne '
    if (/^\+\+\+ b\/(.*)/) { $file = $1; next }
    if (/^@@ .*\+(\d+)/) { $line = $1 - 1; next }
    next unless s/^\+//;
    ++$line; chomp;
    next if length() <= 110 || /^\s*\|/ || m{https?://} || ($file =~ /\.md$/ && /^    /);
    print "$file:$line: ", length(), " columns\n"; $found = 1;
    END { exit($found ? 1 : 0) }'
