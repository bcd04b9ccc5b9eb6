#!/usr/bin/env bash
# check_lines.sh BASE: says which lines are longer than 110 columns: of src/ all, of other code and of
# documentation those that are new or changed since the commit BASE. Changes nothing. Rows of tables, output
# of programs in pages, text in raw strings, what is drawn or aligned in comments and lines with an address
# cannot be wrapped.
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
status=0
git ls-files 'src/*.cc' 'src/*.h' 'src/*.cu' 'src/*.cuh' | xargs perl -CSD -ne '
  chomp;
  $raw = 0 if $. == 1;
  $begins = /R"(\w*)\((?!.*\)\1")/;
  if (length() > 110 && !$raw && !m{^\s*///?\s{2,}} && !/R"/ && !m{https?://}) {
    print "$ARGV:$.: ", length(), " columns\n"; $found = 1;
  }
  $raw = 1 if $begins;
  $raw = 0 if $raw && !$begins && /\)\w*"/;
  close ARGV if eof;
  END { exit($found ? 1 : 0) }' || status=1
added_lines '*.cc' '*.h' '*.cu' '*.cuh' '*.cmake' '*CMakeLists.txt' '*.sh' '*.mjs' '*.md' \
  ':!web/dist' ':!tests/**/goldens' ':!tests/**/vectors' |
  perl -CSD -ne '
    if (/^\+\+\+ b\/(.*)/) { $file = $1; next }
    if (/^@@ .*\+(\d+)/) { $line = $1 - 1; next }
    next unless s/^\+//;
    ++$line; chomp;
    next if length() <= 110 || /^\s*\|/ || m{https?://} || ($file =~ /\.md$/ && /^    /);
    print "$file:$line: ", length(), " columns\n"; $found = 1;
    END { exit($found ? 1 : 0) }' || status=1
exit $status
