#!/usr/bin/env python3
"""check_gpu_ranks.py BALEEN: the program's commands with two GPUs as ranks, with models/stories.

Data-parallel groups, which share the experts, and pipelines give the logits of one GPU, bit for bit; tensor-parallel ranks
the same in every run. A server answers many at a time as it answers one. Exits with 1 and a sentence when not."""
import concurrent.futures
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

MODEL = "models/stories"
NUM_TOKENS = 300
COMMAND_SECONDS = 120
END_SECONDS = 40
PROMPTS = [f"Tell me a story about animal number {i}." for i in range(12)]


def check(holds, sentence):
    if not holds:
        sys.exit(f"check_gpu_ranks.py: {sentence}")


def run(baleen, command, *options):
    done = subprocess.run([baleen, command, "--model", MODEL, *options], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=COMMAND_SECONDS)
    check(done.returncode == 0, f"{command} {' '.join(options)} exits with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def check_logits(baleen):
    with tempfile.TemporaryDirectory() as folder:
        ids, out = pathlib.Path(folder, "ids"), pathlib.Path(folder, "logits")
        ids.write_text(" ".join(str((37 * i + 11) % 4000) for i in range(NUM_TOKENS)))

        def logits(*options):
            run(baleen, "logits", "--tokens", str(ids), "--out", str(out), "--context", "2048", *options)
            return out.read_bytes()

        one = logits("--device", "cuda:0")
        for plan in (["--dp", "2"], ["--ep", "2"], ["--pp", "2"]):
            check(logits("--devices", "0,1", *plan) == one, f"{' '.join(plan)}: other logits than one GPU's")
            print(f"{' '.join(plan)}: the logits of one GPU")
        check(logits("--devices", "0,1", "--tp", "2") == logits("--devices", "0,1"), "--tp 2: logits differ by run")
        print("--tp 2: the same logits in two runs")


def check_server(baleen):
    server = subprocess.Popen([baleen, "serve", "--model", MODEL, "--port", "0", "--devices", "0,1", "--dp", "2", "--speculate",
                               "2", "--context", "4096", "--max-sequences", "8", "--quiet"], text=True,
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
        check(together == alone, "replies of many requests differ from those alone")
        print(f"serve --dp 2 --speculate 2: {len(PROMPTS)} replies the same together as alone")
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
    check(server.returncode == 0, f"serve exits with {server.returncode}")


check_logits(sys.argv[1])
check_server(sys.argv[1])
