"""Types of options with an amount."""

from __future__ import annotations

import click

MAX_SECONDS = 31_536_000.0
MAX_DOLLARS = 1_000_000_000.0
"""The same limits as in config.toml."""


def parse_seconds(text: str) -> float:
    """Parse a timeout in seconds: above 0, and at most a year.

    Raises:
        click.BadParameter: the text is not such a number.
    """
    return parse_positive_amount(text, "seconds", MAX_SECONDS)


def parse_dollars(text: str) -> float:
    """Parse an amount in US dollars: above 0, and at most a billion.

    Raises:
        click.BadParameter: the text is not such a number.
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
