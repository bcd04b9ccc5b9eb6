#!/usr/bin/env python3
"""check_gpu_ranks.py BALEEN [--ranks N] [--rehearse]: the program's commands over N ranks on GPUs (default: as many as there
are, at least two), with models/stories, and its logits with a random model of DeepSeek-V4.1's shapes. Where there are fewer
GPUs than ranks, ranks share them if the program can.

Expert, data, pipeline, sequence and context parallel plans give the logits of one GPU, bit for bit, wherever experts lie, as
threads and, where there are mpirun and a GPU for each rank, as processes; where NCCL is found, by it too,
also with each process on what NCCL takes for a host of its own;
tensor-parallel ranks the same in every run, and whatever the number of data-parallel groups. Servers answer many at a time as
they answer one, and alike with different plans, also while experts change places and where groups compute prompts. Exits with 1
and a sentence when not. --rehearse: the same on CPU ranks."""
import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

MODEL = "models/stories"
V41 = ["--preset", "tiny-v41", "--tokenizer", MODEL]  # `baleen init` makes it
NUM_TOKENS = 300
COMMAND_SECONDS = 120
END_SECONDS = 40
PROMPTS = [f"Tell me a story about animal number {i}." for i in range(12)]
# Experts change places several times while the prompts are answered.
BALANCE = ["--balance-first", 20, "--balance-interval", 20, "--balance-window", 20, "--balance-gain", 0]
MOST_STAGES = {"v4": 6, "v41": 2}  # of a pipeline: a layer each at least; V4.1's layers share entries within a stage


def num_gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], text=True, stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return len(listed.stdout.splitlines())


NUM_GPUS = num_gpus()


def goes_by_nccl(ranks, rehearse):
    if rehearse or ranks > NUM_GPUS:
        return False
    try:
        ctypes.CDLL("libnccl.so.2")
    except OSError:
        return False
    return True


def devices(ranks, rehearse):
    if rehearse:
        return ["--device", "cpu"]
    return ["--devices", ",".join(str(rank % NUM_GPUS) for rank in range(ranks))]


