#!/usr/bin/env python3
"""calibrate_messages.py PROFILE.json RANKS.csv: puts what messages take into a device profile.

RANKS.csv is what `sm90_ranks_bench` printed on a host with several GPUs (bench/results/ranks-h200-x2.csv). The profile gets
`messages`: seconds by the bytes that a rank sends over its links, of all_reduce, dispatch, combine, all_gather and
reduce_scatter. The benchmark times an all-gather and a reduce-scatter as a pair; what lies above its smallest time is
shared out by their bytes. --seconds-per-further-rank says what each rank beyond those measured adds to a message, which
no measurement of two ranks can tell."""
import argparse
import collections
import csv
import json
import math
import re

# Of the benchmark: Flash's width, experts a token and experts; values that share a scale.
WIDTH, CHOSEN, EXPERTS, SCALED = 4096, 6, 256, 128
TOKENS_BY_ASSIGNMENT = 256  # of ops/dispatch: beyond, its messages count a token once for each rank
BF16_BYTES, FLOAT_BYTES = 2, 4
FP8_ROW_BYTES = WIDTH + WIDTH // SCALED * FLOAT_BYTES
WHOLE_UP_TO_BYTES = 1 << 19  # of ops/collectives/cuda: larger all-reduces are shared out


def dispatched_bytes(tokens, ranks):
    """What leaves a rank as the simulator counts it (`ops::Dispatch::messages`)."""
    if tokens <= TOKENS_BY_ASSIGNMENT:
        return tokens * CHOSEN * FP8_ROW_BYTES * (ranks - 1) / ranks
    without = math.prod((EXPERTS - EXPERTS / ranks - i) / (EXPERTS - i) for i in range(CHOSEN))
    return tokens * (ranks - 1) * (1 - without) * (FP8_ROW_BYTES + 8 * CHOSEN)


def combined_bytes(tokens, ranks):
    return tokens * CHOSEN * WIDTH * BF16_BYTES * (ranks - 1) / ranks


def read_points(path):
    """{message: [(bytes that a rank sends, seconds)]}, number of ranks, where from."""
    points, ranks, pairs, origin = collections.defaultdict(list), 0, [], ""
    with open(path) as file:
        for row in csv.DictReader(file):
            kernel, size = row["kernel"], re.match(r"(\d+) (bytes|tokens a rank) on (\d+) ranks", row["shape"])
            if size is None or not kernel.endswith(" sm90/peers"):
                continue
            count, ranks, seconds = int(size[1]), int(size[3]), float(row["median_us"]) / 1e6
            origin = f"{row['machine']}, {row['date']}, revision {row['revision']}"
            kind = kernel.removesuffix(" sm90/peers")
            if kind == "all_reduce":
                sent = (ranks - 1) * count if count <= WHOLE_UP_TO_BYTES else 2 * (ranks - 1) / ranks * count
                points["all_reduce"].append((sent, seconds))
            elif kind == "dispatch":
                points["dispatch"].append((dispatched_bytes(count, ranks), seconds))
            elif kind == "combine":
                points["combine"].append((combined_bytes(count, ranks), seconds))
            elif kind == "all_gather + reduce_scatter":
                pairs.append((count, seconds))
    if pairs:
        least = min(seconds for _, seconds in pairs)
        for tokens, seconds in pairs:
            values = tokens * WIDTH * (ranks - 1)
            for kind, width in (("all_gather", BF16_BYTES), ("reduce_scatter", FLOAT_BYTES)):
                share = width / (BF16_BYTES + FLOAT_BYTES)
                points[kind].append((values * width, least / 2 + share * (seconds - least)))
    return points, ranks, origin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("ranks")
    parser.add_argument("--seconds-per-further-rank", type=float, default=0)
    options = parser.parse_args()
    points, ranks, origin = read_points(options.ranks)
    if not points:
        parser.error(f"{options.ranks} has no rows of messages: expected those of sm90_ranks_bench")
    with open(options.profile) as file:
        profile = json.load(file)
    profile["messages"] = {}
    for name, measured in sorted(points.items()):
        entry = {"num_ranks": ranks}
        if options.seconds_per_further_rank > 0:
            entry["seconds_per_further_rank"] = options.seconds_per_further_rank
        if name == "all_reduce":
            entry["whole_up_to_bytes"] = WHOLE_UP_TO_BYTES
        entry["points"] = [{"bytes": size, "seconds": round(seconds, 10)} for size, seconds in sorted(measured)]
        profile["messages"][name] = entry
    profile["sources"]["messages"] = (
        f"sm90_ranks_bench on {origin}; seconds_per_further_rank is assumed: a flag that is read and a packet that is waited "
        "for, one peer after the other")
    with open(options.profile, "w") as file:
        json.dump(profile, file, indent=2)
        file.write("\n")
    for name, entry in profile["messages"].items():
        print(f"{name}: {len(entry['points'])} points of {ranks} ranks")


if __name__ == "__main__":
    main()
