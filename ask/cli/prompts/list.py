"""`ask prompts list`: the named prompts."""

from __future__ import annotations

from ask.cli.groups import JSON_OPTION, listing


@listing("list")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """List the named prompts with their tasks; ask -t takes NAME or NAME:TASK.

    Yours are in the folder prompts beside config.toml, and come before those of the same name that come with ask.
    """
    from ask.agent.workspace import Workspace
    from ask.console import Console, Output
    from ask.render.table import write_table
    from ask.templates.files import describe_all

    workspace = Workspace()
    console = Console(workspace.environment, quiet=False, plain=False)
    rows = [
        {
            "name": template.name,
            "from": "you" if template.file.parent == workspace.prompts else "ask",
            "tasks": list(template.tasks) if as_json else ", ".join(template.tasks),
            "description": template.description,
        }
        for template in describe_all(workspace.prompts, lambda text: console.line(f"ask: {text}"))
    ]
    write_table(Output(), rows, as_json=as_json, whole=True)
