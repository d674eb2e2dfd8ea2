"""Errors on their way out of a command: redacted, and with a traceback under --verbose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from ask.console import StderrConsole
from ask.errors import AskError, BrokenOutputError, to_ask_error


@contextmanager
def redact_errors(console: StderrConsole, *, verbose: bool) -> Iterator[None]:
    """Takes the keys out of an error on its way up, gives an unforeseen one a message, and shows where it arose."""
    try:
        yield
    except (BrokenOutputError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as fault:  # noqa: BLE001 - whatever it is, no key may be in it
        if verbose:
            console.print_line(format_traceback(fault))
        failure = fault if isinstance(fault, AskError) else to_ask_error(fault)
        failure.take_out(console.redact)
        raise failure from None


def format_traceback(error: Exception) -> str:
    """Where an exception arose."""
    import traceback

    return "".join(traceback.format_exception(error)).rstrip()
