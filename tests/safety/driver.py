"""Runs the calls that it reads from stdin, with or without a sandbox, and prints their results.

A separate program, so that it can run as another user and be killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Read a JSON object and print a line for each call."""
    request: dict[str, Any] = json.loads(sys.stdin.readline())
    sys.path.append(request["root"])
    from ask.errors import SafetyError
    from ask.safety.sandbox import Sandbox
    from ask.safety.sandbox_config import Limits
    from ask.safety.sandbox_folders import build_sandbox_config
    from ask.tools.base import RunToolContext, Tool, ToolError
    from ask.tools.definitions import BUILTIN_TOOLS

    os.dup2(os.open(request["open"], os.O_RDONLY), 77)
    work, data = Path(request["work"]), Path(request["data"])
    context = RunToolContext(work, dict(os.environ), request["timeout"], data / "results", lambda text: None)
    tools = {tool.spec.name: tool for tool in BUILTIN_TOOLS}
    sandbox = None

    def send(value: Any) -> None:
        os.write(1, json.dumps(value).encode() + b"\n")

    def run(tool: Tool, arguments: dict[str, Any]) -> str:
        try:
            return tool.run(arguments, context).text
        except ToolError as error:
            return f"Error: {error}"

    try:
        if request["safe"]:
            sandbox_config = build_sandbox_config(
                work,
                [Path(folder) for folder in request["allowed"]],
                config_dir=Path(request["config"]),
                cache_dir=Path(request["cache"]),
                data_dir=data,
                overflow_directory=data / "results",
                environment=os.environ,
            )
            sandbox = Sandbox(sandbox_config._replace(limits=Limits(**request["limits"])))
            tools = {name: sandbox.wrap_tool(tool) for name, tool in tools.items()}
        send({"pid": os.getpid()})
        for name, arguments in request["calls"]:
            send(run(tools[name], arguments))
    except SafetyError as error:
        send({"refused": str(error), "code": error.exit_code})
    finally:
        if sandbox:
            sandbox.close()


if __name__ == "__main__":
    main()
