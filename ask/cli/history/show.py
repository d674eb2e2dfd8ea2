"""`ask history show`: a conversation as the terminal showed it."""

from __future__ import annotations

import click

from ask.cli.groups import listing


@listing("show")
@click.argument("wanted", metavar="[ID]", required=False)
@click.option("-n", "--last", metavar="N", type=click.IntRange(1), help="Show the last N runs.")
@click.option("--tools", is_flag=True, help="Show tool calls with all arguments and their results.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, as an export holds it.")
def command(*, wanted: str | None, last: int | None, tools: bool, as_json: bool) -> None:
    """Show a conversation, the newest where none is named.

    ID is an id, a beginning of it that no other has, or a number in the list.
    """
    import json

    from ask.agent.workspace import Workspace
    from ask.console import Output, wants_colour
    from ask.history.conversations import find
    from ask.history.entries import read_runs
    from ask.history.export_format import Saved, as_value
    from ask.history.listing import newest
    from ask.history.store import Store
    from ask.render.transcript import Transcript
    from ask.text import as_text

    workspace = Workspace()
    output = Output(colour=wants_colour(workspace.environment))
    with Store(workspace.history, create=False) as store, store.reading():
        conversation = find(store, as_text(wanted)) if wanted is not None else newest(store)
        runs = read_runs(store, conversation)
    runs = runs[-last:] if last else runs
    if as_json:
        output.write(json.dumps(as_value(Saved(conversation, runs)), ensure_ascii=False, indent=2) + "\n")
    else:
        Transcript(output, tools=tools).write(runs)
