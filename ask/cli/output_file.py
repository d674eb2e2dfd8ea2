"""The output files of commands, as -o and --html name them: exports and reports."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ask.atomic_files import Ownership, replace_file
from ask.config.directories import AppDirs
from ask.console import StandardOutput
from ask.errors import BrokenOutputError, FileError, UsageError

STDOUT_NAME = "-"
DOCUMENT_SUFFIXES = (".pdf", ".doc", ".docx", ".odt", ".rtf")
"""Suffixes of files that programs could not open, because they would contain HTML or Markdown."""


def check_document_name(output: str, suffixes: str) -> None:
    """Raise `UsageError` if the name of an output file promises a format that is not written."""
    if Path(output).suffix.lower() in DOCUMENT_SUFFIXES:
        hint = f"use a name that ends in {suffixes}; a browser prints HTML as PDF"
        raise UsageError(f"cannot write {output} in the format of its name", hint)


def write_output(output: str, chunks: Iterable[str]) -> None:
    """Write text to a file, which is replaced only after everything is written, or to standard output for "-".

    A symbolic link is followed, unless a tool call may have left it. A path that is not a regular file, such as
    /dev/stdout or a pipe, is written directly.

    Raises:
        FileError: the file cannot be written.
        BrokenOutputError: it is a pipe whose reader has closed it.
    """
    if output == STDOUT_NAME:
        standard_output = StandardOutput()
        for chunk in chunks:
            standard_output.write(chunk)
        return
    from ask.config.symbolic_links import resolve_output

    target = resolve_output(output, AppDirs.from_environment(os.environ))
    content = (chunk.encode(errors="replace") for chunk in chunks)
    try:
        if os.path.exists(output) and not target.is_file():
            with open(output, "wb") as file:
                file.writelines(content)
        else:
            replace_file(target, content, Ownership.from_status(target.stat()) if target.exists() else None)
    except BrokenPipeError:
        raise BrokenOutputError("standard output was closed by its reader") from None
    except OSError as error:
        raise FileError(f"cannot write {output} ({error.strerror})") from error
