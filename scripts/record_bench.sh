#!/usr/bin/env bash
# record_bench.sh NAME: runs `baleen bench` on the bench-1b checkpoint and keeps every figure under bench/results/NAME.jsonl,
# one JSON line a run, with machine, limits measured in the same run, revision and date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:?"a name for the results, e.g. zen5-2-cores"}
model=${TMPDIR:-/tmp}/baleen-bench-1b
scripts/build.sh release baleen
baleen=build/release/src/app/baleen
[[ -e $model/config.json ]] || "$baleen" init "$model" --preset bench-1b --seed 1

record() {  # record LABEL OPTION...
  local label=$1
  shift
  "$baleen" bench --model "$model" --json "$@" |
    sed "s/^{/{\"label\":\"$label\",\"revision\":\"$(git rev-parse --short HEAD)\",\"date\":\"$(date -u +%F)\",/"
}
{
  for isa in best AVX2; do
    record "prefill 512, decode at 513, $isa" --prompt 512 --decode 64 --isa "$isa"
    record "decode at 4,096, $isa" --prompt 0 --decode 64 --at 4096 --isa "$isa"
  done
  record "decode at 1,000" --prompt 0 --decode 64 --at 1000
  record "decode at 100,000" --prompt 0 --decode 64 --at 100000
} >"bench/results/$name.jsonl"
