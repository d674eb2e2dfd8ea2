"""Carries out the calls that it reads from stdin, in a sandbox or without one, and prints what came of each.

A program of its own, so that it can be run by another user, and be killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Read one JSON object, answer with a line for each call."""
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    sys.path.append(asked["root"])
    from ask.errors import SafetyError
    from ask.safety.path_policy import build_sandbox_config
    from ask.safety.sandbox import Sandbox
    from ask.safety.sandbox_config import Limits
    from ask.tools.base import Tool, ToolContext, ToolError
    from ask.tools.builtin import list_builtin_tools

    os.dup2(os.open(asked["open"], os.O_RDONLY), 77)
    work, data = Path(asked["work"]), Path(asked["data"])
    context = ToolContext(work, dict(os.environ), asked["timeout"], data / "results", lambda text: None)
    tools = {tool.spec.name: tool for tool in list_builtin_tools()}
    sandbox = None

    def say(what: Any) -> None:
        os.write(1, json.dumps(what).encode() + b"\n")

    def run(tool: Tool, arguments: dict[str, Any]) -> str:
        try:
            return tool.run(arguments, context).text
        except ToolError as error:
            return f"Error: {error}"

    try:
        if asked["safe"]:
            confinement = build_sandbox_config(
                work,
                [Path(folder) for folder in asked["allowed"]],
                config_dir=Path(asked["config"]),
                data_dir=data,
                overflow_directory=data / "results",
                environment=os.environ,
                limits=Limits(**asked["limits"]),
            )
            sandbox = Sandbox(confinement)
            tools = {name: sandbox.wrap_tool(tool) for name, tool in tools.items()}
        say({"pid": os.getpid()})
        for name, arguments in asked["calls"]:
            say(run(tools[name], arguments))
    except SafetyError as error:
        say({"refused": str(error), "code": error.exit_code})
    finally:
        if sandbox:
            sandbox.close()


if __name__ == "__main__":
    main()
