#!/usr/bin/env bash
# Says which types have one qualified name and two definitions, and where; the linker would merge them in silence.
# Reads text alone, as .clang-format leaves it: types begin a line, and the end of a namespace names it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git ls-files 'src/*.h' 'src/*.cc' 'src/*.cuh' 'src/*.cu' | sort | xargs awk '
  FNR == 1 { depth = 0 }
  /^namespace .*\{$/ {
    name = $0; sub(/^namespace */, "", name); sub(/ *\{$/, "", name)
    scope[++depth] = name == "" ? "(" FILENAME ")" : name
  }
  /^}  \/\/ namespace/ && depth > 0 { --depth }
  /^(struct|class|union|enum class|enum) [A-Za-z_]/ && !/;( *\/\/.*)?$/ {
    line = $0; sub(/^(struct|class|union|enum class|enum) /, "", line)
    # A compiler attribute such as alignas(16) may stand before the name.
    sub(/^[a-z_]+\([^)]*\) /, "", line)
    if (!match(line, /^[A-Za-z_][A-Za-z_0-9]*/)) next
    type = substr(line, 1, RLENGTH); rest = substr(line, RLENGTH + 1, 1)
    if (rest == "<" || rest == ":") { if (rest == "<" || substr(line, RLENGTH + 1, 2) == "::") next }
    for (i = depth; i > 0; --i) type = scope[i] "::" type
    if (type in first) { print type ": " first[type] " and " FILENAME ":" FNR; found = 1 }
    else first[type] = FILENAME ":" FNR
  }
  END { exit found }' || { echo "check_names.sh: give each a name, or a namespace, of its own" >&2; exit 1; }
