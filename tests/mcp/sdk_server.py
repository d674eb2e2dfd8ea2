"""An MCP server as the official SDK makes it, over standard input and output, or over HTTP: `sdk_server http PORT`.

Over TLS it is `sdk_server https PORT CERTIFICATE KEY`.
"""

from __future__ import annotations

import json
import os
import sys
import time

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ListRootsRequest, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("sdk", version="4.5.6")


class Weather(BaseModel):
    city: str
    degrees: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers. They must be whole."""
    return a + b


@server.tool()
def weather(city: str) -> Weather:
    """Tell the weather."""
    return Weather(city=city, degrees=21)


@server.tool()
def broken() -> str:
    """Fail."""
    raise ValueError("no weather today")


@server.tool()
async def requests(ctx: Context) -> str | InputRequiredResult:
    """Ask the client for its roots and the user for a name, in the way of protocol 2026-07-28."""
    if ctx.input_responses:
        return json.dumps({name: one.model_dump(mode="json") for name, one in ctx.input_responses.items()})
    form = ElicitRequestFormParams(
        message="What is your name?", requested_schema={"type": "object", "properties": {"name": {"type": "string"}}}
    )
    return InputRequiredResult(input_requests={"roots": ListRootsRequest(), "name": ElicitRequest(params=form)})


@server.tool()
def flood() -> str:
    """Say too much."""
    return "x" * 50_000_000


@server.tool()
def hang() -> str:
    """Never answer."""
    time.sleep(600)
    return "late"


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


if __name__ == "__main__":
    way, port = (*sys.argv[1:], "stdio", "0")[:2]
    if way == "https":
        uvicorn.run(server.streamable_http_app(), port=int(port), ssl_certfile=sys.argv[3], ssl_keyfile=sys.argv[4])
    elif way == "http":
        server.run("streamable-http", port=int(port))
    elif way == "sse":
        server.run("sse", port=int(port))
    else:
        server.run("stdio")
