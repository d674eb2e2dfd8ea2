"""`ask tools`: what a model may call."""

from __future__ import annotations

from ask.cli.listing import JSON_OPTION, listing


@listing("tools")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """List the tools that a model may call, with their parameters; optional ones are marked with a question mark."""
    from ask.cli.workspace import Workspace
    from ask.config import resolve
    from ask.render.streams import Output
    from ask.render.table import write_table
    from ask.tools import Tool, builtin_tools

    def parameters(tool: Tool) -> str:
        schema = tool.spec.parameters
        required = schema.get("required", [])
        return ", ".join(name if name in required else f"{name}?" for name in schema["properties"])

    workspace = Workspace()
    settings = resolve({}, workspace.environment, workspace.config)
    rows = [
        {
            "name": tool.spec.name,
            "parameters": parameters(tool),
            "description": tool.spec.description,
            "runs_or_writes": tool.changes,
            "offered": settings.tools and tool.spec.name not in settings.disabled_tools,
            "from": tool.origin,
        }
        for tool in builtin_tools()
    ]
    write_table(Output(), rows, as_json=as_json)
