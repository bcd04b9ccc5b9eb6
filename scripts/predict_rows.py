#!/usr/bin/env python3
"""predict_rows.py --num-devices N [--program BALEEN] [--out FILE.jsonl]: the rows of bench/rows.json for a host with N
GPUs: what the simulator predicts, what was measured, what bounds it, what must be reached.

Without --kept the simulator is asked, and --out keeps its answers, a JSON line each; with --add those that it has
stay as they are, and rows that it has none of are added. With --kept FILE.jsonl predictions made earlier stand beside
the measured values: of --results, as measure_rows.py and sm90_ranks_bench leave them (rows-h200-xN.jsonl,
ranks-h200-xN.csv), before those in bench/results.

A row is calibrated when its own measured value is part of the profile (messages of the hosts that they were measured on),
blind when nothing of this many GPUs has been measured."""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys

import bench_rows

LEAST_SHARE = 0.1  # of a step, for what bounds it to be named


def simulate(program, *arguments):
    command = [program, "simulate", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.strip().splitlines()]


def bound_text(bounds):
    """"memory 61 %, latency 30 %": what bounds a step, the largest first."""
    whole = sum(bounds.values())
    parts = sorted(((seconds / whole, name) for name, seconds in bounds.items()), reverse=True)
    return ", ".join(f"{name} {100 * share:.0f} %" for share, name in parts if share >= LEAST_SHARE)


def step_of(program, profile, row, *arguments):
    return simulate(program, row["model"], "--device", profile, *arguments, "--json")[-1]


def predict_step(program, profile, row):
    step = step_of(program, profile, row, *bench_rows.filled(row["simulate"], row).split())
    work = step["workload"]
    tokens = work["tokens_per_step"] if work["decode"] else work["query_length"]
    memory = step["memory"][0]
    return {"predicted": bench_rows.in_unit(row, step["step_seconds"], tokens), "bound": bound_text(step["bound_seconds"]),
            "step_seconds": step["step_seconds"], "weight_bytes": memory["bytes"]["weights"],
            "host_experts": memory["host_experts"]}


