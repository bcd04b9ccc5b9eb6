#!/usr/bin/env python3
"""compare_simulation.py --device PROFILE.json [--engine-device cpu] [--out RESULTS.jsonl] SETTING...

Runs `baleen bench` and `baleen simulate` on the same work and prints predicted against measured, operation by operation.
A setting is MODEL:PROMPT:SEQUENCES:AT[:LAYERS], e.g. bench-1b:700:1:0 (a prompt of 700 tokens in one step) or
flash:0:64:4096:8 (decoding of 64 sequences behind 4096 positions, the first 8 layers). MODEL is a preset or a folder.
Without settings: those of the CPU. Operations below --least-share of a phase are listed but not part of the median.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

CPU_SETTINGS = ["bench-1b:300:1:0", "bench-1b:700:1:0", "bench-1b:0:1:1000", "bench-1b:0:3:1000", "bench-1b:0:12:1000",
                "bench-1b:0:48:1000", "bench-1b:0:1:5000", "bench-1b:0:3:5000", "bench-1b:0:12:5000", "bench-1b:0:48:5000",
                "models/stories:300:1:0", "models/stories:0:1:200", "models/stories:0:12:200",
                "tiny-real-heads:300:1:1000", "tiny-real-heads:0:3:1000"]
DECODE_STEPS = 32
WARM_UP_TOKENS = 2  # of `baleen bench`, before what it measures
RATIO = 4  # compressors emit in one step of so many: a prediction is the mean of as many steps


def baleen(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(options, model, layers, prompt, sequences, at):
    """Seconds of one step: all of it, and of each operation."""
    source = ["--model", model] if os.path.isdir(model) else ["--preset", model] + (["--layers", layers] if layers else [])
    if model in options.checkpoint:
        source = ["--model", options.checkpoint[model]]
    runs = [baleen(options.program, "bench", "--json", "--device", options.engine_device, *source, "--sequences", sequences,
                   "--at", at, "--prompt", prompt, "--chunk", max(prompt, sequences, 16),
                   "--decode", 0 if prompt else DECODE_STEPS) for _ in range(options.repeat)]
    run = min(runs, key=lambda run: run["phases"][0]["seconds"])
    phase = run["phases"][-1]
    steps = 1 if prompt else phase["tokens"] / sequences
    seconds = {row["operation"]: row["seconds"] / steps for row in phase["operations"]}
    step = run["phases"][0]["seconds"] / (1 if prompt else DECODE_STEPS)
    if len(run["phases"]) > 1:
        # Looking at operations one by one costs launches that replayed steps do not have.
        calls = {row["operation"]: row["calls"] / steps for row in phase["operations"]}
        excess = max(0, sum(seconds.values()) - step) / sum(calls.values())
        seconds = {name: max(0.2 * s, s - excess * calls[name]) for name, s in seconds.items()}
    return run["machine"], step, seconds


def predicted(options, model, layers, prompt, sequences, at):
    if prompt:
        workloads = [("--query-length", prompt, "--context-length", at + WARM_UP_TOKENS)]
    else:
        middle = at + WARM_UP_TOKENS + DECODE_STEPS // 2
        workloads = [("--decode", "--context-length", middle + i) for i in range(RATIO)]
    step, seconds = 0, {}
    for workload in workloads:
        estimate = baleen(options.program, "simulate", model, "--device", options.device, "--json", "--num-devices", 1,
                          "--num-queries", sequences, *workload, *(["--layers", layers] if layers else []))
        step += estimate["step_seconds"] / len(workloads)
        for row in estimate["operations"]:
            seconds[row["name"]] = seconds.get(row["name"], 0) + row["seconds"] / len(workloads)
    return step, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", required=True, help="profile that predicts")
    parser.add_argument("--engine-device", default="cpu", help="what `baleen bench` runs on")
    parser.add_argument("--program", default="build/release/src/app/baleen")
    parser.add_argument("--checkpoint", action="append", default=[], metavar="PRESET=FOLDER",
                        help="measure a preset by this checkpoint of it, which is as large in memory as it says")
    parser.add_argument("--repeat", type=int, default=1, help="benchmarks of a setting, of which the quickest, the least disturbed, is taken")
    parser.add_argument("--least-share", type=float, default=0.005)
    parser.add_argument("--out", help="append a JSON line a setting")
    parser.add_argument("settings", nargs="*", default=CPU_SETTINGS)
    options = parser.parse_args()
    options.checkpoint = dict(pair.split("=", 1) for pair in options.checkpoint)
    errors, all_errors, step_errors = [], [], []
    for setting in options.settings:
        model, prompt, sequences, at, *layers = setting.split(":")
        arguments = (options, model, layers[0] if layers else None, int(prompt), int(sequences), int(at))
        machine, step, seconds = measured(*arguments)
        predicted_step, predicted_seconds = predicted(*arguments)
        error = predicted_step / step - 1
        step_errors.append(abs(error))
        print(f"\n{setting}: measured {1e3 * step:.3f} ms, predicted {1e3 * predicted_step:.3f} ms, {100 * error:+.1f} %")
        rows = []
        for name, took in sorted(seconds.items(), key=lambda item: -item[1]):
            guess = predicted_seconds.get(name, 0)
            counts = took >= options.least_share * step
            all_errors.append(abs(guess / took - 1))
            if counts:
                errors.append(abs(guess / took - 1))
            rows.append({"operation": name, "measured": took, "predicted": guess})
            print(f"  {name:<24}{1e6 * took:>12.1f} us {1e6 * guess:>12.1f} us {100 * (guess / took - 1):>+8.1f} %"
                  f"{'' if counts else '  (small)'}")
        if options.out:
            with open(options.out, "a") as file:
                print(json.dumps({"setting": setting, "machine": machine, "device": options.device,
                                  "date": datetime.date.today().isoformat(), "error": error,
                                  "measured": step, "predicted": predicted_step, "operations": rows}), file=file)
    print(f"\noperations: median error {100 * statistics.median(errors):.1f} % over {len(errors)} rows "
          f"({100 * statistics.median(all_errors):.1f} % over all {len(all_errors)}, small ones included)")
    print(f"steps: median error {100 * statistics.median(step_errors):.1f} %, largest {100 * max(step_errors):.1f} %")


main()
