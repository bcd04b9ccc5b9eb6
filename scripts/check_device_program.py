#!/usr/bin/env python3
"""check_device_program.py BALEEN DEVICE commands|places|serve [OPTION...]: the program itself on a device, with
models/stories; a GPU with further options, as --arch sm80 --as-card rtx-3090.

commands: perplexity, logits and chat say what they say on the CPU, within what roundings move.
places: logits of a bench-1b do not depend on where its experts lie, nor on who computes them. Takes 1.2 GB of disk.
serve: a server on loopback answers over HTTP; replies do not depend on being streamed or on what runs beside them.
Every wait is bounded; what was started is ended. Exits with 1 and a sentence when something differs."""
import array
import concurrent.futures
import json
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import urllib.request

MODEL = "models/stories"
PROMPTS = ["Tell me a story about a fox and a lantern.", "Tell me a story about a boat.", "Hello!",
           "Tell me a story with a plan about a garden.", "Tell me a story about a girl called Orla."]
COMMAND_SECONDS = 60  # of one command
REQUEST_SECONDS = 60
END_SECONDS = 40

GPU_WEIGHTS_BYTES = "20MB"  # of the bundled model's 26: the embedding and some experts do not fit; 18.7 have to
# Of a bench-1b's 1,157 without its draft head's experts; 903 have to be there, its embedding (134) is on the host. 30, 51 and
# all 72 experts are away.
PLACES_WEIGHTS = ("1015MB", "965MB", "905MB")
PLACES_HOST_BYTES = (None, "335MB", "245MB")  # all of those, 13, none: reading from disk takes 107
NATS_TOLERANCE = 0.005  # relative
LEAST_SAME_ARGMAX = 0.95
LEAST_SAME_CHARACTERS = 16  # of a greedy reply: later a tie may be broken the other way


def check(holds, sentence):
    if not holds:
        sys.exit(f"check_device_program.py: {sentence}")


def on_device(device):
    return ["--device", device, *(sys.argv[4:] if device != "cpu" else [])]