def predict_closed(program, profile, row, clients):
    plan = bench_rows.filled(row["simulate"], row).split()
    groups = int(plan[plan.index("--dp") + 1])
    answer = simulate(program, "serve", row["model"], "--device", profile, *plan, "--arrival", "closed", "--clients", clients,
                      "--requests", bench_rows.num_requests(row, clients), "--isl", row["prompt"], "--osl", row["reply"],
                      "--max-sequences", -(-clients // groups), "--max-batch-tokens", row["prompt"], "--no-prefix-cache", "--json")[-1]
    # What bounds it: a prompt in each group, and a step of decoding in the middle of replies.
    steps = [word for word in plan if word != "--disaggregate"]
    if "--link-gbps" in steps:
        del steps[steps.index("--link-gbps"):steps.index("--link-gbps") + 2]
    prompt = step_of(program, profile, row, *steps, "--num-queries", groups, "--query-length", row["prompt"])
    decode = step_of(program, profile, row, *steps, "--num-queries", clients, "--decode", "--context-length",
                     row["prompt"] + row["reply"] // 2)
    return {"predicted": answer["tokens_per_second_per_device"],
            "bound": f"prompts: {bound_text(prompt['bound_seconds'])}; replies: {bound_text(decode['bound_seconds'])}",
            "prompt_seconds": prompt["step_seconds"], "step_seconds": decode["step_seconds"]}


def predict_message(program, profile, row):
    lines = simulate(program, "messages", "--device", profile, "--num-devices", row["num_devices"], "--json")
    wanted = row["message"]
    line = next(line for line in lines if all(line[key] == value for key, value in wanted.items()))
    return {"predicted": bench_rows.in_unit(row, line["seconds"]), "bound": "communication"}


def predictions(program, profile, rows, known=frozenset()):
    """Of all rows but those in `known`, by id and clients."""
    for row in rows:
        for clients in row["clients"] or [0]:
            if (row["id"], clients) in known:
                continue
            if row["kind"] == "closed":
                made = predict_closed(program, profile, row, clients)
            elif row["kind"] == "message":
                made = predict_message(program, profile, row)
            else:
                made = predict_step(program, profile, row)
            has_measured = bench_rows.measured(row, clients=clients) is not None
            yield {"id": row["id"], "title": row["title"], "num_devices": row["num_devices"], "clients": clients,
                   "unit": row["unit"], **made, "calibrated": row["kind"] == "message" and has_measured,
                   "measured_before": has_measured, "profile": profile}


def figure(value):
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(rows, made, results):
    """Lines of text: every prediction beside what was measured."""
    by_id = {row["id"]: row for row in rows}
    lines = [f"{'row':<62}{'predicted':>10}{'measured':>10}{'error':>8}{'must':>8}{'aim':>8}  unit; bound; verdict"]
    errors = []
    for one in made:
        row, clients = by_id[one["id"]], one["clients"]
        found = None
        for folder in results:
            found = found or bench_rows.measured(row, folder, clients)
        must, aim = bench_rows.limits(row)
        error = ""
        if found:
            error = f"{100 * (one['predicted'] / found[0] - 1):+.1f} %"
            if not one["calibrated"]:
                errors.append(abs(one["predicted"] / found[0] - 1))
        notes = [row["unit"], one["bound"]]
        if found:
            notes.append(bench_rows.verdict(row, found[0], must, aim))
        if one["calibrated"]:
            notes.append("calibrated")
        elif not one["measured_before"]:
            notes.append("blind")
        refused = next((said for folder in results if (said := bench_rows.refusal(row, folder, clients))), None)
        if refused and not found:
            notes.append(f"not measured: {refused}")
        title = one["title"] + (f", {clients} clients" if clients else "")
        lines.append(f"{title:<62}{figure(one['predicted']):>10}{figure(found and found[0]):>10}{error:>8}{figure(must):>8}"
                     f"{figure(aim):>8}  {'; '.join(note for note in notes if note)}")
    if errors:
        lines.append(f"{len(errors)} rows that calibrate nothing: mean error {100 * sum(errors) / len(errors):.1f} %, "
                     f"largest {100 * max(errors):.1f} %")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-devices", type=int, required=True)
    parser.add_argument("--program", default="build/release/src/app/baleen")
    parser.add_argument("--profile", help="instead of the one that bench/rows.json names")
    parser.add_argument("--out", help="write the predictions here, a JSON line each")
    parser.add_argument("--add", action="store_true", help="keep what --out has, and add the rows that it lacks")
    parser.add_argument("--kept", help="predictions made earlier, instead of asking the simulator")
    parser.add_argument("--results", action="append", default=[], help="folder of measured values; may be repeated")
    options = parser.parse_args()
    profile, rows = bench_rows.load_rows(options.num_devices)
    if options.add and not options.out:
        parser.error("--add: --out says which predictions to add to")
    if not rows:
        parser.error(f"--num-devices {options.num_devices}: {bench_rows.ROWS_FILE} has no rows of that many")
    if options.kept:
        made = [json.loads(line) for line in pathlib.Path(options.kept).read_text().splitlines() if line]
    else:
        earlier = bench_rows.lines_of(pathlib.Path(options.out)) if options.add else []
        known = {(one["id"], one["clients"]) for one in earlier}
        date = datetime.date.today().isoformat()
        made = earlier + [{**one, "date": date}
                          for one in predictions(options.program, options.profile or profile, rows, known)]
        if options.out:
            pathlib.Path(options.out).write_text("".join(json.dumps(one) + "\n" for one in made))
    print("\n".join(table(rows, made, [pathlib.Path(folder) for folder in options.results] + [bench_rows.RESULTS])))


if __name__ == "__main__":
    main()
