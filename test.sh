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

# The attributes of the results' outermost element are the only numbers that ctest writes for machines.
if [[ -e $results ]]; then
  count() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$results" | head -n 1; }
  failed=$(count failures)
  left_out=$(($(count disabled) + $(count skipped)))
  echo "$(($(count tests) - failed - left_out)) passed, $failed failed, $left_out skipped"
  "$root/scripts/print_skipped.sh" "$results"
fi
exit "$status"
