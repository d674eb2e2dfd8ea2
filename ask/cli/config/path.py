"""`ask config path`: where config.toml is, for scripts and editors."""

from __future__ import annotations

from ask.cli.groups import listing


@listing("path")
def command() -> None:
    """Print where config.toml is, or would be."""
    from ask.agent.workspace import Workspace
    from ask.console import Output

    Output().write(f"{Workspace().config_file}\n")
