#!/usr/bin/env python3
"""scaling_page.py OUT.html: what one sequence and many take on 1, 2, 4 and 8 GPUs: the predictions that are kept in
bench/results (predicted-h200-xN.jsonl) as lines, measured values as dots, what must be reached as dashes.
scripts/record_pictures.mjs makes docs/pictures/scaling.png of it."""
import html
import json
import math
import pathlib
import sys

import bench_rows

COUNTS = (1, 2, 4, 8)
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 360, 64, 24, 44, 52
STYLE = """
body { margin: 0; font: 14px/1.4 system-ui, sans-serif; color: #1d2730; background: #fff; }
.figures { display: flex; gap: 24px; padding: 16px; width: max-content; }
text { font: 13px system-ui, sans-serif; fill: #1d2730; } .quiet { fill: #5d6b78; }
.title { font-weight: 600; font-size: 15px; } .grid { stroke: #dde3e9; } .axis { stroke: #8a97a3; }
.line { fill: none; stroke-width: 2; } .must { stroke-width: 2; stroke-dasharray: 5 4; }
"""
# Charts: title, unit, and the curves: name, colour, row ids that continue each other over numbers of GPUs.
CHARTS = [
    ("Flash, one sequence behind 4,096 positions", "ms a token",
     [("no drafts", "#3b6fb6", ("decode-even", "decode")), ("two drafts, 2.5 tokens a step", "#c8781e", ("decode-drafts",))]),
    ("Flash, 8,192 in and 1,024 out, closed loop", "tokens/s of a GPU", [("prompts and replies", "#3b6fb6", ("closed",))]),
]


def in_milliseconds(row, value):
    return 1e3 / value if row["unit"] == "tokens/s" else value


def points_of(ids):
    """By number of GPUs: predicted, and measured and wanted or None; of several numbers of clients the best predicted."""
    points = {}
    for count in COUNTS:
        path = bench_rows.RESULTS / f"predicted-h200-x{count}.jsonl"
        _, rows = bench_rows.load_rows(count)
        by_id = {row["id"]: row for row in rows}
        made = [one for one in bench_rows.lines_of(path) if one["id"] in ids]
        if not made:
            continue
        best = max(made, key=lambda one: one["predicted"])
        row = by_id[best["id"]]
        values = [found[0] for one in made if (found := bench_rows.measured(row, clients=one["clients"]))]
        must, _ = bench_rows.limits(row)
        points[count] = {"predicted": in_milliseconds(row, best["predicted"]),
                         "measured": in_milliseconds(row, max(values)) if values else None,
                         "must": in_milliseconds(row, must) if must else None}
    return points


def round_step(most):
    """A step of 1, 2 or 5 times a power of ten that divides the axis in four to eight."""
    power = 10 ** math.floor(math.log10(most / 4))
    return next(factor * power for factor in (1, 2, 5, 10) if most / (factor * power) <= 8)


def chart(title, unit, curves):
    drawn = [(name, colour, points_of(ids)) for name, colour, ids in curves]
    most = max(value for _, _, points in drawn for point in points.values() for value in point.values() if value)
    step = round_step(most)
    top = math.ceil(most / step) * step

    def x_of(count):
        return LEFT + (WIDTH - LEFT - RIGHT) * (0.06 + 0.88 * math.log2(count) / math.log2(COUNTS[-1]))

    def y_of(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [f'<text class="title" x="{LEFT}" y="20">{html.escape(title)}</text>']
    for i in range(round(top / step) + 1):
        y = y_of(i * step)
        label = f"{i * step:,.0f}" if step >= 1 else f"{i * step:g}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text class="quiet" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for count in COUNTS:
        parts.append(f'<text class="quiet" x="{x_of(count):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{count} GPU'
                     f'{"s" if count > 1 else ""}</text>')
    for index, (name, colour, points) in enumerate(drawn):
        line = " ".join(f"{x_of(count):.1f},{y_of(point['predicted']):.1f}" for count, point in points.items())
        parts.append(f'<polyline class="line" stroke="{colour}" points="{line}"/>')
        for count, point in points.items():
            x = x_of(count)
            parts.append(f'<circle cx="{x:.1f}" cy="{y_of(point["predicted"]):.1f}" r="3" fill="#fff" stroke="{colour}"/>')
            if point["must"]:
                y = y_of(point["must"])
                parts.append(f'<line class="must" stroke="{colour}" x1="{x - 16:.1f}" x2="{x + 16:.1f}" y1="{y:.1f}" '
                             f'y2="{y:.1f}"/>')
            if point["measured"]:
                y = y_of(point["measured"])
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>'
                             f'<text x="{x + 11:.1f}" y="{y + (16 if point["measured"] < point["predicted"] else -8):.1f}">'
                             f'{point["measured"]:,.4g}</text>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{TOP + 18 * index + 4}" text-anchor="end" style="fill:{colour}">'
                     f"{html.escape(name)}</text>")
    parts.append(f'<text class="quiet" x="{LEFT}" y="{HEIGHT - 8}">{html.escape(unit)}; ○ and line: predicted, '
                 "● measured, - - must be reached</text>")
    return f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg>'


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    charts = "".join(chart(*one) for one in CHARTS)
    pathlib.Path(sys.argv[1]).write_text(f"<!doctype html><meta charset=utf-8><title>Scaling</title><style>{STYLE}</style>"
                                         f'<div class="figures">{charts}</div>\n')


if __name__ == "__main__":
    main()
