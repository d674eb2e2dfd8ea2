"""`ask version`: the version, as `ask --version` prints it."""

from __future__ import annotations

import click

from ask.cli.groups import listing
from ask.version import VERSION


@listing("version")
def command() -> None:
    """Print the version."""
    click.echo(f"ask {VERSION}")
