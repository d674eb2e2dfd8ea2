"""`ask history import`: takes in conversations that `ask history export --format json` wrote, all or none."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from ask.cli.groups import WordedCommand

if TYPE_CHECKING:
    from ask.history.export_format import Saved
    from ask.history.importer import Taken

STDIN = "-"
Source = tuple[str, BinaryIO]
"""A file to read, and what errors call it."""


@click.command("import", cls=WordedCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--as-new", is_flag=True, help="Give one whose id stands for another conversation here a new id.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of what became of each.")
def command(*, files: tuple[str, ...], as_new: bool, as_json: bool) -> None:
    """Import conversations from FILE, or from standard input: all in it, or none.

    One that is here already is left alone. One that differs from what is here under its id is refused.
    """
    from ask.agent.request import new_id
    from ask.agent.workspace import Workspace
    from ask.errors import UsageError
    from ask.history.importer import take_in
    from ask.history.store import Store

    if (STDIN in files or not files) and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("there is nothing to import", "name a file that ask history export --json wrote")
    with ExitStack() as stack:
        sources = [stack.enter_context(opened(name)) for name in files or (STDIN,)]
        for _ in arriving(sources):
            pass  # all of it is read once before any is saved, so that no other process waits for a slow reader
        with Store(Workspace().history) as store:
            taken = take_in(store, arriving(sources), new_id if as_new else None)
    tell(taken, as_json=as_json)


@contextmanager
def opened(name: str) -> Iterator[Source]:
    """The file of that name, or a copy of it, so that it can be read more than once.

    Raises:
        FileError: it cannot be read.
    """
    from shutil import copyfileobj
    from tempfile import TemporaryFile

    from ask.errors import FileError
    from ask.text import as_text

    shown = "standard input" if name == STDIN else as_text(name)
    with ExitStack() as stack:
        try:
            file = sys.stdin.buffer if name == STDIN else stack.enter_context(Path(name).open("rb"))
            if name == STDIN or not Path(name).is_file():
                copy = stack.enter_context(TemporaryFile())
                copyfileobj(file, copy)
                file = copy
        except (OSError, ValueError) as fault:
            raise FileError(f"cannot read {shown} ({getattr(fault, 'strerror', None) or fault})") from fault
        yield shown, file


def arriving(sources: Sequence[Source]) -> Iterator[Saved]:
    """All conversations in the files."""
    from ask.history.export_format import read_saved

    for name, file in sources:
        file.seek(0)
        yield from read_saved(file, name)


def tell(taken: Sequence[Taken], *, as_json: bool) -> None:
    """Say what became of the conversations."""
    from ask.history.importer import Became

    if as_json:
        from ask.console import Output
        from ask.render.table import write_table

        write_table(Output(), [{**one._asdict(), "became": one.became.value} for one in taken], as_json=True)
        return
    for one in taken:
        if one.became is Became.RENAMED:
            click.echo(f"{one.id} stands for another conversation here; imported as {one.here}.", err=True)
    present = sum(one.became is Became.PRESENT for one in taken)
    imported = len(taken) - present
    if imported or not present:
        click.echo(f"Imported {counted(imported)}.", err=True)
    if present:
        click.echo(f"Left {counted(present)} alone, already here.", err=True)


def counted(number: int) -> str:
    """So many conversations, in words."""
    return "1 conversation" if number == 1 else f"{number:,} conversations"
