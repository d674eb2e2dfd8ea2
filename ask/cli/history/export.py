"""`ask history export`: conversations as Markdown to read, JSON to import again, or a web page to pass on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ask.cli.groups import WordedCommand

if TYPE_CHECKING:
    from ask.agent.workspace import Workspace
    from ask.console import Output
    from ask.history.entries import Conversation
    from ask.history.store import Store
    from ask.render.file_output import FileOutput

FORMATS = ("md", "json", "html")
ENDINGS = {".json": "json", ".jsonl": "json", ".html": "html", ".htm": "html"}
"""What a file's name asks for; any other asks for Markdown."""
STDOUT = "-"


@click.command("export", cls=WordedCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Export all conversations, the oldest first.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Write it so; else as the file's name ends, or md.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("-o", "--output", metavar="FILE", default=STDOUT, help="Write to this file, in place of what it holds.")
def command(*, ids: tuple[str, ...], everything: bool, form: str | None, as_json: bool, output: str) -> None:
    """Export conversations, by default the newest, named as --resume takes them.

    JSON has a line for each conversation, with all there is; ask history import reads it. A web page needs nothing
    else: no network, no scripts.
    """
    from ask.agent.workspace import Workspace
    from ask.errors import UsageError

    if ids and everything:
        raise UsageError("--all and an ID name different things", "use one of them")
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form} name different formats", "use one of them")
    form = "json" if as_json else form or ""
    export(Workspace(), ids, output, form, everything=everything)


def export(workspace: Workspace, ids: Iterable[str], output: str, form: str = "", *, everything: bool = False) -> None:
    """Write conversations to a file, or to standard output for "-".

    Args:
        workspace: where they are saved.
        ids: which, as --resume takes them; none for the newest.
        output: the file.
        form: one of `FORMATS`; "" for what the file's name asks for.
        everything: all there are.

    Raises:
        UsageError: there is no such conversation.
        FileError: one of the files cannot be read or written.
    """
    from ask.console import Output
    from ask.history.store import Store

    form = form or ENDINGS.get(Path(output).suffix.lower(), "md")
    with Store(workspace.history, create=False) as store, store.reading():
        pieces = written(form, store, chosen(store, ids, everything=everything))
        if output == STDOUT:
            write(pieces, Output())
        else:
            from ask.render.file_output import FileOutput

            with FileOutput(Path(output)) as file:
                write(pieces, file)


def chosen(store: Store, ids: Iterable[str], *, everything: bool) -> list[Conversation]:
    """The conversations to export.

    Raises:
        UsageError: there is no such one, or none at all.
    """
    from ask.errors import UsageError
    from ask.history.conversations import find
    from ask.history.entries import Conversation
    from ask.text import as_text

    if everything:
        return [Conversation(*row) for row in store.rows("SELECT * FROM conversations ORDER BY number")]
    if not ids and not store.rows("SELECT 1 FROM conversations LIMIT 1"):
        raise UsageError("there is no conversation to export", "they are saved as you ask")
    return list(dict.fromkeys(find(store, as_text(wanted)) for wanted in ids or ("1",)))


def written(form: str, store: Store, conversations: list[Conversation]) -> Iterator[str]:
    """The export, piece by piece; each conversation is read when its turn comes."""
    from ask.history.entries import read_runs

    if form == "json":
        from ask.history.export_format import Saved, as_line

        return (as_line(Saved(conversation, read_runs(store, conversation))) for conversation in conversations)
    if form == "html":
        from ask.render.html_page import as_page

        return as_page(conversations, lambda conversation: read_runs(store, conversation))
    from ask.render.markdown import as_document

    return as_document(conversations, lambda conversation: read_runs(store, conversation))


def write(pieces: Iterable[str], output: Output | FileOutput) -> None:
    """Write the pieces in order."""
    for piece in pieces:
        output.write(piece)
