"""The results of the checks of `ask doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ask.console import StandardOutput
from ask.records import NamedTuple
from ask.render.table import write_table

OK, NOTE, WARNING, PROBLEM = "ok", "note", "warning", "problem"


class CheckResult(NamedTuple):
    """The result of one check.

    Attributes:
        state: `OK`, `NOTE` for what is not set up and need not be, `WARNING` for a possible problem, or `PROBLEM` if
            something does not work.
        check: the subject of the check.
        found: the state of the subject.
        fix: how to fix it; "" if nothing needs to be done.
    """

    state: str
    check: str
    found: str
    fix: str = ""


ok, note, warning, problem = (partial(CheckResult, state) for state in (OK, NOTE, WARNING, PROBLEM))


def print_results(results: Iterable[CheckResult], *, as_json: bool) -> int:
    """Print a table of results, problems first; return the number of problems.

    On a terminal, `found` includes the fix.
    """
    results = sorted(results, key=lambda result: (PROBLEM, WARNING, NOTE, OK).index(result.state))
    rows = [result._asdict() for result in results]
    if not as_json and StandardOutput().is_terminal:
        for row in rows:
            row["found"] = ": ".join(filter(None, (row["found"], row.pop("fix"))))
    write_table(rows, as_json=as_json, wrapped="found")
    return sum(result.state == PROBLEM for result in results)
