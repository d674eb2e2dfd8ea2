"""`ask version`: print the version, like `ask --version`."""

from __future__ import annotations

import click

from ask import __version__
from ask.cli.click_helpers import subcommand


@subcommand("version")
def command() -> None:
    """Print the version."""
    click.echo(f"ask {__version__}")
