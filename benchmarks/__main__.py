"""Measures `ask` beside the bare script, and beside its peers where they are installed, in one run.

`.venv/bin/python -m benchmarks` runs every case; with names, those: `python -m benchmarks --runs 5 answer events`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.cases import CASES, Turn
from benchmarks.measuring import take_turns
from benchmarks.report import as_json, markdown, table, write_between
from benchmarks.server import Server
from benchmarks.surroundings import Ground


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"one of {', '.join(CASES)}; all without any")
    parser.add_argument("--runs", type=int, default=15, metavar="N", help="of each program (15; slow ones run less)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it there too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into this page")
    given = parser.parse_args()
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    if given.runs < 1:
        parser.error("--runs needs at least 1")
    measured: dict[str, list[Turn]] = {}
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder), server.url)
        try:
            for name in given.cases or CASES:
                print(f"{name} ...", file=sys.stderr)
                case = CASES[name]
                measured[name] = take_turns(case.commands(ground), server, min(given.runs, case.runs))
        except KeyboardInterrupt:
            print("\rinterrupted; this is what was measured", file=sys.stderr)
    print(table(measured))
    if given.json:
        given.json.write_text(as_json(measured))
    if given.page:
        write_between(given.page, "measured", markdown(measured))


if __name__ == "__main__":
    main()
