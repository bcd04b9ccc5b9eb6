#!/usr/bin/env bash
# scripts/print_results.sh counts tests, and by reason what was left out, from the results of ctest. What was
# left out for want of something that the scripts install is failed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/results.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux" tests="8" failures="1" disabled="1" skipped="2">
	<testcase name="cuda/ring" classname="cuda/ring" time="0.1" status="notrun">
		<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
		<system-out>[ RUN      ] Ring.hands_over
tests/cuda/ring_test.cc:12: Skipped
no GPU here

[  SKIPPED ] Ring.hands_over (0 ms)
</system-out>
	</testcase>
	<testcase name="page" classname="page" time="0.1" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out>skipped: groff is not installed
</system-out>
	</testcase>
	<testcase name="packed" classname="packed" time="0" status="disabled"/>
	<testcase name="terminal" classname="terminal" time="0.1" status="run">
		<system-out>a.cc:1: Skipped
no &quot;/dev/ptmx&quot;
a.cc:9: Skipped
no &quot;/dev/ptmx&quot;
</system-out>
	</testcase>
	<testcase name="behind_nginx" classname="behind_nginx" time="0.1" status="run">
		<system-out>ok 1 - placed by a header # SKIP nginx is not installed
ok 2 - a server that is gone # SKIP nginx is not installed
</system-out>
	</testcase>
	<testcase name="bad" classname="bad" time="0.1" status="fail">
		<failure message=""/>
		<system-out>[  FAILED  ] 1 test.
</system-out>
	</testcase>
	<testcase name="good" classname="good" time="0.1" status="run">
		<system-out>[  PASSED  ] 1 test.
</system-out>
	</testcase>
</testsuite>
XML
cat >"$folder/expected" <<'TEXT'
2 passed, 3 failed, 2 skipped
     1 test skipped: disabled in this build
     1 test failed: groff is not installed; scripts/install_packages.sh --test installs it
     1 test skipped: no GPU here
     2 cases failed: nginx is not installed; scripts/install_packages.sh --test installs it
     2 cases skipped: no "/dev/ptmx"
TEXT
status=0
scripts/print_results.sh "$folder/results.xml" >"$folder/got" || status=$?
diff "$folder/expected" "$folder/got"
[[ $status -eq 1 ]] || { echo "what is not installed should fail" >&2; exit 1; }
sed -i '/is not installed/d; /SKIP_RETURN_CODE/d' "$folder/results.xml"
scripts/print_results.sh "$folder/results.xml" >"$folder/got"
head -n 1 "$folder/got" | diff <(echo "4 passed, 1 failed, 2 skipped") -
