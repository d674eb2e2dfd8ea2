"""Errors that leave a command are redacted, and printed with a traceback under --verbose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from ask.console import StderrConsole
from ask.errors import AskError, BrokenOutputError, to_ask_error


@contextmanager
def redact_errors(console: StderrConsole, *, verbose: bool) -> Iterator[None]:
    """Redact the errors of a block, and convert unexpected ones to AskError."""
    try:
        yield
    except (BrokenOutputError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:  # noqa: BLE001 - any error may contain a key
        if verbose:
            console.print_line(format_traceback(error))
        ask_error = error if isinstance(error, AskError) else to_ask_error(error)
        ask_error.take_out(console.redact)
        raise ask_error from None


def format_traceback(error: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception(error)).rstrip()
