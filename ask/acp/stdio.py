"""The lines of the protocol on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from acp import RequestError, stdio_streams

from ask.errors import UsageError
from ask.text import describe_parse_error, repair_json_surrogates

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""The longest line that is read from the editor."""


class StdioTransport:
    """Reads and writes messages, each a JSON object in a line. Other lines are answered with an error."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._lock = asyncio.Lock()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end of the input."""
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:  # the line is too long, and is left out
                await self._report(RequestError.parse_error({"details": f"a line is over {MAX_MESSAGE_BYTES:,} bytes"}))
                continue
            if not line:
                return None
            if not line.strip():
                continue
            try:
                message = repair_json_surrogates(json.loads(line))  # a string may have been cut within a character
            except (ValueError, RecursionError) as error:
                await self._report(RequestError.parse_error({"details": describe_parse_error(error)}))
                continue
            if not _is_message(message):
                await self._report(RequestError.invalid_request({"details": "a message must be a JSON-RPC object"}))
            elif "id" in message or not message.get("method", "").startswith("$/"):  # which may be ignored
                return _normalize(message)

    async def send(self, message: dict[str, Any]) -> None:
        async with self._lock:
            if self._writer.is_closing():  # the editor no longer reads: asyncio would log each message
                return
            with suppress(ConnectionError):  # it has ended, which `receive` reports
                self._writer.write(json.dumps(message).encode() + b"\n")
                await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()

    async def _report(self, error: RequestError) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": error.to_error_obj()})


def _is_message(message: Any) -> bool:
    """Check the types that the SDK relies on."""
    return (
        isinstance(message, dict)
        and isinstance(message.get("method", ""), str)
        and isinstance(message.get("id"), str | int | float | None)
    )


def _normalize(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message that the SDK can read."""
    if "method" not in message:
        error = message.get("error") or {}
        return message if isinstance(error, dict) else {**message, "error": {"message": str(error)}}
    params = message.get("params", {})
    if isinstance(params, dict):  # the SDK would pass the keys of _meta on as parameters
        params = {name: value for name, value in params.items() if name != "_meta"}
        if isinstance(servers := params.get("mcpServers"), list):
            params["mcpServers"] = [*map(_complete_server, servers)]
    return {**message, "params": params}


def _complete_server(server: Any) -> Any:
    """Return an MCP server of the editor with all fields that the protocol requires.

    Some editors leave empty ones out, or write env as in mcp.json, as an object. The SDK would drop such a server.
    """
    if not isinstance(server, dict):
        return server
    is_remote = "url" in server
    fields = {"type": "http", **server} if is_remote else {**server}
    for name in ("headers",) if is_remote else ("args", "env"):
        value = fields.get(name) or []
        if isinstance(value, dict):
            value = [{"name": key, "value": text} for key, text in value.items()]
        fields[name] = value
    return fields


async def open_stdio() -> StdioTransport:
    """Open stdin and stdout.

    Raises:
        UsageError: stdout is a file.
    """
    try:
        return StdioTransport(*await stdio_streams(limit=MAX_MESSAGE_BYTES))
    except ValueError:
        raise UsageError("ask acp needs a pipe to an editor as stdout", "configure it in the editor") from None
