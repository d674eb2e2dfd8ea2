"""Errors on their way out of a command: redacted, and with a traceback under --verbose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from ask.console import Console
from ask.errors import AskError, ReaderGone, unforeseen


@contextmanager
def reporting(console: Console, *, verbose: bool) -> Iterator[None]:
    """Takes the keys out of an error on its way up, gives an unforeseen one a message, and shows where it arose."""
    try:
        yield
    except (ReaderGone, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as fault:  # noqa: BLE001 - whatever it is, no key may be in it
        if verbose:
            console.line(traceback_of(fault))
        failure = fault if isinstance(fault, AskError) else unforeseen(fault)
        failure.take_out(console.redact)
        raise failure from None


def traceback_of(fault: Exception) -> str:
    """Where an exception arose."""
    import traceback

    return "".join(traceback.format_exception(fault)).rstrip()
