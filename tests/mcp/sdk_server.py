"""An MCP server built with the official SDK: over standard input and output, or over HTTP with `sdk_server PORT`.

Over HTTP it serves both transports: streamable HTTP at /mcp, SSE at /sse. `sdk_server PORT CERTIFICATE KEY` uses TLS.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from pathlib import Path

import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp_types import (
    BlobResourceContents,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

LIFETIME = 60_000
PIXEL = Path(__file__).with_name("pixel.png").read_bytes()
PDF = b"%PDF-1.4\n%\xff\n"
server = MCPServer("sdk", version="4.5.6", cache_hints={"tools/list": CacheHint(LIFETIME)})


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
def screenshots() -> list[TextContent | ResourceLink | ImageContent | EmbeddedResource]:
    """Files in each form that a result can have: two images, and a PDF after a text."""
    blob = BlobResourceContents(
        uri="file:///report.pdf", mime_type="application/pdf", blob=base64.b64encode(PDF).decode()
    )
    return [
        ImageContent(type="image", data=base64.b64encode(PIXEL).decode(), mime_type="image/png"),
        TextContent(type="text", text="between"),
        EmbeddedResource(type="resource", resource=blob),
        ResourceLink(type="resource_link", name="pixel", uri="image://pixel", mime_type="image/png"),
    ]


@server.tool()
def links() -> list[ResourceLink]:
    """Links that stay links: to nothing, to text, and to what is too large."""
    links = {"file:///none.png": "image/png", "file:///docs/plan.md": "text/markdown", "image://large": "image/png"}
    return [ResourceLink(type="resource_link", name="one", uri=uri, mime_type=kind) for uri, kind in links.items()]


@server.tool()
def flood() -> str:
    """Say too much."""
    return "x" * 12_000_000


@server.tool()
async def hang() -> str:
    """Never answer."""
    await asyncio.sleep(600)
    return "late"


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


@server.resource("file:///docs/plan.md", title="The plan", mime_type="text/markdown")
def plan() -> str:
    """What to do."""
    return "Buy marzipan."


@server.resource("note://{name}", mime_type="text/plain")
def note(name: str) -> str:
    """One note."""
    if name == "none":
        raise ValueError("no such note")
    return f"The note {name}."


@server.resource("image://pixel", mime_type="image/png")
def pixel() -> bytes:
    """A small image."""
    return PIXEL


@server.resource("image://large", mime_type="image/png")
def large_image() -> bytes:
    """Too large an image."""
    return PIXEL + bytes(12_000_000)


@server.resource("data://archive", mime_type="application/zip")
def archive() -> bytes:
    """A file that no provider accepts."""
    return b"PK\x03\x04\0\xff"


@server.resource("data://large")
def large() -> str:
    """Too much text."""
    return "x" * 12_000_000


@server.resource("data://crash")
def crash() -> str:
    """End the server."""
    os._exit(3)


@server.prompt()
def review(code: str, style: str = "strict") -> list[Message]:
    """Review code."""
    rules = TextResourceContents(uri="file:///rules.txt", text="Be kind.")
    link = ResourceLink(type="resource_link", name="plan", uri="file:///docs/plan.md")
    image = ImageContent(type="image", data=base64.b64encode(PIXEL).decode(), mime_type="image/png")
    contents = (f"Review {code}.", EmbeddedResource(type="resource", resource=rules), link, image, f"Be {style}.")
    return [UserMessage(content) for content in contents]


@server.prompt()
def brief() -> str:
    """Be brief."""
    return "Keep {{this}} and {{that|as}} it is."


@server.prompt()
def dialog() -> list[Message]:
    """A conversation."""
    return [UserMessage("Who are you?"), AssistantMessage("A parrot.")]


@server.prompt()
def translate(text: str, to: str = "Latin") -> list[Message]:
    """Translate like the example."""
    link = ResourceLink(type="resource_link", name="plan", uri="file:///docs/plan.md")
    example = [
        UserMessage(link),
        UserMessage("{{Translate}} this."),
        AssistantMessage("Eme massam."),
        AssistantMessage("{{a}}"),
    ]
    return [*example, UserMessage(f"To {to}:"), UserMessage(text)]


@server.prompt()
def picture() -> list[Message]:
    """A picture by the assistant."""
    image = ImageContent(type="image", data=base64.b64encode(PIXEL).decode(), mime_type="image/png")
    return [UserMessage("Draw."), AssistantMessage(image), UserMessage("Again.")]


def serve_http(port: int, certificate: str | None = None, key: str | None = None) -> None:
    """Serve both transports until the process is killed."""
    app = server.streamable_http_app()
    app.router.routes.extend(server.sse_app().routes)
    uvicorn.run(app, port=port, ssl_certfile=certificate, ssl_keyfile=key)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_http(int(sys.argv[1]), *sys.argv[2:])
    else:
        server.run("stdio")
