#!/usr/bin/env bash
# bench_experts_on_host.sh BALEEN OUT.jsonl [PART...]: Flash with made-up weights on one H200 or H100, experts
# that do not fit in the host's memory. 25 to 45 s to load for each call of bench. Parts (default: all):
#   alone    batch 1 at 4,096 positions; tokens choose experts evenly and by Zipf's law
#   more     on an H200 the same with 14% of the experts on the host
#   prompt   8,192 tokens in one step
#   batches  batches of $BATCHES (1,16,64) at 1,024 positions, evenly and by Zipf's law
#   small    24 GB of the GPU, all else on the host: one stream and 8, fetched and computed, also over a
#            link of 25 GB/s
#   bounds   12 of the layers with $BOUND_BYTES (43700MB: 5.8% of the experts on the host) of the GPU for
#            weights, batch 1: guesses that are certain, no guesses, and those of random gates
set -uo pipefail
baleen=$1
out=$2
shift 2
: >"$out"
row() {  # row NAME OPTION...: one for each number of sequences
  local name=$1 lines
  shift
  if ! lines=$("$baleen" bench --device cuda --preset flash --json --host-experts "${how:-fetch}" "$@" \
    2>>"$out.log"); then
    echo "$name: failed, see $out.log"
    return 1
  fi
  python3 - "$name" "$out" "$lines" <<'END'
import json, sys
name, out, lines = sys.argv[1:]
for line in lines.splitlines():
    row = {"row": name} | json.loads(line)
    with open(out, "a") as file:
        file.write(json.dumps(row) + "\n")
    phase = row["phases"][0]
    steps = phase["tokens"] / row["sequences"]
    print("%s, %d sequences: %d experts on the host, %s: %.2f ms a step (median), %.1f tokens/s" %
          (name, row["sequences"], row["host_experts"], phase["phase"], 1e3 * phase["median_step_seconds"],
           phase["tokens"] / phase["seconds"]))
    if "experts" in phase and phase["experts"]["gpu"] > 0:
        each = {key: count / steps for key, count in phase["experts"].items()}
        print("  a step: %.1f experts in the GPU's memory, %.1f in slots, %.1f fetched; %.1f guessed, %.1f "
              "of them right; %.0f MB ahead of the router, %.0f behind" %
              (each["gpu"], each["slot"], each["host"], each["guessed"], each["guessed_chosen"],
               1e-6 * each["bytes_ahead"], 1e-6 * each["bytes_behind"]))
END
}
alone() {
  local at=(--at 4096 --prompt 0 --chunk 512 "$@")
  row "even, decode" --zipf 0 "${at[@]}" --decode 128
  row "Zipf 1.0, decode" --zipf 1 "${at[@]}" --decode 256 --warm-up 1600
}
more() { alone --gpu-weights-bytes 136600MB; }
prompt() { row "even, prompt" --zipf 0 --prompt 8192 --decode 0 --chunk 8192; }
batches() {
  local at=(--at 1024 --prompt 0 --chunk 512 --sequences "${BATCHES:-1,16,64}")
  row "even, batches" --zipf 0 "${at[@]}" --decode 24
  # Only so many experts change places in 16 steps: so many until they lie where they are used.
  row "Zipf 1.0, batches" --zipf 1 "${at[@]}" --decode 48 --warm-up 1500
}
small() {
  local at=(--at 1024 --prompt 0 --chunk 512 --gpu-weights-bytes "${SMALL_BYTES:-22GB}")
  local how link
  for how in fetch compute; do
    for link in "" 25; do
      local over=(${link:+--link-gbps "$link"})
      row "24 GB, $how${link:+, $link GB/s}, even" --zipf 0 "${at[@]}" "${over[@]}" --sequences 1,8 \
        --decode 32
      row "24 GB, $how${link:+, $link GB/s}, Zipf 1.0" --zipf 1 "${at[@]}" "${over[@]}" --sequences 1,8 \
        --decode 32 --warm-up 600
    done
  done
}
bounds() {
  local at=(--layers 12 --at 4096 --prompt 0 --chunk 512 --decode 96
            --gpu-weights-bytes "${BOUND_BYTES:-43700MB}")
  row "12 layers, certain guesses" --zipf 0 "${at[@]}"
  row "12 layers, no guesses" --zipf 0 "${at[@]}" --no-fetch-ahead
  row "12 layers, random gates" "${at[@]}"
}
[[ $# -gt 0 ]] || set -- alone prompt batches bounds
for part in "$@"; do
  case $part in
    alone | more | prompt | batches | small | bounds) "$part" ;;
    *) echo "bench_experts_on_host.sh: no part '$part'" >&2; exit 2 ;;
  esac
done
