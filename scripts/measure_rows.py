#!/usr/bin/env python3
"""measure_rows.py --program BALEEN --num-devices N --out FILE.jsonl [--rows ID,ID]: measures the rows of bench/rows.json
that `baleen bench` can measure on a host with N GPUs, and adds a JSON line for each to FILE.

Rows that FILE has already are left out, so a run that was cut off goes on where it was: after --seconds in all the row
under way is ended and left to the next call. A row that takes longer than --limit, or than all of --seconds, is kept as
refused, as is one that the program refuses, with its sentence.
--rehearse runs the bundled model on CPU ranks instead: that the commands are right, not what they take."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import bench_rows

# A rehearsal: values of options that would take a CPU too long.
SMALL = {"--at": 40, "--prompt": 48, "--decode": 6, "--chunk": 64, "--warm-up": 2, "--context": 4096}
SMALL_MODEL = "models/stories"  # whose 8 heads and 16 experts 8 ranks can share


def bench_arguments(row, clients, rehearse):
    text = bench_rows.filled(row["bench"], row)
    source = ["--preset", row["model"]]
    if rehearse:
        text = re.sub(r"--devices [\d,]+|--device cuda", "--device cpu", text)
        text = re.sub(r"(--[a-z-]+) (\d+)", lambda found: f"{found[1]} {min(int(found[2]), SMALL.get(found[1], 1 << 40))}", text)
        text = re.sub(r"--zipf \S+", "", text)  # of made-up weights
        source = ["--model", SMALL_MODEL]
        clients = min(clients, 2 * row["num_devices"])
    arguments = ["bench", *source, *text.split(), "--json"]
    if clients:
        arguments += ["--clients", str(clients), "--requests", str(bench_rows.num_requests(row, clients))]
    return arguments


def measure(program, row, clients, rehearse, limit):
    """The line to keep."""
    command = [program, *bench_arguments(row, clients, rehearse)]
    kept = {"id": row["id"], "clients": clients, "command": " ".join(command[1:])}
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {**kept, "refused": f"not ready after {limit:.0f} s"}
    if done.returncode != 0:
        said = [line for line in done.stderr.strip().splitlines() if line]
        return {**kept, "refused": said[-1] if said else f"ends with {done.returncode}"}
    return {**kept, "command_seconds": round(time.monotonic() - start, 1), **json.loads(done.stdout.strip().splitlines()[-1])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/src/app/baleen")
    parser.add_argument("--num-devices", type=int, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", help="ids, separated by commas; otherwise all")
    parser.add_argument("--limit", type=float, default=300, help="seconds of one row")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all rows of this call")
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    _, rows = bench_rows.load_rows(options.num_devices)
    wanted = options.rows.split(",") if options.rows else [row["id"] for row in rows]
    if unknown := set(wanted) - {row["id"] for row in rows}:
        parser.error(f"--rows {','.join(sorted(unknown))}: of {options.num_devices} GPUs there are "
                     f"{', '.join(row['id'] for row in rows)}")
    out = pathlib.Path(options.out)
    done = {(line["id"], line["clients"]) for line in bench_rows.lines_of(out)}
    begin, refused, begun = time.monotonic(), 0, 0
    for row in rows:
        for clients in row["clients"] or [0]:
            if row["kind"] == "message" or row["id"] not in wanted or (row["id"], clients) in done:
                continue
            left = options.seconds - (time.monotonic() - begin)
            limit = min(options.limit, left)
            line = measure(options.program, row, clients, options.rehearse, limit) if left > 0 else None
            begun += 1
            if line is None or (limit < options.limit and begun > 1 and "not ready" in line.get("refused", "")):
                print(f"{row['id']} {clients or ''}: left to the next call, {options.seconds:.0f} s are over")
                continue
            with open(out, "a") as file:
                print(json.dumps(line), file=file)
            if "refused" in line:
                refused += 1
                print(f"{row['id']} {clients or ''}: {line['refused']}")
            else:
                print(f"{row['id']} {clients or ''}: {bench_rows.bench_value(row, line):.4g} {row['unit']}")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
