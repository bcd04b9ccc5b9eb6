#!/usr/bin/env bash
# scripts/check_words.sh refuses words of the authors' own in code, tests, benchmarks and pages, and names the
# term to take.
set -euo pipefail
checks=$PWD/scripts
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
git init -q .
mkdir -p scripts src/ops tests bench docs
cp "$checks/check_words.sh" scripts/
echo 'int rows = static_cast<int>(std::floor(x));  // a child node is visited once' >src/tree.cc
echo 'Keys that are told apart by their names; a companion.' >docs/page.md
git add .
scripts/check_words.sh || { echo "sound words are refused" >&2; exit 1; }

refused() {  # refused FILE LINE TERM
  echo "$2" >"$1"
  git add .
  scripts/check_words.sh 2>found && { echo "passes: $2" >&2; exit 1; }
  grep -qF "$3" found || { echo "not the term: $(cat found)" >&2; exit 1; }
  rm "$1"
}
refused src/ops/a.cu '// The second visit of an expert' 'token-expert assignment'
refused tests/a.cc '// Its company does not show' 'batch composition'
refused bench/a.cc 'constexpr int kMostRows = 3;' kMax
refused docs/a.md 'The server is told of it.' 'wanted, requested or given'
refused src/a.h '// widened to float32' dequantise
refused src/a.h '// Somebody frees it' 'no one'
refused docs/a.md 'A folder includes from its own floor.' 'layers and folders'
refused src/a.h 'int rows = 0;  ///< of a step' 'Subject, verb, unit'
refused src/a.h 'kBody,  ///< In a body' 'Subject, verb, unit'

mkdir -p src/app src/server
echo 'constexpr OptionName kNames[] = {{"context", "--context"}};' >src/app/option_names.cc
echo 'try a smaller ‹context›; --context; for (; size > 0; --size) {}' >src/app/b.cc
git add .
scripts/check_words.sh || { echo "the options of app are refused" >&2; exit 1; }
refused src/server/a.cc 'fail("try a smaller --context, or fewer");' 'instead of the option'
refused src/server/a.cc 'fail("try a smaller ‹chunk›");' 'no option for ‹chunk›'

# A comment that goes on in the next line may.
printf 'int rows = 0;  ///< limit of a step\n               ///< of a server\n' >src/b.h
git add .
scripts/check_words.sh || { echo "sound comments are refused" >&2; exit 1; }
refused src/ops/b.h 'int pages = 0;  ///< by sequence' 'Subject, verb, unit'
