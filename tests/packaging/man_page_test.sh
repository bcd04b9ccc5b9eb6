#!/usr/bin/env bash
# man_page_test.sh PROGRAM: the page that `baleen man` prints is right roff, names every command and option,
# and no folder of this machine.
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
page=$folder/baleen.1
"$program" man >"$page"

if ! command -v groff >/dev/null; then
  echo "skipped: groff is not installed"
  exit 77
fi
warnings=$(groff -man -Tascii -P-c -P-b -P-u -k -ww -rLL=100n "$page" 2>&1 >"$folder/text")
[[ -z $warnings ]] || { echo "$warnings" >&2; exit 1; }
if command -v mandoc >/dev/null; then
  # The page has no date: what it describes has a version.
  complaints=$(mandoc -T lint -W warning "$page" | grep -v 'missing date' || true)
  [[ -z $complaints ]] || { echo "$complaints" >&2; exit 1; }
fi

failed=0
for word in NAME SYNOPSIS 'EXIT STATUS' 'simulate search' \
  --num-devices --think --cache-dir PREFIX/share/baleen/models/stories; do
  grep -qF -e "$word" "$folder/text" || { echo "man_page_test.sh: the page lacks $word" >&2; failed=1; }
done
if grep -nF "$(dirname "$(readlink -f "$0")" | sed 's#/tests/packaging##')/" "$page"; then
  echo "man_page_test.sh: the page names a folder of this machine" >&2
  failed=1
fi
exit $failed
