#!/usr/bin/env bash
# scripts/print_skipped.sh counts tests and cases that were left out, by reason, from the results of ctest.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/results.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux" tests="5" failures="0" disabled="1" skipped="2">
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
	<testcase name="good" classname="good" time="0.1" status="run">
		<system-out>[  PASSED  ] 1 test.
</system-out>
	</testcase>
</testsuite>
XML
cat >"$folder/expected" <<'TEXT'
     1 test skipped: disabled in this build
     1 test skipped: groff is not installed
     1 test skipped: no GPU here
     2 cases skipped: no "/dev/ptmx"
TEXT
scripts/print_skipped.sh "$folder/results.xml" | diff "$folder/expected" -
