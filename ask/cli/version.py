"""`ask version`: print the version, like `ask --version`."""

from __future__ import annotations

from ask import __version__
from ask.cli.click_helpers import print_text, subcommand


@subcommand("version")
def command() -> None:
    """Print the version."""
    print_text(f"ask {__version__}")
