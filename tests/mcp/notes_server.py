"""The server in the examples of docs/mcp.md, built with the official SDK."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes", version="1.0.0")


@server.resource("file:///docs/plan.md", name="plan", mime_type="text/markdown")
def plan() -> str:
    """What is left to do."""
    return "- Book the venue\n- Buy marzipan\n"


@server.resource("note://{title}", name="note", mime_type="text/plain")
def note(title: str) -> str:
    """One note."""
    return f"Remember the {title}.\n"


@server.prompt()
def proofread(text: str, style: str = "plain") -> str:
    """Find mistakes in a text."""
    return f"Find the mistakes in this text and suggest a {style} wording: {text}"


if __name__ == "__main__":
    server.run("stdio")
