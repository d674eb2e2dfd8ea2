"""`ask prompts edit`: a named prompt of the user's own in the editor; one that comes with ask is copied first."""

from __future__ import annotations

import click

from ask.cli.groups import listing


@listing("edit")
@click.argument("name", metavar="NAME")
def command(*, name: str) -> None:
    """Change a named prompt in the editor that VISUAL or EDITOR names.

    Of one that comes with ask you edit a copy, which is kept as yours once you change it. What you write takes its
    place once it is valid; as long as it is not, go on editing, or give it up.
    """
    from ask.agent.workspace import Workspace
    from ask.cli.editor import edit_file
    from ask.console import Console
    from ask.templates.files import find_file, own_file, validity
    from ask.text import as_text

    workspace = Workspace()
    name = as_text(name)
    file = find_file(name, workspace.prompts)
    console = Console(workspace.environment, quiet=False, plain=False)
    edit_file(own_file(name, workspace.prompts), file.read_bytes(), validity, console)
