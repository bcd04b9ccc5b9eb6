#!/usr/bin/env python3
"""Questions that one call of one tool answers: with that call, as prompts for configs/tool-calls-grpo.toml, or
answered by it, as conversations for baleen data pack.

    python3 configs/tool-calls/prompts.py --count 64 --seed 1 > prompts.jsonl
    python3 configs/tool-calls/prompts.py --count 4000 --seed 2 --answered > chats.jsonl
"""
import argparse
import json
import random

CITIES = "Paris Oslo Rome Lima Cairo Tokyo Madrid Berlin Quito Dublin".split()
LANGUAGES = "French German Spanish Italian".split()
WORDS = "hello goodbye morning friend river bread".split()


def tool(name, description, **properties):
    return {"type": "function",
            "function": {"name": name, "description": description,
                         "parameters": {"type": "object", "properties": properties,
                                        "required": list(properties)}}}


WEATHER = tool("get_weather", "Get the weather of a city",
               city={"type": "string"}, days={"type": "integer"})
ADD = tool("add", "Add two numbers", a={"type": "integer"}, b={"type": "integer"})
TRANSLATE = tool("translate", "Translate a word", text={"type": "string"}, language={"type": "string"})


def question(rng):
    kind = rng.randrange(3)
    if kind == 0:
        city, days = rng.choice(CITIES), rng.randrange(2, 8)
        return f"What is the weather in {city} for {days} days?", "get_weather", {"city": city, "days": days}
    if kind == 1:
        a, b = rng.randrange(1, 100), rng.randrange(1, 100)
        return f"What is {a} plus {b}?", "add", {"a": a, "b": b}
    word, language = rng.choice(WORDS), rng.choice(LANGUAGES)
    return f"Translate {word} to {language}.", "translate", {"text": word, "language": language}


def prompt(rng, domain=None, answered=False):
    text, name, arguments = question(rng)
    tools = [WEATHER, ADD, TRANSLATE]
    rng.shuffle(tools)
    messages = [{"role": "system", "content": "", "tools": tools}, {"role": "user", "content": text}]
    line = {"messages": messages, "thinking_mode": "chat"}
    if answered:
        function = {"name": name, "arguments": json.dumps(arguments)}
        messages.append({"role": "assistant", "content": "",
                         "tool_calls": [{"type": "function", "function": function}]})
    else:
        line["call"] = {"name": name, "arguments": arguments}
    if domain:
        line["domain"] = domain
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--answered", action="store_true", help="conversations that end with the call")
    flags = parser.parse_args()
    rng = random.Random(flags.seed)
    for _ in range(flags.count):
        print(json.dumps(prompt(rng, answered=flags.answered)))


if __name__ == "__main__":
    main()
