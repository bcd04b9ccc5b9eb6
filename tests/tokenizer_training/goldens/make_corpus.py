"""Writes corpus.txt: lines that are hard on a trainer of byte pairs. Python 3.11, standard library only; the
same bytes each time.

Stories from configs/stories (real counts, many ties), runs of one character (overlapping pairs, tokens with
several spellings), several scripts, digits, punctuation, white space, source code.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

STORIES = Path(__file__).resolve().parents[3] / "configs" / "stories" / "generate.py"


def main():
    rng = random.Random(15)
    lines = []
    command = [sys.executable, STORIES, "--count", "12", "--seed", "99"]
    for story in subprocess.run(command, capture_output=True, check=True).stdout.decode().splitlines():
        lines += json.loads(story)["text"].split("\n")
    for character in "=-aé天 \t":
        for length in (1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64):
            lines.append(character * length + rng.choice(["", ".", " end", "x"]))
    for _ in range(120):  # few letters: nearly all counts tie, and one token has many spellings
        words = ["".join(rng.choices("ab", k=rng.randint(1, 9))) for _ in range(rng.randint(1, 6))]
        lines.append(" ".join(words))
    for _ in range(60):
        lines.append("".join(rng.choices("aabbbaabab", k=rng.randint(3, 40))))
    lines += ["Größe, naïveté, Ærøskøbing, Łódź", "Привет, мир! Как дела?"]
    lines += ["你好，世界。今天天气很好。", "こんにちは世界カタカナ",
              "안녕하세요 세계", "مرحبا بالعالم", "שלום עולם", "e\u0301 combining, 👩‍👩‍👧 family, 🎉🎉"]
    for _ in range(40):
        lines.append(f"{rng.randint(0, 10**rng.randint(1, 12))} + {rng.random():.6f} = {rng.randint(0, 999)}")
    lines += ["int main() {", "  return x->y[i] != 0x7F && !done; // comment", "}"]
    lines += ["\tif (a<=b) { c+=1; }  ", "   ", "a  b   c", "<think>spelt</think> <|EOT|>"]
    (Path(__file__).parent / "corpus.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
