#!/usr/bin/env bash
# print_results.sh RESULTS: of a run of ctest, from its JUnit file, how many tests passed, failed and were
# skipped; then why they were left out, a line a reason: whole programs, and cases within programs that ran.
# What was left out because something "is not installed" counts as failed, and the exit status is 1: the tests
# say that of packages which scripts/install_packages.sh --test installs.
set -euo pipefail
results=${1:?"which JUnit file?"}

perl -0777 -ne '
  my ($passed, $failed, $skipped, %num_tests, %num_cases) = (0, 0, 0);
  my $missing = qr/ is not installed$/;
  while (/<testcase ([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs) {
    my $rest = $1 . ">" . ($2 // "");
    s/&quot;/"/g, s/&lt;/</g, s/&gt;/>/g, s/&apos;/\x27/g, s/&amp;/&/g for $rest;
    # GoogleTest: "FILE:LINE: Skipped", then the reason. Scripts: "skipped: REASON". Node: "# SKIP REASON".
    my @reasons = $rest =~ /: Skipped\n(?:[ \t]*)([^\n]+)/g;
    push @reasons, $rest =~ /(?:^|>)skipped: ([^\n<]+)/mg, $rest =~ /# SKIP ([^\n]+)/g;
    my $left_out = $rest =~ /status="disabled"/ || $rest =~ /<skipped/;
    @reasons = ($rest =~ /status="disabled"/ ? "disabled in this build" : $reasons[0] // "no reason given")
      if $left_out;
    ++($left_out ? \%num_tests : \%num_cases)->{$_} for @reasons;
    ++(($rest =~ /status="fail"/ || grep { /$missing/ } @reasons) ? $failed : $left_out ? $skipped : $passed);
  }
  print "$passed passed, $failed failed, $skipped skipped\n";
  my $status = 0;
  my $list = sub { my ($what, $counts) = @_;
    for (sort { $counts->{$b} <=> $counts->{$a} || $a cmp $b } keys %$counts) {
      my $wrong = /$missing/;
      printf "%6d %s %s: %s%s\n", $counts->{$_}, $counts->{$_} == 1 ? $what : $what . "s",
        $wrong ? "failed" : "skipped", $_, $wrong ? "; scripts/install_packages.sh --test installs it" : "";
      $status = 1 if $wrong;
    } };
  $list->("test", \%num_tests);
  $list->("case", \%num_cases);
  exit $status;
' "$results"
