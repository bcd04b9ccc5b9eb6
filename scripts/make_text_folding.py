#!/usr/bin/env python3
"""Writes src/tokenizer/text_folding_table.cc: what each Unicode character becomes in texts that are compared
without compatibility forms, accents and case.

    scripts/make_text_folding.py

The folding of a text is that of its characters one by one. NFKC followed by NFD is NFKD (checked here for
every character); what NFKD orders are marks, which are removed; and lower case is taken character by
character, without regard to a word's end. Syllables of Hangul decompose by arithmetic and are not in the
table.
"""
import pathlib
import unicodedata

HANGUL = range(0xAC00, 0xD7A4)
TARGET = pathlib.Path(__file__).parent.parent / "src/tokenizer/text_folding_table.cc"
COLUMNS = 110


def fold(code):
    text = unicodedata.normalize("NFKD", chr(code))
    assert text == unicodedata.normalize("NFD", unicodedata.normalize("NFKC", chr(code)))
    return "".join(c.lower() for c in text if not unicodedata.category(c).startswith("M"))


def changed():
    codes = (c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c not in HANGUL)
    return {c: to for c in codes if (to := fold(c)) != chr(c)}


def removed_ranges(table):
    ranges = []
    for code, to in table.items():
        if to:
            continue
        if ranges and ranges[-1][1] + 1 == code:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges]


def shifted_runs(table):
    """Characters that become the one `delta` away: every one, or every second one, of a run."""
    runs = []
    for code, to in table.items():
        if len(to) != 1:
            continue
        delta = ord(to) - code
        if runs and runs[-1][3] == delta:
            first, last, step, _ = runs[-1]
            gap = code - last
            if gap in (1, 2) and (first == last or gap == step):
                runs[-1] = [first, code, gap, delta]
                continue
        runs.append([code, code, 1, delta])
    return [f"{{0x{a:X}, 0x{b:X}, {step}, {delta}}}" for a, b, step, delta in runs]


def spelled(table):
    def literal(text):
        return "".join(f"\\U{ord(c):08X}" if ord(c) >= 0x80 else c for c in text).replace('"', '\\"')

    def item(code, to):
        if len(to) <= 9:
            return f'{{0x{code:X}, "{literal(to)}"}}'
        return f'{{0x{code:X}, "{literal(to[:9])}"\n     "{literal(to[9:])}"}}'

    return [item(code, to) for code, to in table.items() if len(to) > 1]


def array(declaration, items):
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > COLUMNS:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return f"constexpr {declaration}[] = {{\n" + "\n".join(lines + [line]) + "\n};\n"


def main():
    table = changed()
    removed, shifted, long = removed_ranges(table), shifted_runs(table), spelled(table)
    text = f"""// Made by scripts/make_text_folding.py from Unicode {unicodedata.unidata_version}; not to be edited.
#include "tokenizer/text_folding_table.h"

namespace baleen::text_folding {{
namespace {{

// clang-format off
"""
    text += array("RemovedRange kRemoved", removed) + "\n" + array("ShiftedRun kShifted", shifted) + "\n"
    text += array("SpelledCharacter kSpelled", long)
    text += """// clang-format on

}  // namespace

std::span<const RemovedRange> removed_ranges() { return kRemoved; }
std::span<const ShiftedRun> shifted_runs() { return kShifted; }
std::span<const SpelledCharacter> spelled_characters() { return kSpelled; }

}  // namespace baleen::text_folding
"""
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
