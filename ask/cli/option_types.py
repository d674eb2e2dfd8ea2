"""The types of options that take an amount."""

from __future__ import annotations

import click

MAX_SECONDS = 31_536_000.0
MAX_DOLLARS = 1_000_000_000.0
"""As much as config.toml takes."""


def parse_seconds(text: str) -> float:
    """A number of seconds that something can wait for: above 0, and no more than a year.

    Raises:
        click.BadParameter: it is no such number.
    """
    return parse_positive_amount(text, "seconds", MAX_SECONDS)


def parse_dollars(text: str) -> float:
    """A number of US dollars that can be spent: above 0, and no more than a billion.

    Raises:
        click.BadParameter: it is no such number.
    """
    return parse_positive_amount(text, "US dollars", MAX_DOLLARS)


def parse_positive_amount(text: str, unit: str, maximum: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= maximum:
        raise click.BadParameter(f"{text!r} is no number of {unit} above 0")
    return number
