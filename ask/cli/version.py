"""`ask version`: print the version, like `ask --version`."""

from __future__ import annotations

import click

from ask.cli.groups import subcommand
from ask.version import VERSION


@subcommand("version")
def command() -> None:
    """Print the version."""
    click.echo(f"ask {VERSION}")
