#!/usr/bin/env python3
"""calibrate_launches.py PROFILE.json LAYERS.jsonl [--program BALEEN]: sets a profile's `graph_overlap_seconds`, by which a
captured kernel begins before its predecessor has ended, so that a step of decoding takes what it was measured to take.

LAYERS.jsonl is what `scripts/test_gpu.sh layers` left (bench/results/layers-h200.jsonl); its step of one sequence is used.
Calibration spreads what the host does between the steps of its small models over their operations; of steps that are begun
ahead nothing of that is left, which this takes off again."""
import argparse
import json
import subprocess
import sys

AHEAD = 16  # positions behind the first step: the middle of the 32 that are measured


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("layers")
    parser.add_argument("--model", default="flash", help="whose layers these are")
    parser.add_argument("--program", default="build/release/src/app/baleen")
    options = parser.parse_args()
    with open(options.layers) as file:
        runs = [json.loads(line) for line in file]
    run = next((run for run in runs if run["phases"][0]["phase"].startswith("decode at")
                and run["phases"][0]["tokens"] == 32), None)
    if run is None:
        sys.exit(f"{options.layers}: no run that decodes one sequence in 32 steps")
    with open(options.profile) as file:
        profile = json.load(file)
    profile.pop("graph_overlap_seconds", None)
    measured = run["phases"][0]["median_step_seconds"]
    context = int(run["phases"][0]["phase"].split()[-1]) + AHEAD

    def write():
        with open(options.profile, "w") as file:
            json.dump(profile, file, indent=2)
            file.write("\n")

    def predicted():
        write()
        done = subprocess.run([options.program, "simulate", options.model, "--device", options.profile, "--layers",
                               str(run["layers"]), "--decode", "--context-length", str(context), "--json"],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["step_seconds"]

    before, low, high = predicted(), 0.0, 1e-5
    if before <= measured:
        sys.exit(f"predicted {1e3 * before:.3f} ms, measured {1e3 * measured:.3f} ms: nothing to take off")
    for _ in range(24):
        profile["graph_overlap_seconds"] = (low + high) / 2
        low, high = ((low + high) / 2, high) if predicted() > measured else (low, (low + high) / 2)
    profile["graph_overlap_seconds"] = round(high, 9)
    profile["sources"]["graph_overlap_seconds"] = (
        f"scripts/calibrate_launches.py: {options.model} of {run['layers']} layers decodes one sequence behind "
        f"{context - AHEAD} positions in {1e3 * measured:.3f} ms on {run['machine'].split(':')[0]}")
    print(f"predicted {1e3 * before:.3f} ms, then {1e3 * predicted():.3f} ms; measured {1e3 * measured:.3f} ms: "
          f"{1e6 * profile['graph_overlap_seconds']:.3f} us a kernel")


if __name__ == "__main__":
    main()
