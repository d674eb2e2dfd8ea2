"""`ask history list`: the conversations, the newest first."""

from __future__ import annotations

import click

from ask.cli.groups import JSON_OPTION, listing

ON_A_TERMINAL = 20
"""How many are listed there, where nothing else is said."""


@listing("list")
@click.option("-n", "--limit", metavar="N", type=click.IntRange(0), help="List the newest N; 0 lists all.")
@click.option("--here", is_flag=True, help="List those that took place in this directory.")
@JSON_OPTION
def command(*, limit: int | None, here: bool, as_json: bool) -> None:
    """List the conversations, the newest first: the newest 20 on a terminal, all in a pipe.

    The number, the id and any beginning of it that no other has name a conversation, also for --resume.
    """
    import os
    import time

    from ask.console import Console, Output
    from ask.history.listing import ALL, overviews
    from ask.history.store import Store
    from ask.render.conversation_table import as_line, as_table_row, as_value
    from ask.render.table import write_table
    from ask.settings import Places

    # Not by way of a workspace, which loads all that providers need.
    history, output = Places.find(os.environ).history, Output()
    console = Console(os.environ, quiet=not output.terminal, plain=False)
    to_terminal = output.terminal and not as_json
    wanted = limit if limit is not None else ON_A_TERMINAL if to_terminal else 0
    directory = this_directory() if here else ""
    with Store(history, create=False) as store:
        found = overviews(store, wanted + 1 if wanted else ALL, directory, details=as_json)
    listed = found[: wanted or None]
    if as_json:
        write_table(output, [as_value(overview) for overview in listed], as_json=True)
    elif to_terminal:
        now = time.time()
        write_table(output, [as_table_row(overview, now) for overview in listed], as_json=False)
    else:
        output.write("".join(map(as_line, listed)))
    if not found:
        console.line("ask: no conversation is saved" + (" from this directory" if here else ""))
    elif limit is None and len(found) > len(listed):
        console.dim(f"· the newest {ON_A_TERMINAL}; -n 0 lists all\n")


def this_directory() -> str:
    """The working directory as runs are saved with it.

    Raises:
        FileError: it is gone.
    """
    from ask.settings import working_directory
    from ask.text import as_text

    return as_text(str(working_directory()))
