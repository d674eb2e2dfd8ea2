"""`ask history list`: the conversations, the newest first."""

from __future__ import annotations

import click

from ask.cli.listing import JSON_OPTION, listing

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
    import time

    from ask.cli.workspace import Workspace
    from ask.history.overviews import ALL, overviews
    from ask.history.store import Store
    from ask.render.overviews import as_row, as_table_row, as_value
    from ask.render.streams import Console, Output
    from ask.render.table import write_table

    workspace, output = Workspace(), Output()
    console = Console(workspace.environment, quiet=not output.terminal, plain=False)
    to_terminal = output.terminal and not as_json
    wanted = limit if limit is not None else ON_A_TERMINAL if to_terminal else 0
    directory = this_directory() if here else ""
    with Store(workspace.history, create=False) as store:
        found = overviews(store, wanted + 1 if wanted else ALL, directory)
    listed = found[: wanted or None]
    if as_json:
        rows = [as_value(overview) for overview in listed]
    elif to_terminal:
        now = time.time()
        rows = [as_table_row(overview, now) for overview in listed]
    else:
        rows = [as_row(overview) for overview in listed]
    write_table(output, rows, as_json=as_json)
    if not found:
        console.line("ask: no conversation is saved" + (" from this directory" if here else ""))
    elif limit is None and len(found) > len(listed):
        console.dim(f"· the newest {ON_A_TERMINAL}; -n 0 lists all\n")


def this_directory() -> str:
    """The working directory as runs are saved with it.

    Raises:
        FileError: it is gone.
    """
    from ask.cli.inputs import as_text
    from ask.cli.question import working_directory

    return as_text(str(working_directory()))
