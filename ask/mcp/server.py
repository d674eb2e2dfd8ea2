"""`ask mcp serve`: an MCP server whose tools ask models, with the official SDK.

Each call is a child process: of the tool `ask`, with an event session (`ask/cli/event_session.py`).
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from ask import __version__
from ask.config.installation import find_launcher
from ask.config.options import EVENT_SESSION_ARGUMENT, RunOptions
from ask.errors import AskError, RowsFailedError, UsageError
from ask.process.child_process import end_process, get_pipe, send_lines, start_process
from ask.records import NamedTuple
from ask.type_checks import WrongTypeError, parse_value

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
MAX_ROWS_CHARACTERS = 100_000
"""The limit for the rows in the result of `map_rows`; more are in a file that the result names."""
MAP_TOOL = types.Tool(
    name="map_rows",
    description=(
        "Ask a language model one question about each of many rows. Placeholders such as {{text}} in the prompt stand "
        "for the columns of a row. Interrupted calls continue where they stopped."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "minLength": 1, "description": "The question, with placeholders"},
            "rows": {
                "type": "array",
                "items": {"type": ["object", "string"]},
                "description": "Objects with the columns; a string is a row with the column text",
            },
            "file": {"type": "string", "description": "A table in the server's working folder, in place of rows"},
            "schema": {
                "type": ["object", "string"],
                "description": 'A JSON Schema of the answers, or its short form, such as "urgent bool"',
            },
            "model": {"type": "string", "description": "A model, provider:model, or an alias of the user"},
        },
        "required": ["prompt"],
        "additionalProperties": False,
    },
)
SEARCH_TOOL = types.Tool(
    name="search_history",
    description="Find the user's saved conversations that contain all words.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "Words, or a phrase in double quotes"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "At most so many (20)"},
        },
        "required": ["query"],
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


class MapArguments(NamedTuple):
    """The arguments of the tool `map_rows`."""

    prompt: str
    rows: tuple[Mapping[str, Any] | str, ...] | None = None
    file: str | None = None
    schema: Mapping[str, Any] | str | None = None
    model: str | None = None


class SearchArguments(NamedTuple):
    """The arguments of the tool `search_history`."""

    query: str
    limit: int = 20


class AskServer:
    """Answers the calls of one client, each in a child process.

    Args:
        options: the user's limits, which a caller cannot change.
        results_folder: a folder for results that are too large.
        searches_history: whether to offer the tool `search_history`.
    """

    def __init__(self, options: RunOptions, results_folder: Path, *, searches_history: bool) -> None:
        self._options = options
        self._results_folder = results_folder
        self._tools: dict[str, tuple[types.Tool, type[Any], Callable[..., Awaitable[types.CallToolResult]]]] = {
            "ask": (ASK_TOOL, AskArguments, self._ask),
            "map_rows": (MAP_TOOL, MapArguments, self._map_rows),
        }
        if searches_history:
            self._tools["search_history"] = SEARCH_TOOL, SearchArguments, self._search_history
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
        return types.ListToolsResult(tools=[tool for tool, *_ in self._tools.values()])

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            if params.name not in self._tools:
                raise UsageError(f"unknown tool {params.name!r}", f"known: {', '.join(self._tools)}")
            _, argument_type, call = self._tools[params.name]
            fields = params.arguments or {}
            if unknown := fields.keys() - {*argument_type._fields}:
                raise UsageError(f"unknown argument {min(unknown)!r}", f"known: {', '.join(argument_type._fields)}")
            return await call(ctx, parse_value(fields, argument_type))
        except (AskError, WrongTypeError) as error:
            return _create_error(str(error))

    async def _ask(self, ctx: ServerRequestContext[Any], arguments: AskArguments) -> types.CallToolResult:
        if arguments.conversation is not None and arguments.conversation not in self._conversations:
            raise UsageError(f"this server did not begin a conversation {arguments.conversation!r}", "leave it out")
        options = self._options._replace(resume=arguments.conversation)
        if arguments.model is not None:
            options = options._replace(provider=None, model=arguments.model)
        message = {"type": "message", "text": arguments.prompt, "files": list(map(_find_file, arguments.files))}
        async with _start_process([EVENT_SESSION_ARGUMENT]) as process:
            await send_lines(process, options.to_json(), json.dumps(message))
            result = await self._read_events(ctx, process)
        return self._to_tool_result(result)

    async def _map_rows(self, ctx: ServerRequestContext[Any], arguments: MapArguments) -> types.CallToolResult:
        if (arguments.rows is None) == (arguments.file is None):
            raise UsageError("map_rows needs either rows or a file", "give one of them")
        source = ["--input-format", "jsonl", "--", arguments.prompt, "-"]
        if arguments.file is not None:
            source = ["--", arguments.prompt, _find_file(arguments.file)]
        rows = [{"text": row} if isinstance(row, str) else row for row in arguments.rows or ()]
        async with _start_process(["map", *self._list_map_options(arguments), *source]) as process:
            reader = asyncio.create_task(_read_rows(ctx, process, len(rows) or None))
            errors = asyncio.create_task(_read_last_line(process))
            await send_lines(process, *(json.dumps(row) for row in rows))
            get_pipe(process.stdin).close()
            answered, error, exit_code = await reader, await errors, await process.wait()
        if exit_code not in (0, RowsFailedError.exit_code):
            return _create_error(error.removeprefix("ask: "), {"exit_code": exit_code, "rows": len(answered)})
        failed = sum(row.get("error") is not None for row in answered)
        fields: dict[str, Any] = {"count": len(answered), "failed": failed, "exit_code": exit_code, "summary": error}
        text = json.dumps(answered, ensure_ascii=False)
        if len(text) <= MAX_ROWS_CHARACTERS:
            fields["rows"] = answered
        else:
            fields["file"] = text = str(self._save_rows(answered))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=fields)

    def _list_map_options(self, arguments: MapArguments) -> list[str]:
        options, schema = self._options, arguments.schema
        model = arguments.model if arguments.model is not None else options.model
        provider = options.provider if arguments.model is None else None
        values = {
            "--provider": provider,
            "--model": model,
            "--max-cost": options.max_cost,
            "--timeout": options.timeout,
            "--schema": json.dumps(schema) if isinstance(schema, Mapping) else schema,
        }
        words = [word for name, value in values.items() if value is not None for word in (name, str(value))]
        return [*words, "--no-save"] if options.no_save else words

    def _save_rows(self, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Save the answered rows as JSON lines; return the file."""
        self._results_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(".jsonl", "rows-", self._results_folder)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return Path(name)

    async def _search_history(self, _: ServerRequestContext[Any], arguments: SearchArguments) -> types.CallToolResult:
        limit = str(max(1, min(arguments.limit, 100)))
        async with _start_process(["history", "search", "--json", "-n", limit, "--", arguments.query]) as process:
            errors = asyncio.create_task(_read_last_line(process))
            text = (await get_pipe(process.stdout).read()).decode()
            error, exit_code = await errors, await process.wait()
        if exit_code:
            return _create_error(error.removeprefix("ask: "), {"exit_code": exit_code})
        fields = {"conversations": json.loads(text)}
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=fields)

    async def _read_events(
        self, ctx: ServerRequestContext[Any], process: asyncio.subprocess.Process
    ) -> Mapping[str, Any]:
        """Pass on the events of a child process; return the one with the result.

        Raises:
            AskError: the process ended without one.
        """
        count = 0
        async for line in get_pipe(process.stdout):
            event: dict[str, Any] = json.loads(line)
            if event["type"] == "result":
                return event
            if event["type"] == "approval":
                decision = await _request_approval(ctx, event)
                await send_lines(process, json.dumps({"type": "approval", "id": event["id"], **decision}))
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


