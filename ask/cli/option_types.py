"""The types of options that take an amount."""

from __future__ import annotations

import click

A_YEAR = 31_536_000.0
A_BILLION = 1_000_000_000.0
"""As much as config.toml takes."""


def seconds(text: str) -> float:
    """A number of seconds that something can wait for: above 0, and no more than a year.

    Raises:
        click.BadParameter: it is no such number.
    """
    return _amount(text, "seconds", A_YEAR)


def dollars(text: str) -> float:
    """A number of US dollars that can be spent: above 0, and no more than a billion.

    Raises:
        click.BadParameter: it is no such number.
    """
    return _amount(text, "US dollars", A_BILLION)


def _amount(text: str, unit: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise click.BadParameter(f"{text!r} is no number of {unit} above 0")
    return number
