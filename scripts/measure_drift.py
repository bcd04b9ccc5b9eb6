#!/usr/bin/env python3
"""measure_drift.py TEXT VARIANT...: what forced variants change about a model's predictions of a text.

TEXT is a file; VARIANT is an argument of `baleen --kernel`, or several with commas between: "int8",
"linear=int8,experts=int8"; or, for comparison, other options of `baleen logits` in one word that begins with a
blank: " --isa AVX2". Of the first --tokens tokens of TEXT, prints for the model's own arithmetic and for each
variant: nats a token, how often the likeliest token is the same, the mean Kullback-Leibler divergence
from the model's own distribution in nats, and the root of the mean square of the difference of logits over
that of the logits. With --prompt N the first N tokens are a prompt, and the other ones are predicted, as
" --bounded-replay 128" wants it.
"""

import argparse
import array
import json
import math
import pathlib
import struct
import subprocess
import tempfile


def read_logits(path):
    """Rows of float32."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        begin = file.tell()
        num_rows, width = header["logits"]["shape"]
        file.seek(begin + header["logits"]["data_offsets"][0])
        for _ in range(num_rows):
            row = array.array("f")
            row.fromfile(file, width)
            yield row


def log_sum(row):
    largest = max(row)
    return largest + math.log(sum(math.exp(value - largest) for value in row))


def run(baleen, *arguments, **more):
    return subprocess.run([str(baleen), *map(str, arguments)], check=True, capture_output=True, text=True, **more).stdout


def compare(own_path, path, ids):
    """Means over positions whose next token is known."""
    nats = same = divergence = square = own_square = 0.0
    for own, other, next_id in zip(read_logits(own_path), read_logits(path), ids[1:]):
        own_sum, other_sum = log_sum(own), log_sum(other)
        nats += other_sum - other[next_id]
        same += own.index(max(own)) == other.index(max(other))
        for a, b in zip(own, other):
            divergence += math.exp(a - own_sum) * ((a - own_sum) - (b - other_sum))
            square += (a - b) ** 2
            own_square += a * a
    count = len(ids) - 1
    return nats / count, same / count, divergence / count, math.sqrt(square / own_square)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("variants", nargs="+", metavar="VARIANT")
    parser.add_argument("--model", type=pathlib.Path, default=root / "models/stories")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--prompt", type=int, default=0)
    parser.add_argument("--baleen", type=pathlib.Path, default=root / "build/release/src/app/baleen")
    options = parser.parse_args()
    text = options.text.read_text(encoding="utf-8")
    lines = run(options.baleen, "tokenize", "--model", options.model, input=json.dumps({"text": text}))
    ids = json.loads(lines)["ids"][: options.tokens]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "ids").write_text(" ".join(map(str, ids)))

        def logits(name, variant):
            path = folder / name
            more = variant.split() if variant.startswith(" ") else [
                word for choice in variant.split(",") if choice for word in ("--kernel", choice)]
            run(options.baleen, "logits", "--model", options.model, "--tokens", folder / "ids", "--out", path,
                "--prompt-tokens", options.prompt, *more)
            return path

        own = logits("own.safetensors", "")
        print(f"{len(ids)} tokens of {options.text.name}, {options.model.name}")
        ids = ids[max(options.prompt - 1, 0):]
        print(f"{'variant':30} {'nats':>8} {'same best':>10} {'divergence':>11} {'logits':>8}")
        for variant in ["", *options.variants]:
            path = own if not variant else logits("other.safetensors", variant)
            nats, same, divergence, distance = compare(own, path, ids)
            print(f"{variant or 'as the model says':30} {nats:8.4f} {100 * same:9.2f}% {divergence:11.6f} {100 * distance:7.3f}%")


if __name__ == "__main__":
    main()