def plans_with_bits_of_one_rank(ranks, most_stages):
    """(ranks, options of the plan): of all of them, and of fewer."""
    plans = [(ranks, "--dp", ranks), (ranks, "--ep", ranks), (ranks, "--cp", ranks),
             (ranks, "--tp", ranks, "--o-proj-tp", 1, "--sequence-parallel"),
             (ranks, "--dp", ranks, "--redundant-experts", ranks),
             (ranks, "--dp", ranks, "--expert-placement", "round-robin"),
             (ranks, "--dp", ranks, "--prefill-groups", ranks // 2)]
    stages = max(stages for stages in range(1, most_stages + 1) if ranks % stages == 0)
    plans.append((ranks, "--pp", stages, "--dp", ranks // stages))
    if ranks > 2:
        plans += [(2, "--dp", 2), (ranks, "--pp", 2, "--dp", ranks // 2),
                  (ranks, "--dp", ranks // 2, "--tp", 2, "--o-proj-tp", 1, "--sequence-parallel")]
    return [(count, *map(str, options)) for count, *options in plans]


def check(holds, sentence):
    if not holds:
        sys.exit(f"check_gpu_ranks.py: {sentence}")


def run(baleen, command, model, *options, processes=0, several_hosts=False):
    """`processes`: that many ranks started by mpirun; 0: one process. `several_hosts`: NCCL takes each for a host of its own."""
    words = [baleen, command, "--model", model, *options]
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    environment = dict(os.environ)
    if several_hosts:
        environment["NCCL_SOCKET_IFNAME"] = "lo"
        of_hosts = [["-n", "1", "env", f"NCCL_HOSTID={host}", *words] for host in range(processes)]
        words = mpirun + [word for one in of_hosts for word in (*one, ":")][:-1]
    elif processes:
        words = [*mpirun, "-n", str(processes), *words]
    done = subprocess.run(words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=COMMAND_SECONDS, env=environment)
    check(done.returncode == 0, f"{command} {' '.join(options)} exits with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def check_logits(baleen, model, most_stages, ranks, rehearse):
    with tempfile.TemporaryDirectory() as folder:
        ids, out = pathlib.Path(folder, "ids"), pathlib.Path(folder, "logits")
        ids.write_text(" ".join(str((37 * i + 11) % 4000) for i in range(NUM_TOKENS)))

        fixed = ["--tokens", str(ids), "--out", str(out), "--context", "2048"]

        def logits(*options, processes=0, several_hosts=False):
            out.unlink(missing_ok=True)
            run(baleen, "logits", model, *fixed, *options, processes=processes, several_hosts=several_hosts)
            return out.read_bytes()

        one = logits("--device", "cpu" if rehearse else "cuda:0")
        for count, *plan in plans_with_bits_of_one_rank(ranks, most_stages):
            options = [*devices(count, rehearse), *plan]
            check(logits(*options) == one, f"{' '.join(plan)}: other logits than one rank's")
            print(f"{' '.join(plan)}: the logits of one rank")
            if shutil.which("mpirun") and (rehearse or count <= NUM_GPUS):
                check(logits(*options, processes=count) == one, f"{' '.join(plan)} as processes: other logits than one rank's")
                print(f"{' '.join(plan)} as processes: the same")
        if goes_by_nccl(ranks, rehearse):
            for plan in (["--dp", str(ranks)], ["--tp", str(ranks), "--o-proj-tp", "1", "--sequence-parallel"]):
                options = [*devices(ranks, rehearse), *plan, "--messages", "nccl"]
                started = [("", {})]
                if shutil.which("mpirun"):
                    started += [(" as processes", {"processes": ranks}),
                                (" as if on several hosts", {"processes": ranks, "several_hosts": True})]
                for how, start in started:
                    name = f"{' '.join(plan)} --messages nccl{how}"
                    check(logits(*options, **start) == one, f"{name}: other logits than one rank's")
                    print(f"{name}: the logits of one rank")
        split = [*devices(ranks, rehearse), "--tp", str(ranks)]
        check(logits(*split) == logits(*split), f"--tp {ranks}: logits differ by run")
        print(f"--tp {ranks}: the same logits in two runs")
        if ranks >= 8:  # groups that share experts, over half as many ranks
            half, all_groups = ([*devices(2 * groups, rehearse), "--tp", "2", "--dp", str(groups)]
                                for groups in (ranks // 4, ranks // 2))
            check(logits(*half) == logits(*all_groups), f"--tp 2 --dp {ranks // 2}: other logits than with fewer groups")
            print(f"--tp 2 --dp {ranks // 2}: the logits of half as many ranks")


def check_server(baleen, ranks, rehearse, *plan):
    """The replies to all prompts."""
    plan = list(map(str, plan))
    server = subprocess.Popen([baleen, "serve", "--model", MODEL, "--port", "0", *devices(ranks, rehearse), *plan,
                               "--speculate", "2", "--context", "4096", "--max-sequences", "8", "--quiet"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        url = None
        for line in server.stdout:
            if found := re.search(r"listening on (http://\S+)", line):
                url = found[1].rstrip("/")
                break
        check(url, f"serve ends: {server.stderr.read() if url is None else ''}")

        def reply(prompt):
            body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 80, "temperature": 0}
            request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=COMMAND_SECONDS) as answer:
                return json.load(answer)["choices"][0]["message"]["content"]

        alone = [reply(prompt) for prompt in PROMPTS]
        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
            together = list(pool.map(reply, PROMPTS))
        check(together == alone, f"serve {' '.join(plan)}: replies of many requests differ from those alone")
        print(f"serve {' '.join(plan)} --speculate 2: {len(PROMPTS)} replies the same together as alone")
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
    check(server.returncode == 0, f"serve {' '.join(plan)} exits with {server.returncode}")
    return alone


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=max(2, NUM_GPUS))
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    check(NUM_GPUS > 0 or options.rehearse, "nvidia-smi names no GPU; --rehearse runs CPU ranks")
    check_logits(options.program, MODEL, MOST_STAGES["v4"], options.ranks, options.rehearse)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.program, "init", *V41, folder], stdout=subprocess.DEVNULL, check=True, timeout=COMMAND_SECONDS)
        print("a model of DeepSeek-V4.1's shapes:")
        check_logits(options.program, folder, MOST_STAGES["v41"], options.ranks, options.rehearse)
    ranks = options.ranks
    by_nccl = [["--dp", ranks, "--messages", "nccl"]] if goes_by_nccl(ranks, options.rehearse) else []
    replies = [check_server(options.program, ranks, options.rehearse, *plan)
               for plan in (*by_nccl, ["--dp", ranks], ["--dp", ranks, "--redundant-experts", ranks], ["--cp", ranks],
                            ["--dp", ranks, "--prefill-groups", ranks // 2],
                            ["--dp", ranks, "--redundant-experts", ranks, "--balance-experts", *BALANCE])]
    check(all(one == replies[0] for one in replies), "servers of different plans reply differently")


main()