@asynccontextmanager
async def _start_process(arguments: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `ask` with these arguments; at the end of the block, end it with everything that it has started.

    If the block has ended by an exception, such as a cancellation, it is interrupted.
    """
    process, mark = await start_process([str(find_launcher()), *arguments])
    is_done = False
    try:
        yield process
        is_done = True
    finally:
        with anyio.CancelScope(shield=True):
            await end_process(process, mark, interrupts=not is_done)


async def _read_rows(
    ctx: ServerRequestContext[Any], process: asyncio.subprocess.Process, total: int | None
) -> list[dict[str, Any]]:
    """Read the answered rows of a process, and report each as progress."""
    rows: list[dict[str, Any]] = []
    async for line in get_pipe(process.stdout):
        rows.append(json.loads(line))
        await ctx.session.report_progress(len(rows), total)
    return rows


async def _read_last_line(process: asyncio.subprocess.Process) -> str:
    """Read what a process prints for people; return its last line."""
    last = ""
    async for line in get_pipe(process.stderr):
        last = line.decode("utf-8", "replace").strip() or last
    return last


def serve(options: RunOptions, results_folder: Path, *, searches_history: bool) -> None:
    """Serve on stdin and stdout until stdin is closed."""
    anyio.run(AskServer(options, results_folder, searches_history=searches_history).run)
