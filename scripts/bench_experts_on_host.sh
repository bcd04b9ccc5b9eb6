#!/usr/bin/env bash
# bench_experts_on_host.sh BALEEN OUT.jsonl [PART...]: Flash with made-up weights on one H200, experts that do
# not fit in the host's memory. About 40 s a row, most of it loading. Parts (default: all):
#   alone    batch 1 at 4,096 positions; tokens choose experts evenly and by Zipf's law, with as many experts
#            on the host as have to be and with 14% of them
#   prompt   8,192 tokens in one step
#   batches  batches of $BATCHES (1 2 4 16 64) at 1,024 positions, evenly and by Zipf's law
set -uo pipefail
baleen=$1
out=$2
shift 2
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
share=(--gpu-weights-bytes 136600MB)
alone() {
  local at=(--at 4096 --prompt 0 --chunk 512)
  row "even, decode" --zipf 0 "${at[@]}" --decode 128
  row "Zipf 1.0, decode" --zipf 1 "${at[@]}" --decode 256 --warm-up 1200
  row "even, 14%, decode" --zipf 0 "${at[@]}" --decode 128 "${share[@]}"
  row "Zipf 1.0, 14%, decode" --zipf 1 "${at[@]}" --decode 256 --warm-up 1600 "${share[@]}"
}
prompt() {
  local whole=(--prompt 8192 --decode 0 --chunk 8192)
  row "even, prompt" --zipf 0 "${whole[@]}"
  row "even, 14%, prompt" --zipf 0 "${whole[@]}" "${share[@]}"
}
batches() {
  local rows at=(--at 1024 --prompt 0 --chunk 512 --decode 32)
  for rows in ${BATCHES:-1 2 4 16 64}; do
    row "even, batch $rows" --zipf 0 "${at[@]}" --sequences "$rows"
    # At most 16 experts change places in 16 steps: so many until they lie where they are used.
    row "Zipf 1.0, batch $rows" --zipf 1 "${at[@]}" --sequences "$rows" --warm-up 720
  done
}
[[ $# -gt 0 ]] || set -- alone prompt batches
for part in "$@"; do
  case $part in
    alone | prompt | batches) "$part" ;;
    *) echo "bench_experts_on_host.sh: no part '$part'" >&2; exit 2 ;;
  esac
done
