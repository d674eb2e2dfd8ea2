"""`ask mcp serve`: an MCP server whose tool asks a model, with the official SDK.

Each call is a child process with an event session (`ask/cli/event_session.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from ask import __version__
from ask.config.installation import find_launcher
from ask.config.options import EVENT_SESSION_ARGUMENT, RunOptions
from ask.errors import AskError, UsageError
from ask.process.parent_exit import end_with_parent
from ask.process.process_tree import kill_process_tree, mark_environment
from ask.records import NamedTuple
from ask.type_checks import WrongTypeError, parse_value

MAX_EVENT_BYTES = 256 * 1024 * 1024
"""The longest line that is read from a child process."""
INTERRUPT_SECONDS = 5
"""Seconds between SIGINT and the end of the child process with everything that it started."""
DEFAULT_DENIAL = "the client cannot ask its user for approval"
ASK_TOOL = types.Tool(
    name="ask",
    description="Ask a language model a question. The answer's conversation can be continued by its ID.",
    input_schema={
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "minLength": 1, "description": "The question"},
            "model": {"type": "string", "description": "A model, provider:model, or an alias of the user"},
            "conversation": {"type": "string", "description": "The ID of a conversation that this server began"},
            "files": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Files in the server's working folder to attach",
            },
        },
        "required": ["prompt"],
        "additionalProperties": False,
    },
)
APPROVAL_SCHEMA: types.ElicitRequestedSchema = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow the call"}},
    "required": ["allow"],
}


class AskArguments(NamedTuple):
    """The arguments of the tool `ask`."""

    prompt: str
    model: str | None = None
    conversation: str | None = None
    files: tuple[str, ...] = ()


class AskServer:
    """Answers the calls of one client, each in a child process."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        """The user's limits, which a caller cannot change."""
        self._conversations: set[str] = set()
        """The IDs of the conversations that this server began."""

    async def run(self) -> None:
        """Serve until stdin is closed."""
        server = Server("ask", version=__version__, on_list_tools=self._list_tools, on_call_tool=self._call_tool)
        async with stdio_server() as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[ASK_TOOL])

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            if params.name != ASK_TOOL.name:
                raise UsageError(f"unknown tool {params.name!r}", f"the only tool is {ASK_TOOL.name!r}")
            fields = params.arguments or {}
            if unknown := fields.keys() - set(AskArguments._fields):
                raise UsageError(f"unknown argument {min(unknown)!r}", f"known: {', '.join(AskArguments._fields)}")
            arguments: AskArguments = parse_value(fields, AskArguments)
            return await self._ask(ctx, arguments)
        except (AskError, WrongTypeError) as error:
            return _create_error(str(error))

    async def _ask(self, ctx: ServerRequestContext[Any], arguments: AskArguments) -> types.CallToolResult:
        if arguments.conversation is not None and arguments.conversation not in self._conversations:
            raise UsageError(f"this server did not begin a conversation {arguments.conversation!r}", "leave it out")
        options = self._options._replace(resume=arguments.conversation)
        if arguments.model is not None:
            options = options._replace(provider=None, model=arguments.model)
        message = {"type": "message", "text": arguments.prompt, "files": list(map(_find_file, arguments.files))}
        environment, mark = mark_environment(os.environ)
        process = await asyncio.create_subprocess_exec(
            str(find_launcher()),
            EVENT_SESSION_ARGUMENT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            limit=MAX_EVENT_BYTES,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        try:
            await _send_lines(process, options.to_json(), json.dumps(message))
            result = await self._read_events(ctx, process)
        finally:
            with anyio.CancelScope(shield=True):
                await _end_process(process, mark)
        return self._to_tool_result(result)

    async def _read_events(
        self, ctx: ServerRequestContext[Any], process: asyncio.subprocess.Process
    ) -> Mapping[str, Any]:
        """Pass on the events of a child process; return the one with the result.

        Raises:
            AskError: the process ended without one.
        """
        assert process.stdout  # noqa: S101
        count = 0
        async for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["type"] == "result":
                return event
            if event["type"] == "approval":
                decision = await _request_approval(ctx, event)
                await _send_lines(process, json.dumps({"type": "approval", "id": event["id"], **decision}))
            count += 1
            await ctx.session.report_progress(count, message=_describe_event(event))
        raise AskError("the process that answers the call ended without a result")

    def _to_tool_result(self, event: Mapping[str, Any]) -> types.CallToolResult:
        if event["conversation"] and event["saved"]:
            self._conversations.add(event["conversation"])
        fields = {name: event[name] for name in ("conversation", "provider", "model", "usage", "exit_code")}
        if event["exit_code"]:
            return _create_error(event["error"] or f"exit code {event['exit_code']}", fields)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=event["text"])], structured_content=fields
        )


def _find_file(name: str) -> str:
    """Return the absolute path of a file in the working folder, after symbolic links.

    Raises:
        UsageError: it is outside the folder, hidden, or not a regular file.
    """
    folder = Path.cwd().resolve()
    try:
        path = (folder / name).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise UsageError(f"no such file: {name!r}", "name a file in the server's working folder") from None
    if not path.is_relative_to(folder) or not path.is_file():
        raise UsageError(f"not a file in the server's working folder: {name!r}", "name one that is")
    if any(part.startswith(".") for part in path.relative_to(folder).parts):
        raise UsageError(f"hidden files are not sent: {name!r}", "name another file")
    return str(path)


def _create_error(message: str, fields: dict[str, Any] | None = None) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=message)]
    return types.CallToolResult(content=content, structured_content=fields, is_error=True)


def _describe_event(event: Mapping[str, Any]) -> str | None:
    if event["type"] == "tool_call":
        return f"calls {event['name']}"
    return event["text"] if event["type"] == "notice" else None


async def _request_approval(ctx: ServerRequestContext[Any], event: Mapping[str, Any]) -> dict[str, str]:
    """Have the client ask its user about a call; return the decision, "deny" unless the user allows it."""
    capabilities = ctx.session.client_capabilities
    if not (capabilities and capabilities.elicitation and ctx.session.can_send_request):
        return {"decision": "deny", "reason": DEFAULT_DENIAL}
    danger = f"\nDangerous: {event['danger']}" if event["danger"] else ""
    message = f"Allow {event['name']}?\n{event['description']}{danger}"
    answer = await ctx.session.elicit_form(message, APPROVAL_SCHEMA, ctx.request_id)
    if answer.action == "accept" and answer.content and answer.content.get("allow") is True:
        return {"decision": "allow"}
    return {"decision": "deny"}


async def _send_lines(process: asyncio.subprocess.Process, *lines: str) -> None:
    assert process.stdin  # noqa: S101
    with suppress(ConnectionError):  # the process has ended, which its events or their absence report
        process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        await process.stdin.drain()


async def _end_process(process: asyncio.subprocess.Process, mark: str) -> None:
    """Interrupt a child process that still runs, and kill what is left of everything that it started."""
    assert process.stdin  # noqa: S101
    process.stdin.close()
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), INTERRUPT_SECONDS)
    await asyncio.to_thread(kill_process_tree, process.pid if process.returncode is None else None, mark)
    await process.wait()


def serve(options: RunOptions) -> None:
    """Serve on stdin and stdout until stdin is closed."""
    anyio.run(AskServer(options).run)
