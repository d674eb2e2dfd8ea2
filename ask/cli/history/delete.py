"""`ask history delete`: deletes conversations, once the user has said yes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ask.cli.groups import JSON_OPTION, listing

if TYPE_CHECKING:
    from ask.console import Console
    from ask.history.entries import Conversation
    from ask.history.store import Store

SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
SHOWN = 10
"""How many are named before the question; what goes is named one by one."""


def span(text: str) -> float:
    """A length of time such as 30d, in seconds.

    Raises:
        click.BadParameter: it is none.
    """
    match = re.fullmatch(r"([0-9]{1,6})([hdwy])", text)
    if not match:
        raise click.BadParameter(f"{text!r} is no length of time such as 12h, 30d, 8w or 1y")
    return int(match[1]) * SECONDS[match[2]]


@listing("delete")
@click.argument("wanted", metavar="[ID]...", nargs=-1)
@click.option("--older-than", metavar="AGE", type=span, help="Those not gone on with for so long: 12h, 30d, 8w, 1y.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@JSON_OPTION
def command(*, wanted: tuple[str, ...], older_than: float | None, yes: bool, as_json: bool) -> None:
    """Delete conversations for good. On a terminal it asks first.

    ID is an id, a beginning of it that no other has, or a number in the list. What tools wrote, and the log of what
    they did, stay.
    """
    from ask.agent.workspace import Workspace
    from ask.console import Console, Output
    from ask.errors import UsageError
    from ask.history.deletion import delete
    from ask.history.store import Store
    from ask.render.table import write_table
    from ask.text import as_text, one_line
    from ask.undo.pruning import forget

    if not wanted and older_than is None:
        raise UsageError("nothing is named to delete", "ask history delete ID, or --older-than AGE")
    workspace, output = Workspace(), Output()
    console = Console(workspace.environment, quiet=False, plain=False)
    with Store(workspace.history, create=False) as store:
        chosen = choose(store, list(map(as_text, wanted)), older_than)
        if chosen and not yes:
            confirm(chosen, console)
        if chosen:
            delete(store, chosen)
            forget(workspace.places.data, {conversation.id for conversation in chosen})
    for conversation in [] if as_json else chosen:
        console.line(f"Deleted {conversation.id} {one_line(conversation.title)}")
    if as_json:
        rows = [{"id": conversation.id, "title": conversation.title} for conversation in chosen]
        write_table(output, rows, as_json=True)
    elif not chosen:
        console.line("ask: no conversation is that old")


def choose(store: Store, wanted: Sequence[str], older_than: float | None) -> list[Conversation]:
    """The conversations that are named or old, each once.

    Raises:
        UsageError: one that is named does not exist.
        FileError: the history cannot be read.
    """
    import time

    from ask.history.conversations import find
    from ask.history.deletion import not_used_since

    with store.reading():
        found = [find(store, name) for name in wanted]
        if older_than is not None:
            found += not_used_since(store, time.time() - older_than)
    return list(dict.fromkeys(found))


def confirm(chosen: Sequence[Conversation], console: Console) -> None:
    """Ask whether to delete them.

    Raises:
        UsageError: nobody can be asked.
        click.Abort: the answer is no.
    """
    import sys

    from ask.errors import UsageError
    from ask.safety import approval
    from ask.text import one_line

    if sys.stdin is None or not sys.stdin.isatty() or not console.terminal:
        raise UsageError("nobody can be asked whether to delete", "--yes deletes without asking")
    for conversation in chosen[:SHOWN]:
        console.line(f"{conversation.id}  {one_line(conversation.title)}")
    if len(chosen) > SHOWN:
        console.line(f"and {len(chosen) - SHOWN} more")
    what = "this conversation" if len(chosen) == 1 else f"these {len(chosen)} conversations"
    if not approval.confirm(f"Delete {what}?"):
        raise click.Abort
