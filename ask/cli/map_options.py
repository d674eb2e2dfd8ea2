"""The values of options of `ask map`."""

from __future__ import annotations

import codecs
import csv
from encodings.aliases import aliases

import click

from ask.cli.ask import make_amount_parser
from ask.config.settings import convert_to_seconds
from ask.text import format_suggestion

MAX_PER_MINUTE = 1e12
MAX_WAIT_SECONDS = 30 * 86_400.0


def parse_failure_limit(text: str) -> tuple[float, bool]:
    """Parse a number, or a percentage such as "5%"; return whether it is a percentage."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise click.BadParameter(f"must be a positive number or a percentage, not {text!r}")
    return number, text.endswith("%")


def parse_jobs(text: str) -> int | None:
    """Parse a number of requests at a time; None for "auto"."""
    if text == "auto":
        return None
    if not (text.isdigit() and int(text) > 0):
        raise click.BadParameter(f"must be a positive number or auto, not {text!r}")
    return int(text)


def parse_columns(text: str) -> tuple[str, ...]:
    """Parse names of columns, separated by commas as in CSV."""
    try:
        [names] = csv.reader([text], skipinitialspace=True)
    except (csv.Error, ValueError):  # several lines, or none
        names = []
    if not names or len(set(names)) < len(names):
        raise click.BadParameter(f"must be different columns, such as id,answer, not {text!r}")
    return tuple(names)


def parse_delimiter(text: str) -> str:
    """Parse the character between the columns of a table; "\\t" and "tab" are a tab."""
    delimiter = "\t" if text in ("\\t", "tab") else text
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise click.BadParameter(f"must be one character, such as ';' or tab, not {text!r}")
    return delimiter


def parse_encoding(text: str) -> str:
    """Parse the name of an encoding to the one that Python uses."""
    try:
        "".encode(text)
        codecs.getincrementaldecoder(text)("ignore").decode(b"a")
        return codecs.lookup(text).name.removesuffix("-sig")  # a byte order mark is never part of the text
    except (LookupError, ValueError):  # unknown, no encoding of text, or without a decoder for a part of it
        names = {name.replace("_", "-") for each in aliases.items() for name in each}
        hint = format_suggestion(text.lower().replace("_", "-"), names, "use a name such as cp1252 or utf-16")
        raise click.BadParameter(f"does not know {text!r}; {hint}") from None


def parse_threshold(text: str) -> float:
    """Parse a probability above 0: 0.8 or 80%."""
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise click.BadParameter(f"must be a probability, such as 0.8, not {text!r}")
    return number


def parse_engine(text: str) -> str:
    """Parse "dask" or "dask=ADDRESS" to the scheduler's address; "" to start a cluster on this machine."""
    name, _, address = text.partition("=")
    if name != "dask":
        raise click.BadParameter(f"must be dask or dask=ADDRESS, not {text!r}")
    return address


def parse_wait(text: str) -> float:
    """Parse a time such as "30m", "90s" or "1h30m", or a number of seconds."""
    try:
        seconds = convert_to_seconds(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise click.BadParameter(f"must be a time such as 30m, 2h or 0, not {text!r}")
    return seconds


parse_rate = make_amount_parser("requests or tokens a minute", MAX_PER_MINUTE)
