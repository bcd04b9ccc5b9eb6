#!/usr/bin/env python3
"""bench_drafts.py BALEEN [--preset flash-0731] [--layers 6,16] [--sequences 1,64] [--at 4096] [--drafts 5]: what drafts
cost and bring on a GPU that the whole model does not fit.

Decodes with made-up weights of the preset cut to two numbers of layers, without drafts and with them, and takes the
line through both medians to the model's own number: `layers x a + b`. What differs in b is what drafting costs; what
differs in a is what checking more rows costs. Prints for each number of sequences the step without and with drafts,
the draft's share of a step, and the gain at acceptances that were published (tokens a step): acceptance decides how
many tokens a step keeps and hardly what it takes."""
import argparse
import json
import subprocess

PUBLISHED = (2.74, 5.4)  # of V4-Flash-0731


def medians(arguments, layers, drafts):
    """Seconds of a step by number of sequences."""
    command = [arguments.baleen, "bench", "--device", arguments.device, "--preset", arguments.preset,
               "--layers", str(layers), "--prompt", "0", "--at", str(arguments.at), "--decode", str(arguments.decode),
               "--sequences", ",".join(map(str, arguments.sequences)), "--json"]
    if drafts:
        command += ["--speculate", str(drafts), "--tokens-a-step", str(PUBLISHED[0])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    # The first phase runs steps as a server does; a second one times operation by operation.
    return {line["sequences"]: line["phases"][0]["median_step_seconds"] for line in lines}


def line_through(points):
    (x0, y0), (x1, y1) = points
    slope = (y1 - y0) / (x1 - x0)
    return slope, y0 - slope * x0


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("baleen")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--preset", default="flash-0731")
    parser.add_argument("--layers", type=numbers, default=[6, 16])
    parser.add_argument("--model-layers", type=int, default=43, help="of the whole model")
    parser.add_argument("--sequences", type=numbers, default=[1, 64])
    parser.add_argument("--at", type=int, default=4096)
    parser.add_argument("--decode", type=int, default=48)
    parser.add_argument("--drafts", type=int, default=5)
    arguments = parser.parse_args()
    if len(arguments.layers) != 2 or arguments.layers[0] == arguments.layers[1]:
        parser.error("--layers: expected two different numbers")

    measured = {(layers, drafts): medians(arguments, layers, drafts)
                for layers in arguments.layers for drafts in (0, arguments.drafts)}
    for sequences in arguments.sequences:
        fits = {}
        for drafts in (0, arguments.drafts):
            fits[drafts] = line_through([(layers, measured[layers, drafts][sequences] * 1e3) for layers in arguments.layers])
        at_model = {drafts: slope * arguments.model_layers + rest for drafts, (slope, rest) in fits.items()}
        draft = fits[arguments.drafts][1] - fits[0][1]
        row = {"preset": arguments.preset, "at": arguments.at, "sequences": sequences, "layers": arguments.layers,
               "measured_ms": {f"{layers} layers, {drafts} drafts": round(measured[layers, drafts][sequences] * 1e3, 3)
                               for layers in arguments.layers for drafts in (0, arguments.drafts)},
               "step_ms": round(at_model[0], 3), "step_with_drafts_ms": round(at_model[arguments.drafts], 3),
               "draft_ms": round(draft, 3), "draft_share_of_step": round(draft / at_model[0], 3),
               "gain": {str(kept): round(kept * at_model[0] / at_model[arguments.drafts], 2) for kept in PUBLISHED},
               "tokens_per_second": {str(kept): round(sequences * kept / at_model[arguments.drafts] * 1e3, 1)
                                     for kept in PUBLISHED}}
        print(json.dumps(row))


if __name__ == "__main__":
    main()
