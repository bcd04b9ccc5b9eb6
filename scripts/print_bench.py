#!/usr/bin/env python3
"""print_bench.py FILE.jsonl: what record_bench.sh recorded, a line for each phase of each run."""
import json
import sys


def main(path):
    print(f"{'run':48} {'phase':18} {'tokens/s':>9} {'GB/s':>6} {'GFLOP/s':>8} {'of reads':>9} {'of FMA':>7}")
    with open(path, encoding="utf-8") as file:
        for run in map(json.loads, file):
            for phase in run["phases"]:
                operations = phase["operations"]
                seconds = sum(one["seconds"] for one in operations)
                read = sum(one["bytes"] for one in operations) / seconds
                flops = sum(one["flops"] for one in operations) / seconds
                print(f"{run['label']:48} {phase['phase']:18} {phase['tokens'] / phase['seconds']:9.1f} "
                      f"{read / 1e9:6.1f} {flops / 1e9:8.1f} {read / run['read_bytes_per_second']:9.0%} "
                      f"{flops / run['fma_flops_per_second']:7.0%}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
