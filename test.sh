#!/usr/bin/env bash
# test.sh [--preset NAME] [ctest options]: installs what is missing, builds everything, runs every test.
#   ./test.sh --preset dev            the sanitizer build
#   ./test.sh --preset sanitized      sanitizers: the tests of untrusted input
#   ./test.sh --preset cpu            without CUDA: the tests whose program differs then
#   ./test.sh -R tokenizer            only the tests of that name
set -euo pipefail
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

preset=release
if [[ ${1-} == --preset ]]; then
  preset=${2:?"--preset needs a name: release, cpu, sanitized, dev or tsan"}
  shift 2
fi
targets=()
case $preset in
  cpu) targets=(variant_tests) ;;
  sanitized) targets=(untrusted_input_tests) ;;
esac

"$root/scripts/install_packages.sh" --test
"$root/scripts/install_npm.sh" web tests/web tests/clients
"$root/scripts/build.sh" "$preset" "${targets[@]}"

cd "$root"
results=$root/build/$preset/test_results.xml
rm -f "$results"
status=0
# The output of tests that pass is kept in whole, since it says what they skipped.
ctest --preset "$preset" --parallel 2 --no-tests=error --test-output-size-passed 1000000 \
  --output-junit "$results" "$@" || status=$?

if [[ -e $results ]]; then "$root/scripts/print_results.sh" "$results" || status=1; fi
exit "$status"
