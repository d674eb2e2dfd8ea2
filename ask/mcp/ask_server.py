"""`ask mcp serve`: an MCP server whose tools ask models, with the official SDK.

Each call is a child process: of the tool `ask`, with an event session (`ask/cli/event_session.py`).
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ask import __version__
from ask.config.installation import find_launcher
from ask.config.options import EVENT_SESSION_ARGUMENT, RunOptions
from ask.config.secret_files import can_contain_secrets
from ask.config.type_checks import WrongTypeError, parse_value
from ask.errors import AskError, LimitReachedError, RowsFailedError, SignalExit, UsageError
from ask.mcp.ask_server_messages import forward_messages
from ask.process.child_process import (
    end_process,
    get_pipe,
    handle_signals,
    read_objects,
    send_lines,
    start_process,
)
from ask.records import NamedTuple
from ask.schemas.short_form import parse_short_form
from ask.tools.base import build_parameters_schema

APPROVAL_SECONDS = 3600
"""Seconds after which a call ends that waits for an approval between two requests: the second one may never come."""
LAST_WRITE_SECONDS = 5
"""How long the client may take to read the last answers after it has closed stdin."""
APPROVAL_KEY = "approval"
MAX_PARALLEL_CALLS = 16
"""The limit for the calls that run at the same time; others wait."""
DEFAULT_DENIAL = {"decision": "deny", "reason": "the client cannot ask its user for approval"}
ASK_TOOL = types.Tool(
    name="ask",
    description="Ask a language model a question. The answer's conversation can be continued by its ID.",
    input_schema=build_parameters_schema(
        {"prompt": {"type": "string", "minLength": 1, "description": "The question"}},
        {
            "model": {"type": "string", "description": "A model, provider:model, or an alias of the user"},
            "conversation": {"type": "string", "description": "The ID of a conversation that this server began"},
            "files": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Files in the server's working folder to attach",
            },
        },
    ),
)
MAX_ROWS_CHARACTERS = 100_000
"""The limit for the rows in the result of `map_rows`; more are in a file that the result names."""
MAP_TOOL = types.Tool(
    name="map_rows",
    description=(
        "Ask a language model one question about each of many rows. Placeholders such as {{text}} in the prompt stand "
        "for the columns of a row. Interrupted calls continue where they stopped."
    ),
    input_schema=build_parameters_schema(
        {"prompt": {"type": "string", "minLength": 1, "description": "The question, with placeholders"}},
        {
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
    ),
)
SEARCH_TOOL = types.Tool(
    name="search_history",
    description="Find the user's saved conversations that contain all words.",
    input_schema=build_parameters_schema(
        {"query": {"type": "string", "minLength": 1, "description": "Words, or a phrase in double quotes"}},
        {"limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "At most so many (20)"}},
    ),
)
APPROVAL_SCHEMA: types.ElicitRequestedSchema = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow the call"}},
    "required": ["allow"],
}


ToolFunction = Callable[
    [ServerRequestContext[Any], Any, types.CallToolRequestParams],
    Awaitable[types.CallToolResult | types.InputRequiredResult],
]


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


class AskCall:
    """A call of the tool `ask`.

    With protocol version 2026-07-28, a request for approval is the result of the client's request, and the client makes
    the call again with the answer. The process waits in between.

    Attributes:
        ctx: the client's current request.
        arguments: the arguments of the call.
        task: the task that answers the call.
        question: what the client must ask its user before the call can go on; None if nothing.
    """

    def __init__(self, ctx: ServerRequestContext[Any], arguments: AskArguments) -> None:
        self.ctx = ctx
        self.arguments = arguments
        self.task: asyncio.Task[types.CallToolResult]
        self.question: str | None = None
        self._has_question = asyncio.Event()
        self._answer: asyncio.Future[types.ElicitResult] = asyncio.Future()
        self._event_count = 0

    async def wait(self) -> None:
        """Wait until the call is answered or has a question."""
        waiter = asyncio.create_task(self._has_question.wait())
        try:
            await asyncio.wait((self.task, waiter), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()

    async def cancel(self) -> None:
        """End the call with its process."""
        if not self.task.cancelling():  # twice would interrupt the end of the process
            self.task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((self.task,))

    def answer(self, answer: types.ElicitResult) -> None:
        """Continue with the answer to the question."""
        self.question = None
        self._has_question.clear()
        self._answer.set_result(answer)

    async def report_progress(self, message: str | None) -> None:
        """Report an event to the client."""
        self._event_count += 1
        await self.ctx.session.report_progress(self._event_count, message=message)

    async def request_approval(self, event: Mapping[str, Any]) -> dict[str, str]:
        """Have the client ask its user about a tool call; return the decision, "deny" unless the user allows it."""
        capabilities = self.ctx.session.client_capabilities
        elicitation = capabilities and capabilities.elicitation
        if not elicitation or (elicitation.url and not elicitation.form):
            return DEFAULT_DENIAL
        danger = f"\nDangerous: {event['danger']}" if event["danger"] else ""
        try:
            answer = await self._elicit(f"Allow {event['name']}?\n{event['description']}{danger}")
        except (MCPError, ValueError):  # the answer is an error or not valid
            return DEFAULT_DENIAL
        if answer.action == "accept" and answer.content and answer.content.get("allow") is True:
            return {"decision": "allow"}
        return {"decision": "deny"}

    async def _elicit(self, question: str) -> types.ElicitResult:
        if self.ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self.ctx.session.elicit_form(question, APPROVAL_SCHEMA, self.ctx.request_id)
        self._answer = asyncio.Future()
        self.question = question
        self._has_question.set()
        try:
            return await asyncio.wait_for(self._answer, APPROVAL_SECONDS)
        except TimeoutError:
            raise asyncio.CancelledError from None


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
        self._tools: dict[str, tuple[types.Tool, type[Any], ToolFunction]] = {
            "ask": (ASK_TOOL, AskArguments, self._begin_or_continue),
            "map_rows": (MAP_TOOL, MapArguments, self._map_rows),
        }
        if searches_history:
            self._tools["search_history"] = SEARCH_TOOL, SearchArguments, self._search_history
        self._conversations: set[str] = set()
        """The IDs of the conversations that this server began."""
        self._waiting_calls: dict[str, AskCall] = {}
        """The calls that wait for an answer of the client, by the state that it sends back."""
        self._slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)
        self._costs: dict[str, float] = {}
        """What each call of `ask` and each job of `map_rows` has cost in US dollars."""

    async def run(self) -> None:
        """Serve until stdin is closed."""
        handle_signals(lambda number: _exit(128 + number))
        server = Server("ask", version=__version__, on_list_tools=self._list_tools, on_call_tool=self._call_tool)
        async with stdio_server() as (read_stream, write_stream), anyio.create_task_group() as group:
            sender, receiver = anyio.create_memory_object_stream[SessionMessage | Exception]()
            group.start_soon(forward_messages, read_stream, sender, write_stream)
            await server.run(receiver, write_stream, server.create_initialization_options())
            for call in [*self._waiting_calls.values()]:
                await call.cancel()
            # A client that no longer reads would keep the thread that writes to it waiting.
            asyncio.get_running_loop().call_later(LAST_WRITE_SECONDS, _exit, 0)

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool for tool, *_ in self._tools.values()])

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name not in self._tools:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name!r}: known: {', '.join(self._tools)}")
        try:
            _, argument_type, call = self._tools[params.name]
            # Some clients and models send every optional argument, as null or empty.
            fields = {name: value for name, value in (params.arguments or {}).items() if value not in (None, "", [])}
            if unknown := fields.keys() - {*argument_type._fields}:
                raise UsageError(f"unknown argument {min(unknown)!r}", f"known: {', '.join(argument_type._fields)}")
            arguments = parse_value(fields, argument_type)
            if not getattr(arguments, "prompt", "-").strip():
                raise UsageError("the prompt is empty", "give a question")
            return await call(ctx, arguments, params)
        except WrongTypeError as error:
            return _create_result(str(error), {"exit_code": UsageError.exit_code}, is_error=True)
        except AskError as error:
            return _create_result(str(error), {"exit_code": error.exit_code}, is_error=True)

    async def _begin_or_continue(
        self, ctx: ServerRequestContext[Any], arguments: AskArguments, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Begin a call of `ask`, or continue one with an approval; return its result or the approval that it needs."""
        if params.request_state is None:
            call = AskCall(ctx, arguments)
            call.task = asyncio.create_task(self._ask(call))
        else:
            call = self._continue_call(ctx, arguments, params)
        try:
            await call.wait()
        except asyncio.CancelledError:
            await call.cancel()
            raise
        if call.question is None:
            return call.task.result()
        state = secrets.token_urlsafe()
        self._waiting_calls[state] = call
        call.task.add_done_callback(lambda _: self._waiting_calls.pop(state, None))
        form = types.ElicitRequestFormParams(message=call.question, requested_schema=APPROVAL_SCHEMA)
        return types.InputRequiredResult(
            input_requests={APPROVAL_KEY: types.ElicitRequest(params=form)}, request_state=state
        )

    def _continue_call(
        self, ctx: ServerRequestContext[Any], arguments: AskArguments, params: types.CallToolRequestParams
    ) -> AskCall:
        """Continue the call that waits for the client's answer, if there is one.

        Raises:
            UsageError: no such call waits.
        """
        call = self._waiting_calls.get(params.request_state or "")
        if call is None or call.arguments != arguments:
            raise UsageError("no such call waits for an approval", "call ask again without requestState")
        call.ctx = ctx
        answer = (params.input_responses or {}).get(APPROVAL_KEY)
        if isinstance(answer, types.ElicitResult):
            del self._waiting_calls[params.request_state or ""]
            call.answer(answer)
        return call

    async def _ask(self, call: AskCall) -> types.CallToolResult:
        arguments = call.arguments
        if arguments.conversation is not None and arguments.conversation not in self._conversations:
            raise UsageError(f"this server did not begin a conversation {arguments.conversation!r}", "leave it out")
        options = self._options._replace(resume=arguments.conversation)
        if arguments.model is not None:
            options = options._replace(provider=None, model=arguments.model)
        message = {"type": "message", "text": arguments.prompt, "files": list(map(_find_file, arguments.files))}
        note_cost = partial(self._note_run_cost, secrets.token_hex())
        async with self._slots, _start_process([EVENT_SESSION_ARGUMENT], note_cost) as process:
            options = options._replace(max_cost=self._compute_remaining_cost())
            await send_lines(process, options.to_json(), json.dumps(message))
            async for event in read_objects(process, note_cost):
                if event["type"] == "result":
                    return self._to_tool_result(event)
                if event["type"] == "input_error":
                    raise UsageError(event["error"], "change the arguments")
                if event["type"] == "approval":
                    decision = await call.request_approval(event)
                    await send_lines(process, json.dumps({"type": "approval", "id": event["id"], **decision}))
                await call.report_progress(_describe_event(event))
        raise AskError("the process that answers the call ended without a result")

    async def _map_rows(
        self, ctx: ServerRequestContext[Any], arguments: MapArguments, _: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if (arguments.rows is None) == (arguments.file is None):
            raise UsageError("map_rows needs either rows or a file", "give one of them")
        source = ["--input-format", "jsonl", "--", arguments.prompt, "-"]
        if arguments.file is not None:
            source = ["--", arguments.prompt, _find_file(arguments.file)]
        rows = [{"text": row} if isinstance(row, str) else row for row in arguments.rows or ()]
        # Without saved answers, a repeated call is paid for again.
        job = secrets.token_hex() if self._options.no_save else json.dumps(arguments)
        answered: list[Mapping[str, Any]] = []
        total = 0.0

        def note_row(row: Mapping[str, Any]) -> None:
            nonlocal total
            answered.append(row)
            total += _get_result_column(row, "cost") or 0.0
            self._costs[job] = max(total, self._costs.get(job, 0.0))

        async with self._slots:
            options = self._list_map_options(arguments, self._compute_remaining_cost(job))
            async with _start_process(["map", *options, *source], note_row) as process:
                async with anyio.create_task_group() as group:
                    errors = asyncio.create_task(_read_last_line(process))
                    group.start_soon(_send_rows, process, rows)
                    async for _row in read_objects(process, note_row):
                        await ctx.session.report_progress(len(answered), len(rows) or None)
                error, exit_code = await errors, await process.wait()
        if exit_code not in (0, RowsFailedError.exit_code):
            counts = {"exit_code": exit_code, "count": len(answered)}
            return _create_result(error.removeprefix("ask: "), counts, is_error=True)
        failed = sum(_get_result_column(row, "error") is not None for row in answered)
        fields: dict[str, Any] = {"count": len(answered), "failed": failed, "exit_code": exit_code, "summary": error}
        text = json.dumps(answered, ensure_ascii=False)
        if len(text) <= MAX_ROWS_CHARACTERS:
            fields["rows"] = answered
        else:
            fields["file"] = text = str(self._save_rows(answered))
        return _create_result(text, fields)

    def _list_map_options(self, arguments: MapArguments, max_cost: float | None) -> list[str]:
        options = self._options
        model = arguments.model if arguments.model is not None else options.model
        provider = options.provider if arguments.model is None else None
        values = {
            "--provider": provider,
            "--model": model,
            "--max-cost": max_cost,
            "--timeout": options.timeout,
            "--schema": _format_schema(arguments.schema),
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

    async def _search_history(
        self, ctx: ServerRequestContext[Any], arguments: SearchArguments, _: types.CallToolRequestParams
    ) -> types.CallToolResult:
        limit = str(max(1, min(arguments.limit, 100)))
        words = ["history", "search", "--json", "-n", limit, "--", arguments.query]
        async with self._slots, _start_process(words) as process:
            errors = asyncio.create_task(_read_last_line(process))
            text = (await get_pipe(process.stdout).read()).decode()
            error, exit_code = await errors, await process.wait()
        if exit_code:
            return _create_result(error.removeprefix("ask: "), {"exit_code": exit_code}, is_error=True)
        return _create_result(text, {"conversations": json.loads(text)})

    def _compute_remaining_cost(self, job: str = "") -> float | None:
        """Return how many US dollars a call may cost, with what its job has cost before; None without a limit.

        Raises:
            LimitReachedError: nothing is left.
        """
        if self._options.max_cost is None:
            return None
        spent = sum(cost for name, cost in self._costs.items() if name != job)
        if spent >= self._options.max_cost:
            message = f"reached the cost limit of this server (${spent:.4f} spent)"
            raise LimitReachedError(message, "restart it, or raise the limit with --max-cost")
        return self._options.max_cost - spent

    def _note_run_cost(self, run: str, event: Mapping[str, Any]) -> None:
        if event["type"] == "result":
            self._costs[run] = event["usage"]["cost"] or 0.0

    def _to_tool_result(self, event: Mapping[str, Any]) -> types.CallToolResult:
        if event["conversation"] and event["saved"]:
            self._conversations.add(event["conversation"])
        fields = {name: event[name] for name in ("conversation", "provider", "model", "usage", "exit_code")}
        if event["exit_code"]:
            return _create_result(event["error"] or f"exit code {event['exit_code']}", fields, is_error=True)
        return _create_result(event["text"], fields)


def _find_file(name: str) -> str:
    """Return the absolute path of a file in the working folder, after symbolic links.

    Raises:
        UsageError: it is outside the folder, hidden, not a regular file, or has a name for secrets; or the folder has
            the home directory.
    """
    folder = Path.cwd().resolve()
    if Path.home().resolve().is_relative_to(folder):  # some clients start servers in / or in the home directory
        raise UsageError(
            f"no files are sent from {folder}, which contains the home directory", "start the server in a project"
        )
    try:
        path = (folder / name).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise UsageError(f"no such file: {name!r}", "name a file in the server's working folder") from None
    if not path.is_relative_to(folder) or not path.is_file():
        raise UsageError(f"not a file in the server's working folder: {name!r}", "name one that is")
    parts = path.relative_to(folder).parts
    if any(part.startswith(".") or can_contain_secrets(part.lower()) for part in parts):
        raise UsageError(f"hidden files and files with secrets are not sent: {name!r}", "name another file")
    return str(path)


def _create_result(text: str, fields: Mapping[str, Any], *, is_error: bool = False) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=fields, is_error=is_error)


def _describe_event(event: Mapping[str, Any]) -> str | None:
    if event["type"] == "tool_call":
        return f"calls {event['name']}"
    return event["text"] if event["type"] == "notice" else None


def _format_schema(schema: Mapping[str, Any] | str | None) -> str | None:
    """Return a schema as JSON: a caller's text may not name a file, unlike the option's.

    Raises:
        UsageError: it is neither JSON nor the short form.
    """
    if isinstance(schema, str) and schema.lstrip().startswith(("{", "[")):
        return schema
    return None if schema is None else json.dumps(parse_short_form(schema) if isinstance(schema, str) else schema)


def _get_result_column(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column that `ask map` adds: it is behind the input's, and has a number if those have it."""
    return next(value for column, value in reversed([*row.items()]) if re.fullmatch(rf"{name}(_\d+)?", column))


@asynccontextmanager
async def _start_process(
    arguments: Sequence[str], note_cost: Callable[[Mapping[str, Any]], None] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `ask` with these arguments; at the end of the block, end it with everything that it has started.

    If the block has ended by an exception, such as a cancellation, it is interrupted. `note_cost` is then called with
    the objects that it still writes.

    Raises:
        UsageError: an argument is too long or has a null character.
    """
    process, mark = await start_process([str(find_launcher()), *arguments])
    is_done = False
    try:
        yield process
        is_done = True
    finally:
        with anyio.CancelScope(shield=True):
            await end_process(process, mark, None if is_done else note_cost or (lambda _: None))


async def _send_rows(process: asyncio.subprocess.Process, rows: Iterable[Mapping[str, Any]]) -> None:
    await send_lines(process, *map(json.dumps, rows))
    get_pipe(process.stdin).close()


async def _read_last_line(process: asyncio.subprocess.Process) -> str:
    """Read what a process prints for people; return its last line."""
    last = ""
    async for line in get_pipe(process.stderr):
        last = line.decode("utf-8", "replace").strip() or last
    return last


def _exit(code: int) -> NoReturn:
    """End the event loop, which would otherwise wait for the threads that read stdin and write to stdout."""
    raise SignalExit(code)


def serve(options: RunOptions, results_folder: Path, *, searches_history: bool) -> None:
    """Serve on stdin and stdout until stdin is closed."""
    anyio.run(AskServer(options, results_folder, searches_history=searches_history).run)
