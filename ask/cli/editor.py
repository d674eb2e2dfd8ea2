"""The user's editor, for the messages of a chat and for configuration files, which are saved only if they are valid."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ask.atomic_files import lock_file
from ask.cli.click_helpers import print_notice
from ask.config.config_editor import replace_file_content
from ask.errors import ConfigError, FileError, MissingDependencyError
from ask.regular_files import read_regular_file


def edit_file(path: Path, template: bytes, validate: Callable[[Path], object]) -> None:
    """Let the user edit a file in the editor that VISUAL or EDITOR names.

    `template` is shown if the file does not exist or is empty. `validate` is called with a temporary copy of the
    file, and raises ConfigError if it is invalid.

    Raises:
        ConfigError: the new content is not valid, or the file was changed meanwhile.
        MissingDependencyError: the editor failed.
        FileError: the file cannot be written, or the user has removed the copy.
    """
    old_content = _read_current_content(path)
    with TemporaryDirectory(prefix="ask-") as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(old_content or template)
        new_content = _edit_until_valid(copy, path, validate)
    if new_content == (old_content or template):
        print_notice("no changes were saved")
        return
    with lock_file(path):
        if _read_current_content(path) == old_content:
            replace_file_content(path, new_content)
            return
        saved_copy = path.with_name(f"{path.name}.edited")
        replace_file_content(saved_copy, new_content)
        raise ConfigError(f"{path} was changed by another program", f"your version is in {saved_copy}")


def _edit_until_valid(copy: Path, path: Path, validate: Callable[[Path], object]) -> bytes:
    """Open the editor until the copy is valid; return its content.

    Errors name `path` instead of the copy.

    Raises:
        ConfigError: the content is not valid, and the user gave up or there is no terminal to ask on.
        MissingDependencyError: the editor failed.
        FileError: the user has removed the copy.
    """
    from ask.safety.approval import confirm

    while True:
        content = open_in_editor(copy)
        try:
            validate(copy)
        except ConfigError as error:
            message = error.message.replace(str(copy), str(path))
            if sys.stdin is None or not sys.stdin.isatty():
                raise ConfigError(message, "no changes were saved") from None
            print_notice(f"{message}: {error.hint}")
        else:
            return content
        if not confirm("Edit it again? No discards your changes.", default=True):
            raise ConfigError("the edited text is not valid", "no changes were saved")


def open_in_editor(copy: Path) -> bytes:
    """Let the user edit a temporary file; return its content.

    Raises:
        MissingDependencyError: the editor failed.
        FileError: the user has removed the file.
    """
    variable = "VISUAL" if os.environ.get("VISUAL") else "EDITOR"  # VISUAL takes precedence
    hint = f"no changes were saved; set {variable} to use another editor"
    try:
        click.edit(filename=str(copy))
        return copy.read_bytes()
    except ValueError as error:  # of shlex
        raise MissingDependencyError(f"{variable} is not a valid command ({error})", hint) from None
    except click.ClickException as error:
        reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else "it failed"
        editor = error.format_message().partition(": Editing failed")[0]
        raise MissingDependencyError(f"cannot use the editor {editor} ({reason})", hint) from None
    except OSError as error:
        raise FileError(f"cannot read the edited text ({error.strerror})", "no changes were saved") from None


def _read_current_content(path: Path) -> bytes:
    """Read the file; return b"" if it does not exist."""
    return read_regular_file(path) if path.exists() else b""
