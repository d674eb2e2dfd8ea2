"""`ask history stats`: what was used, by day, model and tool."""

from __future__ import annotations

import click

from ask.cli.groups import listing

DAYS = 30
MOST_DAYS = 100_000


@listing("stats")
@click.option(
    "--days", metavar="N", type=click.IntRange(1, MOST_DAYS), default=DAYS, help="Count the last N days (30)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, days: int, as_json: bool) -> None:
    """Tell runs, tokens and cost by day and model, and calls by tool, of the last 30 days.

    A bar is in proportion to the tokens, or to the calls. A pipe gets rows that begin with day, model or tool. What is
    not saved is not counted.
    """
    import json
    from datetime import date, datetime, time, timedelta

    from ask.agent.workspace import Workspace
    from ask.console import Console, Output
    from ask.history.statistics import statistics
    from ask.history.store import Store
    from ask.render.chart import as_value, write_charts

    workspace, output = Workspace(), Output()
    first = date.today() - timedelta(days=days - 1)
    since = datetime.combine(first, time()).timestamp()
    with Store(workspace.history, create=False) as store, store.reading():
        used = statistics(store, since)
    if as_json:
        output.write(json.dumps({"since": first.isoformat(), **as_value(used)}, indent=2, ensure_ascii=False) + "\n")
    elif used.total.runs:
        write_charts(output, used, first.isoformat())
    elif output.terminal:
        Console(workspace.environment, quiet=False, plain=False).line("ask: no run is saved from these days")
