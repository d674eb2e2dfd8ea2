"""Measures how run time grows, as ratios: `.venv/bin/python -m benchmarks.curves --page docs/speed.md`.

The chart is saved next to the page with the suffix .svg.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.environment import BenchmarkEnvironment
from benchmarks.measurement import Command, measure_in_turns
from benchmarks.plot import Curve, draw_curves
from benchmarks.report import write_between
from benchmarks.server import Server


class Series(NamedTuple):
    """The measurements of one curve.

    Attributes:
        title: What is counted.
        counts: The counts to measure at.
        ask: Creates our command for a count.
        bare: Creates the command of the baseline script; None if it has no such feature.
        runs: The largest number of turns.
    """

    title: str
    counts: Sequence[int]
    ask: Callable[[BenchmarkEnvironment, int], Command]
    bare: Callable[[BenchmarkEnvironment, int], Command] | None = None
    runs: int = 1000


SERIES: Mapping[str, Series] = {
    "rounds": Series(
        "Rounds of tool calls",
        (1, 10, 100),
        lambda env, count: env.ask("--max-rounds", str(count + 1), f"rounds {count}"),
        lambda env, count: env.bare(f"rounds {count}"),
        5,
    ),
    "events": Series(
        "Streamed events",
        (1_000, 10_000, 100_000),
        lambda env, count: env.ask(f"events {count}"),
        lambda env, count: env.bare(f"events {count}"),
        5,
    ),
    "distributions": Series(
        "Additional installed packages",
        (0, 100, 300),
        lambda env, count: env.ask("hi", home=f"beside-{count}", path=env.create_distributions(count)),
    ),
    "conversations": Series(
        "Saved conversations, with -c",
        (0, 1_000, 10_000),
        lambda env, count: env.ask("-c", "hi", home=env.create_history(count), before=["hi"]),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=__doc__)
    parser.add_argument("series", nargs="*", metavar="SERIES", help=f"one of {', '.join(SERIES)} (default: all)")
    parser.add_argument(
        "--runs", type=int, default=11, metavar="N", help="runs of each point (11; fewer for slow ones)"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the table to this page, and the chart next to it"
    )
    given = parser.parse_args()
    if unknown := set(given.series) - set(SERIES):
        parser.error(f"there is no series {', '.join(sorted(unknown))}")
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        env = BenchmarkEnvironment(Path(folder), server.url)
        curves = [measure_series(SERIES[name], env, server, given.runs) for name in given.series or SERIES]
    print(format_points(curves))
    if given.page:
        write_between(given.page, "curves", format_points(curves))
        given.page.with_suffix(".svg").write_text(draw_curves(curves))


def measure_series(series: Series, env: BenchmarkEnvironment, server: Server, runs: int) -> Curve:
    """Measure one curve, as a ratio to the baseline script if possible, else to the first point."""
    print(f"{series.title} ...", file=sys.stderr)
    commands = {f"ask {count}": series.ask(env, count) for count in series.counts}
    if series.bare:
        commands |= {f"bare {count}": series.bare(env, count) for count in series.counts}
    turns = measure_in_turns(commands, server, min(runs, series.runs))

    def cost(one: str, other: str) -> float:
        return statistics.median(turn[one]["whole"] / turn[other]["whole"] for turn in turns)

    first, counts = series.counts[0], series.counts
    if not series.bare:
        return Curve(
            series.title, f"relative to {first}", counts, {"ask": [cost(f"ask {n}", f"ask {first}") for n in counts]}
        )
    ours = [cost(f"ask {count}", f"bare {count}") for count in counts]
    return Curve(series.title, "relative to the bare script", counts, {"ask": ours, "bare": [1.0] * len(counts)})


def format_points(curves: Sequence[Curve]) -> str:
    """Format the points as a Markdown table."""
    rows = ["| Number of | Total time | Ratio at each number |", "|---|---|---|"]
    for curve in curves:
        costs = next(iter(curve.costs.values()))
        points_text = ", ".join(f"{count:,}: {cost:.2f}x" for count, cost in zip(curve.counts, costs, strict=True))
        rows.append(f"| {curve.title} | {curve.measure} | {points_text} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
