"""Measures what more of something costs, as ratios: `.venv/bin/python -m benchmarks.curves --page docs/speed.md`.

The picture goes beside the page, under the same name.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import Command, take_turns
from benchmarks.plot import Curve, draw
from benchmarks.report import write_between
from benchmarks.server import Server
from benchmarks.surroundings import Ground


class Series(NamedTuple):
    """What is measured for one curve.

    Attributes:
        title: what there is more of.
        counts: how much of it.
        ask: our program, given that much.
        bare: the bare script, given that much; None where it knows nothing of it.
        runs: how often at most.
    """

    title: str
    counts: Sequence[int]
    ask: Callable[[Ground, int], Command]
    bare: Callable[[Ground, int], Command] | None = None
    runs: int = 1000


SERIES: Mapping[str, Series] = {
    "rounds": Series(
        "Rounds of tool calls",
        (1, 10, 100),
        lambda ground, count: ground.ask("--max-rounds", str(count + 1), f"rounds {count}"),
        lambda ground, count: ground.bare(f"rounds {count}"),
        5,
    ),
    "events": Series(
        "Streamed events",
        (1_000, 10_000, 100_000),
        lambda ground, count: ground.ask(f"events {count}"),
        lambda ground, count: ground.bare(f"events {count}"),
        5,
    ),
    "distributions": Series(
        "Further installed distributions",
        (0, 100, 300),
        lambda ground, count: ground.ask("hi", home=f"beside-{count}", path=ground.distributions(count)),
    ),
    "conversations": Series(
        "Saved conversations, going on (-c)",
        (0, 1_000, 10_000),
        lambda ground, count: ground.ask("-c", "hi", home=ground.saved(count), before=["hi"]),
    ),
}


def main() -> None:
    """Measure, print the points, and put them into the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=__doc__)
    parser.add_argument("series", nargs="*", metavar="SERIES", help=f"one of {', '.join(SERIES)}; all without any")
    parser.add_argument("--runs", type=int, default=11, metavar="N", help="of each point (11; slow ones run less)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put them into this page, and the picture beside it")
    given = parser.parse_args()
    if unknown := set(given.series) - set(SERIES):
        parser.error(f"there is no series {', '.join(sorted(unknown))}")
    if given.runs < 1:
        parser.error("--runs needs at least 1")
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder), server.url)
        curves = [measure(SERIES[name], ground, server, given.runs) for name in given.series or SERIES]
    print(points(curves))
    if given.page:
        write_between(given.page, "curves", points(curves))
        given.page.with_suffix(".svg").write_text(draw(curves))


def measure(series: Series, ground: Ground, server: Server, runs: int) -> Curve:
    """One curve: as a ratio to the bare script where it can do the same, else to the first point."""
    print(f"{series.title} ...", file=sys.stderr)
    commands = {f"ask {count}": series.ask(ground, count) for count in series.counts}
    if series.bare:
        commands |= {f"bare {count}": series.bare(ground, count) for count in series.counts}
    turns = take_turns(commands, server, min(runs, series.runs))

    def cost(one: str, other: str) -> float:
        return statistics.median(turn[one]["whole"] / turn[other]["whole"] for turn in turns)

    first, counts = series.counts[0], series.counts
    if not series.bare:
        return Curve(
            series.title, f"x that with {first}", counts, {"ask": [cost(f"ask {n}", f"ask {first}") for n in counts]}
        )
    ours = [cost(f"ask {count}", f"bare {count}") for count in counts]
    return Curve(series.title, "x the bare script with as many", counts, {"ask": ours, "bare": [1.0] * len(counts)})


def points(curves: Sequence[Curve]) -> str:
    """The points as a table."""
    rows = ["| More of | Measured as | Points |", "|---|---|---|"]
    for curve in curves:
        costs = next(iter(curve.costs.values()))
        told = ", ".join(f"{count:,}: {cost:.2f}x" for count, cost in zip(curve.counts, costs, strict=True))
        rows.append(f"| {curve.title} | {curve.measure} | {told} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
