#!/usr/bin/env bash
# test_gpu.sh [--programs FILE.tar.xz] PART...: what a machine with a GPU that has kernels can prove. Writes
# logs and results to $OUT (default: build/gpu_results). Parts:
#   kernels   every kernel against its reference
#   models    whole models against the CPU; the engine's tests on the GPU
#   commands  perplexity, logits and chat with --device cuda against the CPU
#   places    a bench-1b's logits wherever its experts lie, to the bit
#   serve     a server on loopback: replies over HTTP, alone, streamed and many at a time
#   sanitize  the kernels' tests under compute-sanitizer's four tools (minutes for some; $SANITIZE_PROGRAMS and
#             $SANITIZE_FILTER pick programs and cases)
#   bench     every kernel's benchmark, as one CSV with machine, clocks and revision
#   calibrate a profile of this machine, $PROFILE.json (h200-baleen), its predictions against benchmarks
#   ranks     ranks on all GPUs of the machine, on one GPU several: collectives, dispatch and combine, whole
#             models, engines, commands; what messages take, a token of $RANKS_MODEL (flash 0 4096 64: preset,
#             layers or 0 for all, context, steps)
#   correct   of `ranks` what needs no clock, against fewer ranks; first of what follows
#   rows      the rows of bench/rows.json for as many GPUs as there are, messages first, beside what was
#             predicted (bench/results/predicted-h200-xN.jsonl). $ROWS: ids, separated by commas; otherwise
#             all. It ends after $ROWS_SECONDS (480); called again with the same $OUT it goes on
#   closed    all of Flash on all GPUs: requests of 8,192 + 1,024 tokens, $CLIENTS (64 128) at a time
#   timeline  what each kernel adds to a token of $TIMELINE (tp-inner flash 12 4096 64: decode_ranks_bench's
#             plan, preset, layers, context, steps)
#   drafts    what drafts of V4-Flash-0731 cost and bring, from two numbers of layers ($DRAFT_LAYERS, 6,16)
#   layers    Flash geometry cut to $LAYERS layers (36 fit an H200): decode and prefill, operation by operation
#   first-start  how long a start takes while the driver compiles the module of $ARCH, and the next one
# $ARCH (sm90) is the architecture whose kernels `kernels`, `models`, `commands`, `places`, `serve` and
# `sanitize` test, $CARD (none) a card whose traits are imposed there, as rtx-3090.
# Exits with 1 when a test failed. Without --programs it takes the programs of build/release.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
programs=""
if [[ ${1-} == --programs ]]; then
  programs=$(mktemp -d)
  tar -C "$programs" -xf "${2:?"--programs needs the archive of scripts/pack_gpu_programs.sh"}"
  export LD_LIBRARY_PATH=$programs/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  shift 2
