"""The client for the MCP conformance suite: `ask` with a model that makes the calls a scenario needs.

The suite appends the address of its server and sets MCP_CONFORMANCE_SCENARIO.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import wire
from tests.mcp.setting import MANY, cached_list_path, configure, offered
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, make_home

SAMPLES: dict[str, Any] = {"integer": 1, "number": 2, "boolean": True, "string": "text", "array": [], "object": {}}


def sample(schema: dict[str, Any]) -> Any:
    """Return a value for a parameter by its type."""
    kind = schema.get("type", "string")
    return SAMPLES[kind if isinstance(kind, str) else kind[0]]


def read_schema(home: Home, besides: str) -> dict[str, Any]:
    """The parameters of the other tool, as the server listed them: a provider may get them in another form."""
    kept = json.loads(cached_list_path(home, "server").read_text())
    return next(dict(tool["schema"]) for tool in kept["tools"] if f"server__{tool['name']}" != besides)


def choose_calls(request: Request, home: Home) -> list[wire.Call]:
    """Return the calls of the scenario, or else one of each tool with all required parameters."""
    tools = offered(request)
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    named = [(f"server__{call['name']}", call.get("arguments", {})) for call in context.get("toolCalls", ())]
    if named:
        return named
    calls: list[wire.Call] = []
    for name, tool in tools.items():
        parameters = tool["parameters"]
        values = {key: sample(parameters["properties"][key]) for key in parameters.get("required", ())}
        if "schema" in values:  # expects the schema of the other tool as its argument
            values["schema"] = read_schema(home, besides=name)
        calls.append((name, values))
    return calls


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ModelServer() as model:
        home = make_home(Path(folder))
        configure(home, {"server": {"url": sys.argv[-1], "timeout": 20}})
        waiting: list[wire.Call] = []

        def answer(request: Request) -> Reply:
            if len(model.requests) == 1:
                waiting.extend(choose_calls(request, home))
            return wire.calls(waiting.pop(0)) if waiting else wire.says("done")

        model.reply(answer)
        ask = Ask({**home.env, "OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": model.base_url}, home.work)
        result = ask(*MANY, "hi", timeout=60)
        sys.stderr.write(result.stderr)
        for request in model.requests[1:]:
            sys.stdout.write(f"{wire.asked(request.json)}\n")
    sys.exit(result.code)


if __name__ == "__main__":
    main()
