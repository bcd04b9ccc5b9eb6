#!/usr/bin/env bash
# record_bench.sh NAME: runs `baleen bench` on the bench-1b checkpoint and the bundled model and keeps every
# figure under bench/results/NAME.jsonl, one JSON line a run, with machine, limits measured in the same run,
# revision and date. Prints each phase with its tokens a second and its shares of those limits. $THREADS: 0,
# all, unless set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:?"a name for the results, e.g. zen5-2-cores"}
bench_1b=${TMPDIR:-/tmp}/baleen-bench-1b
results=bench/results/$name.jsonl
revision=$(git rev-parse --short HEAD)
scripts/build.sh release baleen
baleen=build/release/src/app/baleen
[[ -e $bench_1b/config.json ]] || "$baleen" init "$bench_1b" --preset bench-1b --seed 1

record() {  # record LABEL OPTION...
  local label=$1
  shift
  "$baleen" bench --json --device cpu --threads "${THREADS:-0}" "$@" |
    sed "s/^{/{\"label\":\"$label\",\"revision\":\"$revision\",\"date\":\"$(date -u +%F)\",/"
}
{
  for isa in best AVX2; do
    record "bench-1b: prefill 512, decode at 513, $isa" --model "$bench_1b" --prompt 512 --decode 64 \
      --isa "$isa"
    record "bench-1b: decode at 4,096, $isa" --model "$bench_1b" --prompt 0 --decode 64 --at 4096 --isa "$isa"
    record "bundled: one stream, $isa" --model models/stories --prompt 128 --decode 256 --isa "$isa"
    record "bundled: 64 streams, $isa" --model models/stories --prompt 128 --decode 64 --sequences 64 \
      --isa "$isa"
    record "bench-1b: prefill 512, decode at 513, $isa, int8" --model "$bench_1b" --prompt 512 --decode 64 \
      --isa "$isa" --kernel int8
    record "bundled: one stream, $isa, int8" --model models/stories --prompt 128 --decode 256 --isa "$isa" \
      --kernel int8
    record "bundled: 64 streams, $isa, int8" --model models/stories --prompt 128 --decode 64 --sequences 64 \
      --isa "$isa" --kernel int8
  done
  for depth in 1000 32768 131072; do
    record "bench-1b: decode at $depth" --model "$bench_1b" --prompt 0 --decode 64 --at "$depth"
  done
} >"$results"
python3 scripts/print_bench.py "$results"
