"""A file of the user's in the user's editor, taken over only where it is valid."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ask.atomic_files import locked
from ask.config_file import write
from ask.console import Console
from ask.errors import ConfigError, MissingProgram

Check = Callable[[Path], Iterable[str]]
"""Gives the lines that are to be said of a valid file, and raises ConfigError for one that is not."""


def edit_file(path: Path, template: bytes, check: Check, console: Console) -> None:
    """Have the user change a file in the editor that VISUAL or EDITOR names.

    Args:
        path: the file.
        template: what the editor shows where there is no file, or an empty one.
        check: tells of a copy of the file whether it is valid.
        console: takes lines for the user.

    Raises:
        ConfigError: what was written is not valid, or the file was changed meanwhile.
        MissingProgram: the editor failed.
        FileError: the file cannot be written.
    """
    before = content(path)
    with TemporaryDirectory(prefix="ask-") as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(before or template)
        after = edited(copy, path, check, console)
    if after == (before or template):
        console.line("ask: nothing was changed")
        return
    with locked(path):
        if content(path) == before:
            write(path, after)
            return
        mine = path.with_name(f"{path.name}.edited")
        write(mine, after)
    raise ConfigError(f"{path} was changed meanwhile", f"what you wrote is in {mine}")


def edited(copy: Path, path: Path, check: Check, console: Console) -> bytes:
    """What the user leaves in a copy, in the end a valid one; `path` is named in what is wrong with it.

    Raises:
        ConfigError: it is not valid, and the user gave it up, or there is no terminal to ask at.
        MissingProgram: the editor failed.
    """
    while True:
        try:
            click.edit(filename=str(copy))
        except click.ClickException as error:
            raise MissingProgram(error.format_message(), "nothing was changed; EDITOR names another editor") from None
        try:
            for warning in check(copy):
                console.line(f"ask: {warning.replace(str(copy), str(path))}")
            return copy.read_bytes()
        except ConfigError as error:
            told = error.message.replace(str(copy), str(path))
            if sys.stdin is None or not sys.stdin.isatty():
                raise ConfigError(told, "nothing was changed") from None
            console.line(f"ask: {told}: {error.advice}")
        if not wants_more():
            raise ConfigError("what you wrote is not valid", "nothing was changed")


def wants_more() -> bool:
    """Whether the user goes on editing; the end of the input is a no."""
    from ask.safety.approval import confirm

    return bool(confirm("Edit it again? No gives up what you wrote.", default=True))


def content(path: Path) -> bytes:
    """What the file holds; nothing where there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as fault:
        raise ConfigError(f"cannot read {path} ({fault.strerror})") from fault
