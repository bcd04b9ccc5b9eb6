#!/usr/bin/env bash
# tool_call_success.sh MODEL...: of 64 questions, drawn anew, the share that each model answers with the right
# call, replies sampled at a temperature of nearly zero. One step of configs/tool-calls-grpo.toml without
# learning, whose reward is that share. $BALEEN is the program.
set -euo pipefail
[[ $# -gt 0 ]] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
baleen=${BALEEN:-$root/build/release/src/app/baleen}
[[ -x $baleen ]] || "$root/scripts/build.sh" release baleen

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
python3 "$root/configs/tool-calls/prompts.py" --count 64 --seed 9 >"$made/prompts.jsonl"
sed -e "s|^folder = .*|folder = \"run\"|; s|^prompts = .*|prompts = \"prompts.jsonl\"|" \
  -e 's/^steps = .*/steps = 1/; s/^prompts_per_step = .*/prompts_per_step = 64/' \
  -e 's/^group_size = .*/group_size = 2/; s/^temperature = .*/temperature = 0.01/' \
  -e 's/^call_parses = .*/call_parses = 0.0/; s/learning_rate = .*/learning_rate = 0.0/' \
  "$root/configs/tool-calls-grpo.toml" >"$made/success.toml"
for model in "$@"; do
  rm -rf "$made/run"
  "$baleen" train "$made/success.toml" --from "$model" >"$made/out" 2>&1 || {
    tail -n 2 "$made/out" >&2
    exit 1
  }
  python3 -c 'import json, sys
step = json.loads(open(sys.argv[1]).readline())
print("{:.0f}% {}".format(100 * step["reward"], sys.argv[2]))' "$made/run/log.jsonl" "$model"
done
