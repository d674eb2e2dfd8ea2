"""`ask prompts new`: a named prompt of the user's own, begun with comments that say how to go on."""

from __future__ import annotations

import sys

import click

from ask.cli.groups import listing

TEMPLATE = """\
+++
# Asked with `ask -t {name}`. What is not set stays as it is without this prompt; # makes a line a comment.
description = ""
# system = "Added to the system prompt: who the model is to be, and what it must keep to."
# provider = "openrouter"
# model = "openai/gpt-5"
# tools = false                        # none; or a list of those that may be offered: ["read_file", "list_dir"]

# [options]                            # as with -o
# temperature = 0.2

# [tasks]                              # `ask -t {name}:short` asks this instead of the text below
# short = "Say it in one sentence: {{{{input}}}}"
+++
Here stands what is asked. {{{{input}}}} is where the words, files and piped text go; without it, they come at the end.
{{{{tone|plain}}}} is filled in by --var tone=VALUE, and is "plain" without it.
"""


@listing("new")
@click.argument("name", metavar="NAME")
def command(*, name: str) -> None:
    """Make a named prompt of your own, and print where it is. On a terminal the editor opens."""
    from ask.agent.workspace import Workspace
    from ask.atomic_files import locked
    from ask.cli.editor import edit_file
    from ask.config_file import write
    from ask.console import Console, Output
    from ask.errors import UsageError
    from ask.templates.files import check_name, find_all, own_file, validity
    from ask.text import as_text

    name = as_text(name)
    check_name(name)
    workspace = Workspace()
    path = own_file(name, workspace.prompts)
    with locked(path):
        if name in find_all(workspace.prompts):
            advice = f"ask prompts edit {name} changes it, or a copy of it"
            raise UsageError(f"there is a prompt {name} already", advice)
        write(path, TEMPLATE.format(name=name).encode())
    Output().write(f"{as_text(str(path))}\n")
    if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        edit_file(path, b"", validity, Console(workspace.environment, quiet=False, plain=False))
