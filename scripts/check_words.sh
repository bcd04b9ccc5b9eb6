#!/usr/bin/env bash
# check_words.sh: says where code, tests, benchmarks or pages use words of the authors' own for what
# the field has a term for, and which term to take, and where comments of members have no subject; changes
# nothing. Texts that models and clients exchange (fixtures, published figures) are not read.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
# refuse PATTERN TERM FOLDER...: lines with words that match, as a whole and in any case.
refuse() {
  local pattern=$1 term=$2 found
  shift 2
  local files=("${@/%//*.h}" "${@/%//*.cc}" "${@/%//*.cu}" "${@/%//*.cuh}" "${@/%//*.md}")
  found=$(git grep -nIwiE "$pattern" -- "${files[@]}" |
    grep -vE 'std::floor|told apart' || true)
  if [[ -n $found ]]; then
    printf 'check_words.sh: %s instead of:\n%s\n' "$term" "$found" >&2
    failed=1
  fi
}

all=(src tests bench docs)
refuse 'somebody|nobody' 'what it is (a request, a thread, a caller), or no one' "${all[@]}"
refuse 'company' 'batch composition' "${all[@]}"
refuse 'widen|widens|widened|widening' 'dequantise, or convert' "${all[@]}"
refuse 'asked for|told' 'wanted, requested or given: data are not spoken to' "${all[@]}"
refuse 'floors?|rooms|houses?' 'layers and folders' "${all[@]}"
refuse 'kMost[A-Za-z0-9]*' 'kMax' "${all[@]}"
# Elsewhere a tree or a graph may well be visited.
refuse 'visits?|visited' 'token-expert assignment' \
  src/ops src/device src/cuda src/simulator tests/ops bench docs
refuse 'copy engine' 'TMA; the copy engine is what copies over PCIe' \
  src/ops/linear src/ops/matmul src/ops/sparse_attention src/cuda docs/cuda.md
refuse 'turns?|turned' 'rotate, rotation' src/ops/rope src/ops/rms_norm

# Names of options are the command line's: sentences below app/ name a setting by its concept, ‹context›, and
# app/option_names.cc has the option for it. (gpu_driver.cc names podman's.)
below_app=('src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' ':!src/app' ':!src/device/gpu_driver.cc')
names=src/app/option_names.cc
if [[ -e $names ]]; then
  options=$(git grep -hoE '"(-[a-z],)?--[a-z]+(-[a-z]+)*[",]' -- 'src/app/*.cc' | tr -d '",' |
    sed 's/^-[a-z]--/--/' | sort -u | paste -sd'|')
  found=$(git grep -nE -- "(^|[^-a-z])($options)([^-a-z]|$)" -- "${below_app[@]}" |
    grep -vE -- '--[a-z_]+(\[|;|\)| [<>=])' || true)
  if [[ -n $found ]]; then
    printf 'check_words.sh: the concept, as ‹context›, instead of the option (%s):\n%s\n' "$names" \
      "$found" >&2
    failed=1
  fi
  # A sentence may go on in the next line.
  while read -r setting; do
    if ! grep -qF "{\"$setting\", \"--" "$names"; then
      echo "check_words.sh: $names has no option for ‹$setting›" >&2
      failed=1
    fi
  done < <(git grep -lF '‹' -- "${below_app[@]}" | xargs -r perl -0777 -ne \
    's/"\s*\n\s*"//g; while (/‹((?:(?!›|").)*)›/gs) { print "$1\n" }' | grep -vF '{}' | sort -u)
fi

# A comment behind a member says what the member is: a subject first, not what it belongs to ("of the
# request").
begins_without_subject='[^[:space:]].*///<[[:space:]]+([Oo]f|[Ii]n|[Ww]ith|[Bb]y|[Tt]he same)([^[:alnum:]]|$)'
found=$(git grep -nIE "$begins_without_subject" -- 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' || true)
if [[ -n $found ]]; then
  printf 'check_words.sh: Subject, verb, unit instead of "of", "in", "with", "by", "the same":\n%s\n' \
    "$found" >&2
  failed=1
fi
exit $failed
