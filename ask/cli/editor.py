"""A file of the user's in the user's editor, taken over only where it is valid."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ask.atomic_files import lock_file
from ask.config_file import replace_file_content
from ask.console import StderrConsole
from ask.errors import ConfigError, MissingDependencyError

FileValidator = Callable[[Path], Iterable[str]]
"""Gives the lines that are to be said of a valid file, and raises ConfigError for one that is not."""


def edit_file(path: Path, template: bytes, validate: FileValidator, console: StderrConsole) -> None:
    """Have the user change a file in the editor that VISUAL or EDITOR names.

    Args:
        path: the file.
        template: what the editor shows where there is no file, or an empty one.
        validate: tells of a copy of the file whether it is valid.
        console: takes lines for the user.

    Raises:
        ConfigError: what was written is not valid, or the file was changed meanwhile.
        MissingProgram: the editor failed.
        FileError: the file cannot be written.
    """
    before = read_current_content(path)
    with TemporaryDirectory(prefix="ask-") as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(before or template)
        after = edit_until_valid(copy, path, validate, console)
    if after == (before or template):
        console.print_line("ask: nothing was changed")
        return
    with lock_file(path):
        if read_current_content(path) == before:
            replace_file_content(path, after)
            return
        mine = path.with_name(f"{path.name}.edited")
        replace_file_content(mine, after)
    raise ConfigError(f"{path} was changed meanwhile", f"what you wrote is in {mine}")


def edit_until_valid(copy: Path, path: Path, validate: FileValidator, console: StderrConsole) -> bytes:
    """What the user leaves in a copy, in the end a valid one; `path` is named in what is wrong with it.

    Raises:
        ConfigError: it is not valid, and the user gave it up, or there is no terminal to ask at.
        MissingProgram: the editor failed.
    """
    while True:
        try:
            click.edit(filename=str(copy))
        except click.ClickException as error:
            raise MissingDependencyError(
                error.format_message(), "nothing was changed; EDITOR names another editor"
            ) from None
        try:
            for warning in validate(copy):
                console.print_line(f"ask: {warning.replace(str(copy), str(path))}")
            return copy.read_bytes()
        except ConfigError as error:
            told = error.message.replace(str(copy), str(path))
            if sys.stdin is None or not sys.stdin.isatty():
                raise ConfigError(told, "nothing was changed") from None
            console.print_line(f"ask: {told}: {error.advice}")
        if not confirm_edit_again():
            raise ConfigError("what you wrote is not valid", "nothing was changed")


def confirm_edit_again() -> bool:
    """Whether the user goes on editing; the end of the input is a no."""
    from ask.safety.approval import confirm

    return bool(confirm("Edit it again? No gives up what you wrote.", default=True))


def read_current_content(path: Path) -> bytes:
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
