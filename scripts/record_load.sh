#!/usr/bin/env bash
# record_load.sh NAME: the load generator against `baleen serve` with the bundled model, on the loopback, about two minutes.
# Figures go to bench/results/load-NAME.json with machine and revision.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:?"a name for this machine, e.g. zen5-2-cores"}

scripts/build.sh release baleen load_bench
folder=$(mktemp -d)
server=
finish() {
  if [[ -n $server ]]; then kill "$server" 2>/dev/null || true; fi
  rm -rf "$folder"
}
trap finish EXIT

build/release/src/app/baleen serve --model models/stories --port 0 --quiet >"$folder/out" 2>"$folder/err" &
server=$!
for _ in $(seq 100); do
  grep -q '^listening on ' "$folder/out" && break
  sleep 0.1
done
port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$folder/out")
[[ -n $port ]] || { cat "$folder/err" >&2; echo "record_load.sh: the server did not start" >&2; exit 1; }

build/release/bench/server/load_bench --port "$port" --pid "$server" --json >"$folder/load.json"
node -e '
  const [load, out, revision, cpu] = process.argv.slice(1);
  const figures = JSON.parse(require("fs").readFileSync(load));
  for (const part of Object.values(figures)) delete part.resident_bytes;
  const text = JSON.stringify({ machine: cpu, revision, ...figures }, null, 1);
  require("fs").writeFileSync(out, text + "\n");
' "$folder/load.json" "bench/results/load-$name.json" "$(git rev-parse --short HEAD)" \
  "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors"
echo "bench/results/load-$name.json"
