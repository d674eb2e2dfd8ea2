"""The type of options that take a time."""

from __future__ import annotations

import click

A_YEAR = 31_536_000.0


def seconds(text: str) -> float:
    """A number of seconds that something can wait for: above 0, and no more than a year.

    Raises:
        click.BadParameter: it is no such number.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= A_YEAR:
        raise click.BadParameter(f"{text!r} is no number of seconds above 0")
    return number
