"""`ask config edit`: the file in the user's editor, taken over only where it is valid."""

from __future__ import annotations

from ask.cli.groups import listing

TEMPLATE = b"# The settings of ask: `ask config list` shows them all.\n"
"""What the editor shows where there is no file yet."""


@listing("edit")
def command() -> None:
    """Change config.toml in the editor that VISUAL or EDITOR names.

    What you write takes its place once it is valid; as long as it is not, go on editing, or give it up.
    """
    from ask.agent.workspace import Workspace
    from ask.cli.editor import edit_file
    from ask.console import Console
    from ask.settings import read_config

    workspace = Workspace()
    console = Console(workspace.environment, quiet=False, plain=False)
    edit_file(workspace.config_file, TEMPLATE, lambda copy: read_config(copy).warnings, console)
