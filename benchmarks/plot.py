"""Draws curves as SVG: one panel per curve, side by side, cost over count."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, GAP = 220, 150, 50
TOP, BOTTOM, LEFT = 34, 40, 40
PADDING = 1.15
"""The ratio of the axis maximum to the highest point."""
COLORS = ("#1f5fa8", "#8a8a8a")
STYLE = "text { font: 11px sans-serif; fill: #222 } .title { font-weight: bold } line, polyline { fill: none }"


class Curve(NamedTuple):
    """The points of one curve.

    Attributes:
        title: What is counted.
        measure: What the costs are relative to.
        counts: The count at each point, increasing.
        costs: The cost at each point, by program; ours is the first.
    """

    title: str
    measure: str
    counts: Sequence[int]
    costs: dict[str, Sequence[float]]


def draw_curves(curves: Sequence[Curve]) -> str:
    """Draw the chart. Points are equally spaced; the vertical axis begins at 0."""
    width, height = LEFT + len(curves) * (WIDTH + GAP), TOP + HEIGHT + BOTTOM
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    parts = [head, f"<style>{STYLE}</style>", f'<rect width="{width}" height="{height}" fill="white"/>']
    for place, curve in enumerate(curves):
        parts += draw_panel(curve, LEFT + place * (WIDTH + GAP))
    return "\n".join([*parts, "</svg>\n"])


def draw_panel(curve: Curve, left: float) -> list[str]:
    most = PADDING * max(cost for costs in curve.costs.values() for cost in costs)
    floor = TOP + HEIGHT
    across = [left + WIDTH * (place + 0.5) / len(curve.counts) for place in range(len(curve.counts))]
    parts = [
        draw_text(left, TOP - 18, curve.title, kind="title"),
        draw_text(left, TOP - 4, curve.measure),
        f'<line x1="{left}" y1="{floor}" x2="{left + WIDTH}" y2="{floor}" stroke="#222"/>',
        f'<line x1="{left}" y1="{TOP}" x2="{left}" y2="{floor}" stroke="#222"/>',
    ]
    parts += [draw_text(x, floor + 14, f"{count:,}", "middle") for x, count in zip(across, curve.counts, strict=True)]
    for mark in choose_ticks(most):
        high = floor - HEIGHT * mark / most
        parts.append(f'<line x1="{left}" y1="{high:.1f}" x2="{left + WIDTH}" y2="{high:.1f}" stroke="#ddd"/>')
        parts.append(draw_text(left - 4, high + 4, f"{mark:g}", "end"))
    for place, (name, costs) in enumerate(curve.costs.items()):
        points = [(x, floor - HEIGHT * cost / most) for x, cost in zip(across, costs, strict=True)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" stroke="{COLORS[place]}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLORS[place]}"/>' for x, y in points]
        if len(curve.costs) > 1:
            parts.append(
                f'<rect x="{left + place * 80}" y="{floor + 22}" width="10" height="10" fill="{COLORS[place]}"/>'
            )
            parts.append(draw_text(left + place * 80 + 14, floor + 31, name))
    return parts


def choose_ticks(most: float) -> list[float]:
    """Return two to five round numbers up to `most`."""
    step = 10.0 ** len(str(int(most)))
    while most / step < 2:
        step /= 2 if str(step)[0] in "124" else 2.5
    return [step * count for count in range(1, int(most / step) + 1)]


def draw_text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(words)}</text>'
