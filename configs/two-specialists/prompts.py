#!/usr/bin/env python3
"""Prompts for configs/two-specialists.toml: beginnings of stories and questions for tools, in turn.

    python3 configs/two-specialists/prompts.py --count 400 --seed 5 > prompts.jsonl
"""
import argparse
import importlib.util
import json
import random
import sys
from pathlib import Path

CONFIGS = Path(__file__).resolve().parent.parent
OPENING_WORDS = 8


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=5)
    flags = parser.parse_args()
    sys.path.insert(0, str(CONFIGS / "stories"))
    stories = module("stories", CONFIGS / "stories" / "generate.py")
    tools = module("tool_prompts", CONFIGS / "tool-calls" / "prompts.py")
    rng = random.Random(flags.seed)
    for i in range(flags.count):
        if i % 2 == 0:
            opening = " ".join(stories.tell(rng)["text"].split()[:OPENING_WORDS])
            print(json.dumps({"prompt": opening, "domain": "stories"}))
        else:
            print(json.dumps(tools.prompt(rng, domain="tools")))


if __name__ == "__main__":
    main()