fi
[[ $# -gt 0 ]] || { sed -n '2,28s/^# \{0,1\}//p' "$0"; exit 2; }
out=${OUT:-build/gpu_results}
mkdir -p "$out"
out=$(realpath "$out")
failed=0

program() {  # program NAME: where it is
  if [[ -n $programs ]]; then echo "$programs/$1"; else find build/release -type f -name "$1" -perm -u+x | head -n 1; fi
}
names() {  # names PATTERN: of all programs like it
  if [[ -n $programs ]]; then find "$programs" -maxdepth 1 -name "$1"; else find build/release -type f -name "$1" -perm -u+x; fi |
    sed 's|.*/||' | sort
}
check() {  # check LABEL COMMAND...: one line of verdict, the output in a log
  local label=$1 start=$SECONDS
  shift
  if timeout -k 5 "${LIMIT:-120}" "$@" >>"$out/tests.log" 2>&1; then
    echo "passed  $label ($((SECONDS - start)) s)"
  else
    echo "FAILED  $label ($((SECONDS - start)) s)"
    failed=1
    return 1
  fi
}

kernels() {
  for name in $(names "*_${ARCH:-sm90}_*test"); do check "$name" "$(program "$name")" --gtest_brief=1; done
}

[[ -z ${ARCH-} ]] || export BALEEN_TEST_ARCH=$ARCH
[[ -z ${CARD-} ]] || export BALEEN_TEST_CARD=$CARD
use_options() { echo ${ARCH:+--arch "$ARCH"} ${CARD:+--as-card "$CARD"}; }

models() {
  for name in $(names 'device_cuda_*_test'); do
    # With another architecture what one GPU does: the rest names Hopper's kernels.
    [[ -z ${ARCH-} || $name == device_cuda_model_test || $name == device_cuda_offload_test ]] || continue
    check "$name" "$(program "$name")" --gtest_output="xml:$out/$name.xml"
  done
  # The GPU computes in released precision alone; reference kernels and threads are the CPU's.
  export BALEEN_TEST_DEVICE=cuda RC_PARAMS=max_success=10
  local others='*exact*:*bf16*:*Exact*:*Bf16*'
  LIMIT=300 check engine "$(program engine_tests)" --gtest_brief=1 \
    --gtest_filter="-$others:AgentSession.*:ReferenceKernels.*:SequenceTable*:MemoryPlan.*:EngineLimits.*"
  check generation "$(program generation_tests)" --gtest_brief=1 --gtest_filter='Generate.*'
  check stories "$(program forward_tests)" --gtest_brief=1 --gtest_filter="Stories.*-$others"
}

device_program() {  # device_program commands|places|serve
  # shellcheck disable=SC2046 # options are words
  check "$1" python3 "$root/scripts/check_device_program.py" "$(program baleen)" cuda "$1" $(use_options)
}
commands() { device_program commands; }
places() { LIMIT=300 device_program places; }
serve() { device_program serve; }

first_start() {
  local start try
  export CUDA_CACHE_PATH=$out/compile_cache
  rm -rf "$CUDA_CACHE_PATH"
  for try in first second eager; do
    [[ $try != eager ]] || { rm -rf "$CUDA_CACHE_PATH"; export CUDA_MODULE_LOADING=EAGER; }
    start=$(date +%s%N)
    # shellcheck disable=SC2046 # options are words
    timeout -k 5 "${LIMIT:-120}" "$(program baleen)" run --device cuda $(use_options) \
      --model "$root/models/stories" "Once upon a time" -n 32 >>"$out/first_start.log" 2>&1 || failed=1
    echo "$try start: $((($(date +%s%N) - start) / 1000000)) ms," \
      "$(du -sb "$CUDA_CACHE_PATH" 2>/dev/null | cut -f1) bytes kept"
  done | tee "$out/first_start.txt"
  unset CUDA_CACHE_PATH CUDA_MODULE_LOADING
}

sanitize() {
  local name tool job
  for name in ${SANITIZE_PROGRAMS:-$(names "*_${ARCH:-sm90}_*test")}; do
    for tool in memcheck racecheck synccheck initcheck; do  # side by side: most of their time is the host's
      LIMIT=${LIMIT:-300} check "$tool $name" compute-sanitizer --tool "$tool" --error-exitcode 1 "$(program "$name")" \
        --gtest_brief=1 --gtest_filter="${SANITIZE_FILTER:-*}" &
    done
    for job in $(jobs -p); do wait "$job" || failed=1; done
  done
}

kernel_rows() {  # kernel_rows MACHINE PROGRAM...: what the benchmarks print as one CSV
  local machine=$1 name revision
  shift
  revision=${REVISION:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
  echo "kernel,shape,median_us,spread_us,gb_per_s,tflop_per_s,against,machine,revision,date"
  for name in "$@"; do
    timeout -k 5 "${LIMIT:-120}" "$(program "$name")" 2>>"$out/bench.log" |
      grep -E '^[^,]+(,[^,]*){6}$' | sed "s/\$/,$machine,$revision,$(date -u +%F)/"
  done
}

bench() {
  local gpu
  gpu=$(nvidia-smi --query-gpu=name,clocks.max.sm,clocks.max.mem --format=csv,noheader | tr -d ' ' | tr , ';')
  # shellcheck disable=SC2046 # names are words
  kernel_rows "$gpu" $(names '*sm90_*bench') >"$out/kernels.csv"
  cut -d, -f1-7 "$out/kernels.csv"
}

layers() {
  local baleen
  baleen=$(program baleen)
  for sequences in 1 64; do
    "$baleen" bench --device cuda --preset flash --layers "${LAYERS:-30}" --sequences "$sequences" --at 4096 --prompt 0 \
      --decode 32 --chunk 512 --json >>"$out/layers.jsonl" 2>>"$out/bench.log" || failed=1
  done
  "$baleen" bench --device cuda --preset flash --layers "${LAYERS:-30}" --prompt 8192 --decode 0 --chunk 8192 --json \
    >>"$out/layers.jsonl" 2>>"$out/bench.log" || failed=1
  python3 "$root/scripts/print_layers.py" "$out/layers.jsonl"
}

drafts() {
  python3 "$root/scripts/bench_drafts.py" "$(program baleen)" --layers "${DRAFT_LAYERS:-6,16}" |
    tee -a "$out/drafts.jsonl" || failed=1
}

num_gpus() { nvidia-smi -L | wc -l; }
gpu_list() { seq -s , 0 $(($(num_gpus) - 1)); }

correct() {
  check collectives "$(program "ops_${ARCH:-sm90}_collectives_test")" --gtest_brief=1
  check fused_experts "$(program ops_sm90_fused_experts_test)" --gtest_brief=1
  LIMIT=300 check models_over_ranks "$(program device_cuda_ranks_test)" --gtest_brief=1
  BALEEN_TEST_DEVICE=cuda:0 LIMIT=400 check engines_over_ranks \
    "$(program rank_engine_tests)" --gtest_brief=1 \
    --gtest_filter='RankEngine.*:RanksAhead.*:MovingExperts.*:PrefillGroups.*'
  check engines_as_processes "$(program device_cuda_processes_test)" --gtest_brief=1
  LIMIT=400 check commands_over_ranks python3 "$root/scripts/check_gpu_ranks.py" "$(program baleen)"
  grep -h 'logits of\|the same' "$out/tests.log" || true
}

rows() {
  local count baleen kept
  count=$(num_gpus)
  baleen=$(program baleen)
  kept=$root/bench/results/predicted-h200-x$count.jsonl
  if [[ $count -gt 1 && ! -s $out/ranks-h200-x$count.csv ]]; then
    kernel_rows "${count}x$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr -d ' ')" \
      sm90_ranks_bench >"$out/ranks-h200-x$count.csv"
  fi
  python3 "$root/scripts/measure_rows.py" --program "$baleen" --num-devices "$count" \
    --out "$out/rows-h200-x$count.jsonl" ${ROWS:+--rows "$ROWS"} --seconds "${ROWS_SECONDS:-480}" \
    --limit "${LIMIT:-300}" || failed=1
  if [[ -s $kept ]]; then
    python3 "$root/scripts/predict_rows.py" --num-devices "$count" --kept "$kept" --results "$out" |
      tee "$out/rows.txt"
  else
    echo "no predictions were made for $count GPUs: scripts/predict_rows.py makes them"
  fi
}

ranks() {
  correct
  local plan model
  read -ra model <<<"${RANKS_MODEL:-flash 0 4096 64}"
  {
    timeout -k 5 "${LIMIT:-120}" "$(program sm90_ranks_bench)"
    for plan in ${RANKS_PLANS:-tp}; do
      timeout -k 5 400 "$(program decode_ranks_bench)" "$plan" "${model[@]}"
    done
    [[ $(num_gpus) -eq 1 ]] || timeout -k 5 120 "$(program overlap_ranks_bench)"
  } 2>>"$out/bench.log" | tee "$out/ranks.csv"
  local options
  for options in "--prompt 0 --at 4096 --decode 64" "--prompt 8192 --decode 0 --chunk 8192"; do
    # shellcheck disable=SC2086 # options are words
    timeout -k 5 300 "$(program baleen)" bench --preset flash --devices "$(gpu_list)" --context 16384 \
      $options --json >>"$out/ranks.jsonl" 2>>"$out/bench.log" || failed=1
  done
  cat "$out/ranks.jsonl"
}

closed() {
  local clients
  for clients in ${CLIENTS:-64 128}; do
    timeout -k 5 300 "$(program baleen)" bench --preset flash --devices "$(gpu_list)" --dp "$(num_gpus)" \
      --chunk 8192 --prompt 8192 --decode 1024 --clients "$clients" --requests $((2 * clients)) --json \
      >>"$out/closed.jsonl" 2>>"$out/bench.log" || failed=1
  done
  cat "$out/closed.jsonl"
}

timeline() {
  local step
  read -ra step <<<"${TIMELINE:-tp-inner flash 12 4096 64}"
  CUDA_INJECTION64_PATH=$(program libkernel_timeline.so) KERNEL_TIMELINE=$out/timeline.csv \
    timeout -k 5 "${LIMIT:-120}" "$(program decode_ranks_bench)" "${step[@]}" 2>>"$out/bench.log" || failed=1
  python3 "$root/scripts/print_timeline.py" "$out/timeline.csv" | tee "$out/timeline.txt" || failed=1
}

calibrate() {
  local baleen profile=$out/${PROFILE:-h200-baleen}.json
  baleen=$(program baleen)
  "$baleen" calibrate --device cuda --name "${PROFILE:-h200-baleen}" --output "$profile" 2>>"$out/bench.log" || failed=1
  python3 "$root/scripts/compare_simulation.py" --program "$baleen" --engine-device cuda --device "$profile" \
    --out "$out/simulated.jsonl" flash:0:1:4096:8 flash:0:64:4096:8 flash:8192:1:0:8 | tee "$out/simulated.txt"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,memory.used --format=csv | tee "$out/gpu.csv"
for part in "$@"; do
  case $part in
    kernels | models | commands | places | serve | sanitize | bench | calibrate) "$part" ;;
    first-start) first_start ;;
    ranks | correct | rows | closed | timeline | layers | drafts) "$part" ;;
    *) echo "test_gpu.sh: no part '$part'" >&2; exit 2 ;;
  esac
done
exit "$failed"
