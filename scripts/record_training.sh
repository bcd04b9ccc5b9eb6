#!/usr/bin/env bash
# record_training.sh RUN...: trains on the stories what docs/training.md shows, each run in runs/RUN, all at
# once; run again, it continues. Logs go to bench/results/training/RUN, for baleen train --report. Runs:
#   stories-cpu   configs/stories-cpu.toml as it is
#   muon          the same in 300 steps, the indexers' loss and the balance loss left out; the ones below
#                 differ from it in one thing each
#   adamw         AdamW for the matrices
#   adamw-slow    AdamW with a third of the learning rate
#   no-balance    routing biases stay zero
#   no-mtp        no multi-token prediction
#   plain         one residual stream instead of mHC
#   qat           quantisation-aware from step 100 on
#   tool-calls-grpo  configs/tool-calls-grpo.toml: the bundled model learns to call tools
#   tool-specialist  its file: after stories-cpu; the model of that run learns nothing but to call tools
#   two-specialists  its file: after both; one student of the two
# $THREADS and $CONCURRENT micro-batches are for each run (default: all cores, and the file's), $LIMIT ends
# them after so many seconds with a checkpoint, $BALEEN is the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -gt 0 ]] || { sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 2; }
baleen=${BALEEN:-build/release/src/app/baleen}
[[ -x $baleen ]] || scripts/build.sh release baleen

if [[ ! -d runs/stories-data ]]; then
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  python3 configs/stories/generate.py --count 2000 --seed 2 >"$made/valid.jsonl"
  python3 configs/stories/generate.py --count 100000 --seed 1 --avoid "$made/valid.jsonl" >"$made/train.jsonl"
  "$baleen" data pack "$made/train.jsonl" --held-out-file "$made/valid.jsonl" --out runs/stories-data
fi

if [[ ! -e runs/tool-prompts.jsonl ]]; then
  python3 configs/tool-calls/prompts.py --count 64 --seed 1 >runs/tool-prompts.jsonl
fi

if [[ $* == *specialist* && ! -d runs/tool-chats ]]; then
  python3 configs/tool-calls/prompts.py --count 6000 --seed 2 --answered >runs/chats.jsonl
  "$baleen" data pack runs/chats.jsonl --tokenizer models/stories --held-out 0.02 --out runs/tool-chats
  python3 configs/two-specialists/prompts.py --count 400 --seed 5 >runs/two-prompts.jsonl
fi

# Commands of sed, a line each: what follows on a line of a\ would be its text.
short='s/^steps = .*/steps = 300/
s/^decay_steps = .*/decay_steps = 150/
s/^warmup_steps = 20/warmup_steps = 0/
s/^bias_speed.*/&\nsequence_loss_weight = 0/
$a [loss]\nindexer_weight = 0'
difference() {  # difference RUN: the sed script that makes its file from that of configs/
  case $1 in stories-cpu | tool-* | two-*) return ;; esac
  echo "$short"
  case $1 in
    muon) ;;
    adamw) echo 's/"muon"/"adamw"/' ;;
    adamw-slow) echo 's/"muon"/"adamw"/; s/^learning_rate = .*/learning_rate = 1.3e-3/' ;;
    no-balance) echo 's/^bias_speed = [^\n]*/bias_speed = 0/' ;;
    no-mtp) echo 's/^\[data\]/num_nextn_predict_layers = 0\n&/' ;;
    plain) echo '$a [ablation]\nplain_residual = true' ;;
    qat) echo '$a [qat]\nstart_step = 100' ;;
    *) echo "no run is named $1" >&2; return 2 ;;
  esac
}

threads=()
if [[ -n ${THREADS-} ]]; then threads=(--threads "$THREADS"); fi
if [[ -n ${CONCURRENT-} ]]; then threads+=(--concurrent "$CONCURRENT"); fi
running=()
for run in "$@"; do
  config=runs/$run.toml
  changes=$(difference "$run")
  base=stories-cpu options=("${threads[@]}")
  case $run in
    tool-calls-grpo) base=$run options+=(--from models/stories) ;;
    *-specialist*) base=$run options+=(--from runs/stories-cpu/model) ;;
  esac
  sed -e "s|\.\./runs/||g; s|$base\"|$run\"|" -e "$changes" "configs/$base.toml" >"$config"
  if compgen -G "runs/$run/step-*" >/dev/null; then options+=(--resume); fi
  timeout -s INT "${LIMIT:-0}" "$baleen" train "$config" "${options[@]}" \
    >"runs/$run.out" 2>&1 </dev/null &
  running+=($!)
done
failed=0
for process in "${running[@]}"; do wait "$process" || failed=1; done
for run in "$@"; do
  echo "$run: $(tail -n 1 "runs/$run.out")"
  mkdir -p "bench/results/training/$run"
  cp "runs/$run/log.jsonl" "bench/results/training/$run"
done
exit "$failed"
