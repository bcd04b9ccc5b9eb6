#!/usr/bin/env bash
# bench_experts_on_host.sh BALEEN OUT.jsonl: Flash with made-up weights on one H200, experts that do not fit
# in the host's memory.
# Rows: tokens choose experts evenly and by Zipf's law, with as many experts on the host as have to be and
# with 14% of them;
# batch 1 at 4,096 positions, and a prompt of 8,192 tokens in one step. About 40 s a row, most of it loading.
set -uo pipefail
baleen=$1
out=$2
: >"$out"
row() {  # row NAME OPTION...
  local name=$1 line
  shift
  if line=$("$baleen" bench --device cuda --preset flash --json "$@" 2>>"$out.log"); then
    printf '{"row":"%s",%s\n' "$name" "${line#\{}" >>"$out"
    python3 -c '
import json, sys
row = json.loads(sys.argv[1]); phase = row["phases"][0]
print("%s: %d experts on the host, %s: %.2f ms a step (median), %.1f tokens/s" %
      (sys.argv[2], row["host_experts"], phase["phase"], 1e3 * phase["median_step_seconds"],
       phase["tokens"] / phase["seconds"]))' "$line" "$name"
  else
    echo "$name: failed, see $out.log"
    return 1
  fi
}
decode=(--at 4096 --prompt 0 --chunk 512)
prompt=(--prompt 8192 --decode 0 --chunk 8192)
share=(--gpu-weights-bytes 136600MB)
row "even, decode" --zipf 0 "${decode[@]}" --decode 128
row "Zipf 1.0, decode" --zipf 1 "${decode[@]}" --decode 256 --warm-up 1200
row "even, 14%, decode" --zipf 0 "${decode[@]}" --decode 128 "${share[@]}"
row "Zipf 1.0, 14%, decode" --zipf 1 "${decode[@]}" --decode 256 --warm-up 1600 "${share[@]}"
row "even, prompt" --zipf 0 "${prompt[@]}"
row "even, 14%, prompt" --zipf 0 "${prompt[@]}" "${share[@]}"