def run(baleen, device, command, *options, model=MODEL, text=None):
    done = subprocess.run([baleen, command, *on_device(device), "--model", model, *options], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=COMMAND_SECONDS)
    check(done.returncode == 0, f"{command} on {device} exits with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def read_logits(path):
    """Rows of the tensor "logits"."""
    data = pathlib.Path(path).read_bytes()
    header_size = struct.unpack("<Q", data[:8])[0]
    tensor = json.loads(data[8:8 + header_size])["logits"]
    begin, end = tensor["data_offsets"]
    values = array.array("f", data[8 + header_size + begin:8 + header_size + end])
    rows, width = tensor["shape"]
    return [values[row * width:(row + 1) * width] for row in range(rows)]


def check_commands(baleen, device):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        story = run(baleen, "cpu", "run", "--chat", "--temperature", "0", "--max-tokens", "160", PROMPTS[0])
        (folder / "text").write_text(story)
        nats = [json.loads(run(baleen, on, "perplexity", "--json", "--text", str(folder / "text")))["nats_per_token"]
                for on in ("cpu", device)]
        print(f"perplexity: {nats[0]:.5f} nats a token on the CPU, {nats[1]:.5f} on {device}")
        check(abs(nats[1] - nats[0]) <= NATS_TOLERANCE * nats[0], "the difference is too large")

        ids = json.loads(subprocess.run([baleen, "tokenize", "--model", MODEL], input=json.dumps({"text": story}) + "\n",
                                        text=True, stdout=subprocess.PIPE, timeout=COMMAND_SECONDS, check=True).stdout)["ids"]
        (folder / "ids").write_text(" ".join(map(str, ids)))
        rows = []
        for on in ("cpu", device):
            run(baleen, on, "logits", "--tokens", str(folder / "ids"), "--out", str(folder / on))
            rows.append(read_logits(folder / on))
        best = [[max(range(len(row)), key=row.__getitem__) for row in of_device] for of_device in rows]
        same = sum(a == b for a, b in zip(*best)) / len(best[0])
        print(f"logits: {100 * same:.1f}% of {len(best[0])} positions prefer the same token")
        check(len(rows[0]) == len(rows[1]) == len(ids) and same >= LEAST_SAME_ARGMAX, "too few")

        if device != "cpu":  # experts that the GPU's memory has no room for change no bit
            run(baleen, device, "logits", "--tokens", str(folder / "ids"), "--out", str(folder / "parted"),
                "--gpu-weights-bytes", GPU_WEIGHTS_BYTES, "--host-experts", "fetch")
            check(read_logits(folder / "parted") == rows[1], "experts on the host change logits")
            print("logits: the same bits with experts in the host's memory")

        replies = [run(baleen, on, "chat", "--temperature", "0", "--max-tokens", "48", text=PROMPTS[1] + "\n")
                   for on in ("cpu", device, device)]
        common = next((i for i, (a, b) in enumerate(zip(replies[0], replies[1])) if a != b), len(replies[0]))
        print(f"chat: {common} of {len(replies[0])} characters are the CPU's")
        check(common >= LEAST_SAME_CHARACTERS, f"chat says {replies[1]!r}, on the CPU {replies[0]!r}")
        check(replies[1] == replies[2], "chat says something else the second time")


def check_places(baleen, device):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, ids = str(folder / "model"), folder / "ids"
        subprocess.run([baleen, "init", "--preset", "bench-1b", model], check=True, timeout=COMMAND_SECONDS,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ids.write_text(" ".join(str(7919 * i % 32000) for i in range(70)))

        def logits(*options):
            run(baleen, device, "logits", "--context", "256", "--tokens", str(ids), "--out", str(folder / "logits"),
                *options, model=model)
            return read_logits(folder / "logits")

        whole = logits("--host-experts", "compute")
        num = 0
        for weights in PLACES_WEIGHTS:
            for host_bytes in PLACES_HOST_BYTES:
                host = ["--host-experts-bytes", host_bytes] if host_bytes else []
                # Steps of one token and of a few are computed on the host's cores, one of 70 is not.
                for how in (["compute"], ["auto"], ["compute", "--chunk", "1"], ["compute", "--chunk", "7", "--no-fetch-ahead"]):
                    options = ["--gpu-weights-bytes", weights, *host, "--host-experts", *how]
                    check(logits(*options) == whole, f"{' '.join(options)} changes logits")
                    num += 1
        print(f"logits: the same bits at {num} combinations of places of experts")


def post(url, prompt, stream):
    """The text of a greedy reply."""
    body = {"model": "stories", "messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 48,
            "stream": stream}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as reply:
        if not stream:
            return json.load(reply)["choices"][0]["message"]["content"]
        text = ""
        for line in reply:
            event = line.decode().strip()
            if event.startswith("data: ") and event != "data: [DONE]":
                choices = json.loads(event[len("data: "):])["choices"]
                text += (choices[0]["delta"].get("content") or "") if choices else ""
        return text


def check_replies(url):
    with urllib.request.urlopen(url + "/v1/models", timeout=REQUEST_SECONDS) as reply:
        check(json.load(reply)["data"], "no model is listed")
    alone = {prompt: post(url, prompt, stream=False) for prompt in PROMPTS}
    check(all(alone.values()), f"an empty reply: {alone}")
    crowd = [PROMPTS[i % len(PROMPTS)] for i in range(24)]
    with concurrent.futures.ThreadPoolExecutor(len(crowd)) as pool:
        streams = list(pool.map(lambda prompt: post(url, prompt, stream=True), crowd))
    for prompt, text in zip(crowd, streams):
        check(text == alone[prompt], f"{prompt!r} is answered {text!r} among others, {alone[prompt]!r} alone")
    print(f"serve: {len(alone)} replies alone, {len(crowd)} streams at a time, the same text")


def check_serve(baleen, device):
    server = subprocess.Popen([baleen, "serve", *on_device(device), "--model", MODEL, "--port", "0", "--quiet",
                               "--max-sequences", "16", "--context", "4096"], stdout=subprocess.PIPE, text=True)
    # Whatever the requests do, the server is gone in the end: it is asked to, and killed when it does not listen.
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as reader:
            line = reader.submit(server.stdout.readline)
            try:
                said = line.result(timeout=COMMAND_SECONDS)
            except concurrent.futures.TimeoutError:
                server.kill()  # ends the read
                said = "nothing"
        address = re.match(r"listening on (http://\S+)", said)
        check(address, f"serve says {said!r} instead of where it listens")
        check_replies(address[1])
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            code = server.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            code = "nothing: it had to be killed"
    check(code == 0, f"asked to end, serve exits with {code}")


if __name__ == "__main__":
    checks = {"commands": check_commands, "places": check_places, "serve": check_serve}
    check(len(sys.argv) >= 4 and sys.argv[3] in checks, __doc__)
    checks[sys.argv[3]](sys.argv[1], sys.argv[2])
