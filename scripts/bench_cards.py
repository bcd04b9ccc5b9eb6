#!/usr/bin/env python3
"""bench_cards.py --program BALEEN --out FILE.jsonl [--rows ID,ID] [--seconds N]: what cards that people own will do,
measured on the GPU that is here: the row sm80 against the GPU's own row, and Flash with little GPU memory, its experts on the host.

Prints a line a row: what was measured, what it must be, what it should be, and keeps every JSON line of `baleen bench` in FILE. Rows
that FILE has already are not measured again, so a run that was cut off goes on. --cores N lets only that many cores compute.
--rehearse runs the bundled model on the CPU instead: that the commands are right, not what they take."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

LAYERS = ["--layers", "8"]
DECODE = ["--at", "4096", "--prompt", "0", "--decode", "32", "--chunk", "512"]
PREFILL = ["--prompt", "8192", "--decode", "0", "--chunk", "8192"]
# One stream of a card of 24 GB: small steps, so that the cache and activations leave the memory to weights.
STREAM = ["--at", "1024", "--prompt", "0", "--decode", "64", "--chunk", "512"]
SLOW_LINK = ["--link-gbps", "25"]


def row(name, unit, must, aim, *arguments, gpu_bytes=None, against=None, higher=True):
    return {"id": name, "unit": unit, "must": must, "aim": aim, "arguments": list(arguments), "gpu_bytes": gpu_bytes, "against": against,
            "higher": higher}


# What is run for a row, by what it is set against.
RUNS = {None: [[]],
        "arch": [["--arch", "sm90"], ["--arch", "sm80"]],
        "stated": [["--arch", "sm90"], ["--arch", "sm80", "--host-experts", "compute"]],
        "experts": [["--arch", "sm80"]]}
GB24, GB80 = "24GB", "80GB"
ROWS = [
    row("layer-1", "x sm90", 1.25, 1.05, *LAYERS, *DECODE, against="arch", higher=False),
    row("layer-64", "x sm90", 1.8, 1.4, *LAYERS, *DECODE, "--sequences", "64", against="arch", higher=False),
    row("layer-prefill", "x sm90", 2.5, 1.8, *LAYERS, *PREFILL, against="arch", higher=False),
    # The same with experts in the order that cards get whose memory does not hold all of them.
    row("layer-1-stated", "x sm90", 1.25, 1.05, *LAYERS, *DECODE, against="stated", higher=False),
    row("layer-64-stated", "x sm90", 1.8, 1.4, *LAYERS, *DECODE, "--sequences", "64", against="stated", higher=False),
    row("layer-prefill-stated", "x sm90", 2.5, 1.8, *LAYERS, *PREFILL, against="stated", higher=False),
    row("experts-1", "of copy rate", 0.65, 0.80, *LAYERS, *DECODE, against="experts"),
    row("24gb-even", "tok/s", 30, 45, *STREAM, "--zipf", "0", gpu_bytes=GB24),
    row("24gb-zipf", "tok/s", 55, 80, *STREAM, "--zipf", "1", "--warm-up", "1000", gpu_bytes=GB24),
    row("24gb-even-pcie4", "tok/s", 24, 35, *STREAM, "--zipf", "0", *SLOW_LINK, gpu_bytes=GB24),
    row("24gb-zipf-pcie4", "tok/s", 45, 65, *STREAM, "--zipf", "1", "--warm-up", "1000", *SLOW_LINK, gpu_bytes=GB24),
    row("24gb-8-streams", "tok/s", 90, 140, *STREAM, "--zipf", "0", "--sequences", "8", gpu_bytes=GB24),
    row("24gb-prompt", "tok/s", 2500, 5000, *PREFILL, "--zipf", "0", gpu_bytes=GB24),
    row("80gb-even", "tok/s", 40, 50, "--at", "4096", "--prompt", "0", "--decode", "64", "--chunk", "512", "--zipf", "0", gpu_bytes=GB80),
]
# Cards with so much memory.
CARDS = {GB24: "rtx-4090", GB80: "a100-80gb"}


def weight_bytes(options, entry):
    """What `plan` leaves to weights of such a card, beside the cache and activations of such steps."""
    said = dict(zip(entry["arguments"][::2], entry["arguments"][1::2]))
    positions = sum(int(said.get(name, "0")) for name in ("--at", "--prompt", "--decode", "--warm-up"))
    sequences = int(said.get("--sequences", "1"))
    command = [options.program, "plan", "--device", CARDS[entry["gpu_bytes"]], "--preset", "flash", "--max-batch-tokens",
               said["--chunk"], "--max-sequences", str(sequences), "--context", str(sequences * positions), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit, check=True)
    return json.loads(done.stdout)["weight_bytes"]


def bench(options, entry, *more):
    """The JSON line of a run, or a sentence why there is none."""
    arguments = list(entry["arguments"])
    if options.rehearse:
        source = ["--model", "models/stories", "--device", "cpu"]
        small = {"--at": "40", "--prompt": "48", "--decode": "6", "--chunk": "64"}
        kept = []
        for name, value in zip(arguments[::2], arguments[1::2]):
            if name in small and value != "0":
                kept += [name, small[name]]
            elif name in ("--sequences", "--prompt", "--decode"):
                kept += [name, value]
        arguments, more = kept, ()
    else:
        source = ["--preset", "flash", "--device", "cuda"]
        if entry["gpu_bytes"] and not (entry["gpu_bytes"] == GB80 and options.device_gb <= 80):
            more = (*more, "--gpu-weights-bytes", str(weight_bytes(options, entry)))
    command = [options.program, "bench", *source, *arguments, *more, "--json"]
    if options.cores:
        command = ["taskset", "-c", f"0-{options.cores - 1}", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return {"refused": f"not ready after {options.limit:.0f} s", "command": " ".join(command)}
    if done.returncode != 0:
        said = [line for line in done.stderr.strip().splitlines() if line]
        return {"refused": said[-1] if said else f"ends with {done.returncode}", "command": " ".join(command)}
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "command": " ".join(command)}


def measured_phase(line):
    return line["phases"][0]


def value_of(entry, lines):
    if any("refused" in line for line in lines):
        return None
    if entry["against"] in ("arch", "stated"):
        own, portable = (measured_phase(line)["median_step_seconds"] for line in lines)
        return portable / own
    if entry["against"] == "experts":
        share = [operation["share_of_memory_rate"] for operation in lines[0]["phases"][-1]["operations"] if operation["operation"] == "experts"]
        return share[0]
    phase = measured_phase(lines[0])
    sequences = lines[0]["sequences"]
    return phase["tokens"] / phase["seconds"] if phase["steps"] <= 1 else sequences / phase["median_step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/src/app/baleen")
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", help="ids, separated by commas; otherwise all")
    parser.add_argument("--cores", type=int, default=0, help="0: all")
    parser.add_argument("--device-gb", type=float, default=80, help="memory of the GPU that is here")
    parser.add_argument("--limit", type=float, default=240, help="seconds of one run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all rows of this call")
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    wanted = options.rows.split(",") if options.rows else [entry["id"] for entry in ROWS]
    if unknown := set(wanted) - {entry["id"] for entry in ROWS}:
        parser.error(f"--rows {','.join(sorted(unknown))}: there are {', '.join(entry['id'] for entry in ROWS)}")
    out = pathlib.Path(options.out)
    kept = {}
    if out.exists():
        for text in out.read_text().splitlines():
            line = json.loads(text)
            kept[line["id"]] = line
    begin, missed = time.monotonic(), 0
    for entry in ROWS:
        if entry["id"] not in wanted:
            continue
        if entry["id"] not in kept:
            if time.monotonic() - begin > options.seconds:
                print(f"{entry['id']:<18} left for the next call")
                continue
            kinds = RUNS[entry["against"]]
            lines = [bench(options, entry, *kind) for kind in kinds]
            kept[entry["id"]] = {"id": entry["id"], "runs": lines}
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(kept[entry["id"]]) + "\n")
        lines = kept[entry["id"]]["runs"]
        value = value_of(entry, lines)
        if value is None:
            missed += 1
            print(f"{entry['id']:<18} refused: {next(line['refused'] for line in lines if 'refused' in line)}")
            continue
        good = value >= entry["must"] if entry["higher"] else value <= entry["must"]
        missed += 0 if good else 1
        print(f"{entry['id']:<18} {value:8.2f} {entry['unit']:<13} must {entry['must']:g}, aim {entry['aim']:g}"
              f"{'' if good else '   MISSED'}   {lines[0].get('machine', '')}", flush=True)
    return 1 if missed and not options.rehearse else 0


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    sys.exit(main())
