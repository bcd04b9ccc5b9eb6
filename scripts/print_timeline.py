#!/usr/bin/env python3
"""print_timeline.py FILE [--gpu N] [--first KERNEL] [--order]: what each kernel adds to a step.

FILE is libkernel_timeline.so's (bench/support/kernel_timeline.cc). A step goes from one KERNEL (embed) to the next; of
steps with the usual number of kernels those are taken that last at most 15% longer than the quickest. A kernel *adds*
the time from the latest end of those before it to its own end, if that is later: begun early, it may run for long and
add little. Sums over a step are the step. --order: kernel by kernel as they run, instead of sums by kernel and blocks."""
import argparse
import collections
import csv
import re
import signal
import statistics
import subprocess
import sys

Kernel = collections.namedtuple("Kernel", "begin end blocks threads shared name")
NEAR = 1.15  # of the quickest step


def short_names(mangled):
    """What they are called in the sources, with template arguments."""
    names = list(mangled)
    plain = subprocess.run(["c++filt"], input="\n".join(names), text=True, stdout=subprocess.PIPE, check=True).stdout
    values = (re.sub(r"\(anonymous namespace\)::|\([\w:]+\)(?=\d)", "", line) for line in plain.split("\n"))
    short = [re.sub(r"^void |\b\w+::", "", line.split("(")[0]) for line in values]
    return dict(zip(names, short))


def kernels_of(path, gpu):
    try:
        with open(path, newline="") as file:
            rows = [row for row in csv.DictReader(file) if int(row["gpu"]) == gpu]
        names = short_names(dict.fromkeys(row["kernel"] for row in rows))
        return sorted(Kernel(int(row["begin_ns"]), int(row["end_ns"]), int(row["blocks"]), int(row["threads"]),
                             int(row["shared_bytes"]), names[row["kernel"]]) for row in rows)
    except OSError as error:
        sys.exit(f"print_timeline.py: {error}")
    except (KeyError, TypeError, ValueError):
        sys.exit(f"print_timeline.py: {path} is no timeline of libkernel_timeline.so, or is cut off")


def steps_of(kernels, first, what):
    begins = [place for place, kernel in enumerate(kernels) if first in kernel.name]
    steps = [kernels[begin:end] for begin, end in zip(begins, begins[1:])]
    if not steps:
        sys.exit(f"print_timeline.py: {what} has fewer than two steps that begin with {first}")
    usual = collections.Counter(map(len, steps)).most_common(1)[0][0]
    steps = [step for step in steps if len(step) == usual]
    quickest = min(map(duration, steps))
    return [step for step in steps if duration(step) <= NEAR * quickest]


def duration(step):
    return max(kernel.end for kernel in step) - step[0].begin


def added(step):
    """Of each kernel: what it adds, how long it runs, how long before the end of those before it it begins; in us."""
    latest = step[0].begin
    for kernel in step:
        yield max(kernel.end - latest, 0) / 1e3, (kernel.end - kernel.begin) / 1e3, (latest - kernel.begin) / 1e3
        latest = max(latest, kernel.end)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--first", default="embed")
    parser.add_argument("--order", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # into `head`
    steps = steps_of(kernels_of(options.file, options.gpu), options.first, f"GPU {options.gpu} of {options.file}")
    median = statistics.median(map(duration, steps)) / 1e3
    print(f"{len(steps)} steps of {len(steps[0])} kernels, {median:.0f} us (median)")
    medians = [tuple(map(statistics.median, zip(*of_kernel))) for of_kernel in zip(*map(added, steps))]
    columns = "{:<52} {:>6} {:>7} {:>9} {:>6} {:>8} {:>8} {:>8} {:>9}"
    print(columns.format("kernel", "blocks", "threads", "shared B", "calls", "adds us", "runs us", "early us", "all us"))
    if options.order:
        groups = [(kernel, [times]) for kernel, times in zip(steps[0], medians)]
    else:
        same = collections.defaultdict(list)
        for kernel, times in zip(steps[0], medians):
            same[kernel._replace(begin=0, end=0)].append(times)
        groups = sorted(same.items(), key=lambda item: -sum(times[0] for times in item[1]))
    for kernel, times in groups:
        adds, runs, early = (statistics.mean(column) for column in zip(*times))
        print(columns.format(kernel.name[:52], kernel.blocks, kernel.threads, kernel.shared, len(times), f"{adds:.2f}",
                             f"{runs:.2f}", f"{early:.2f}", f"{adds * len(times):.1f}"))


if __name__ == "__main__":
    main()
