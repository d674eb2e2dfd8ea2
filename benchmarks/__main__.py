"""Measures `ask` against a minimal script, and against similar programs if installed, in one run.

`.venv/bin/python -m benchmarks` runs every case; `python -m benchmarks --runs 5 answer events` runs some of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.cases import CASES, Turn
from benchmarks.environment import BenchmarkEnvironment
from benchmarks.measurement import measure_in_turns
from benchmarks.report import format_json, format_markdown, format_table, write_between
from benchmarks.server import Server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"one of {', '.join(CASES)} (default: all)")
    parser.add_argument(
        "--runs", type=int, default=15, metavar="N", help="runs of each program (15; fewer for slow ones)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results to this file")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the table to this page; keeps the rows of other cases"
    )
    given = parser.parse_args()
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"unknown case {', '.join(sorted(unknown))}")
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    measured: dict[str, list[Turn]] = {}
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        env = BenchmarkEnvironment(Path(folder), server.url)
        try:
            for name in given.cases or CASES:
                print(f"{name} ...", file=sys.stderr)
                case = CASES[name]
                measured[name] = measure_in_turns(case.commands(env), server, min(given.runs, case.runs))
        except KeyboardInterrupt:
            print("\rinterrupted; results so far:", file=sys.stderr)
    print(format_table(measured))
    if given.json:
        given.json.write_text(format_json(measured))
    if given.page:
        write_between(given.page, "measured", format_markdown(measured), keep_rows=bool(given.cases))


if __name__ == "__main__":
    main()
