"""`ask prompts show`: a named prompt as it is written."""

from __future__ import annotations

import click

from ask.cli.groups import listing


@listing("show")
@click.argument("wanted", metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with what the file says.")
def command(*, wanted: str, as_json: bool) -> None:
    """Print the file of a named prompt, or of NAME:TASK the text that is asked."""
    import json

    from ask.agent.workspace import Workspace
    from ask.console import Output
    from ask.templates.files import find, text_of
    from ask.text import as_text

    template = find(as_text(wanted), Workspace().prompts)
    if as_json:
        value = {**template._asdict(), "file": as_text(str(template.file)), "variables": template.variables}
        value |= {"options": dict(template.options), "tasks": dict(template.tasks)}
        text = json.dumps(value, ensure_ascii=False, indent=2)
    else:
        text = template.prompt if ":" in wanted else text_of(template.file)
    Output().write(text.rstrip("\n") + "\n")
