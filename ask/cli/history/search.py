"""`ask history search`: finds words in all conversations."""

from __future__ import annotations

import click

from ask.cli.groups import JSON_OPTION, listing

LIMIT = 20


@listing("search")
@click.argument("words", nargs=-1, required=True)
@click.option("-n", "--limit", metavar="N", type=click.IntRange(0), default=LIMIT, help="Find N (20); 0 finds all.")
@JSON_OPTION
def command(*, words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find the conversations with a message that holds all WORDS, the newest first.

    Neither case nor accents count. "Several words" in quotes are a phrase, and a word with a * behind it stands for
    all that begin so. What tools were called with and what they returned is searched too.
    """
    import time

    from ask.agent.workspace import Workspace
    from ask.console import Console, Output, wants_colour
    from ask.errors import UsageError
    from ask.history.search import match_expression, search
    from ask.history.store import Store
    from ask.render.search_results import as_row, write_hit
    from ask.render.table import write_table
    from ask.text import as_text

    workspace = Workspace()
    output = Output(colour=wants_colour(workspace.environment))
    looked_for = list(map(as_text, words))
    if not match_expression(looked_for):
        raise UsageError("there is no letter or digit in what to search for", "ask history search --help")
    with Store(workspace.history, create=False) as store, store.reading():
        hits = search(store, looked_for, limit or -1)
    if as_json or not output.terminal:
        write_table(output, [as_row(hit) for hit in hits], as_json=as_json)
        return
    now = time.time()
    for hit in hits:
        write_hit(output, hit, now)
    if not hits:
        Console(workspace.environment, quiet=False, plain=False).line("ask: nothing was found")
