#!/usr/bin/env python3
"""print_bench.py FILE.jsonl: what record_bench.sh recorded, a line for each phase of each run; of a program up
to 0.1 too, which named the limits read_bytes_per_second and fma_flops_per_second on every machine."""
import json
import sys


def limit(run, name, older_name):
    return run[name] if name in run else run[older_name]


def main(path):
    print(f"{'run':48} {'phase':18} {'tokens/s':>9} {'GB/s':>6} {'GFLOP/s':>8} {'of memory':>9} {'of peak':>7}")
    with open(path, encoding="utf-8") as file:
        for run in map(json.loads, file):
            memory = limit(run, "memory_bytes_per_second", "read_bytes_per_second")
            peak = limit(run, "peak_flops_per_second", "fma_flops_per_second")
            for phase in run["phases"]:
                operations = phase["operations"]
                seconds = sum(one["seconds"] for one in operations)
                moved = sum(one["bytes"] for one in operations) / seconds
                flops = sum(one["flops"] for one in operations) / seconds
                print(f"{run['label']:48} {phase['phase']:18} {phase['tokens'] / phase['seconds']:9.1f} "
                      f"{moved / 1e9:6.1f} {flops / 1e9:8.1f} {moved / memory:9.0%} {flops / peak:7.0%}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
