#!/usr/bin/env python3
"""print_layers.py FILE.jsonl: what `baleen bench --json` recorded, one table a phase, with the time of a layer (the head's share included)."""
import json
import sys

for line in open(sys.argv[1]):
    run = json.loads(line)
    print(run["machine"])
    for phase in run["phases"]:
        print(f'\n{phase["phase"]}: {phase["tokens"]} tokens, {phase["tokens"] / phase["seconds"]:.1f} tokens/s, '
              f'{1e3 * phase["median_step_seconds"]:.3f} ms a step'
              + (f', {1e3 * phase["median_step_seconds"] / run["layers"]:.3f} ms a layer' if "layers" in run else ""))
        rows = sorted(phase["operations"], key=lambda row: -row["seconds"]) + [phase["all"]]
        for row in rows:
            if row["seconds"] > 0 and row["calls"] > 0:
                print(f'  {row["operation"]:<24}{row["calls"]:>6} calls {1e6 * row["seconds"] / row["calls"]:>10.2f} us each '
                      f'{1e3 * row["seconds"]:>10.3f} ms {row["gb_per_second"]:>8.0f} GB/s {1e-3 * row["gflop_per_second"]:>8.1f} TFLOP/s')
    print()
