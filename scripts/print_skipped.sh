#!/usr/bin/env bash
# print_skipped.sh RESULTS: how many tests a run of ctest left out and why, a line a reason, from its JUnit
# file: whole programs, and cases within programs that ran. Nothing where nothing was skipped.
set -euo pipefail
results=${1:?"which JUnit file?"}

perl -0777 -ne '
  my (%num_tests, %num_cases);
  while (/<testcase ([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs) {
    my $rest = $1 . ">" . ($2 // "");
    s/&quot;/"/g, s/&lt;/</g, s/&gt;/>/g, s/&apos;/\x27/g, s/&amp;/&/g for $rest;
    # GoogleTest: "FILE:LINE: Skipped", then the reason. Scripts: "skipped: REASON". Node: "# SKIP REASON".
    my @reasons = $rest =~ /: Skipped\n(?:[ \t]*)([^\n]+)/g;
    push @reasons, $rest =~ /(?:^|>)skipped: ([^\n<]+)/mg, $rest =~ /# SKIP ([^\n]+)/g;
    if ($rest =~ /status="disabled"/) {
      ++$num_tests{"disabled in this build"};
    } elsif ($rest =~ /<skipped/) {
      my ($why) = (@reasons, "no reason given");
      ++$num_tests{$why};
    } else {
      ++$num_cases{$_} for @reasons;
    }
  }
  my $list = sub { my ($what, $counts) = @_;
    printf "%6d %s skipped: %s\n", $counts->{$_}, $counts->{$_} == 1 ? $what : $what . "s", $_
      for sort { $counts->{$b} <=> $counts->{$a} || $a cmp $b } keys %$counts };
  $list->("test", \%num_tests);
  $list->("case", \%num_cases);
' "$results"
