"""One prompt: a child process with an event session, whose events become updates of the editor."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from acp import (
    RequestError,
    resource_link_block,
    schema,
    start_tool_call,
    update_agent_message,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
)

from ask.acp.prompt_content import PromptContent
from ask.acp.tool_updates import MAX_TITLE_CHARACTERS, build_diffs, build_text, describe_call
from ask.client.citations import list_in_markdown
from ask.config.installation import find_launcher
from ask.config.options import EVENT_SESSION_ARGUMENT, RunOptions
from ask.errors import AskError, IncompleteResponseError, LimitReachedError
from ask.messages import Citation, FinishReason
from ask.process.child_process import end_process, get_pipe, read_objects, send_lines, start_process
from ask.text import format_one_line
from ask.tools.terminal_output import render_lines

MAX_OUTPUT_CHARACTERS = 20_000
"""How much of a running command's output is shown."""
OUTPUT_INTERVAL_SECONDS = 0.2
_KEY_HINTS = ("ask keys set", "_API_KEY")


class PromptCanceledError(Exception):
    """The user canceled the prompt, or the editor ended, at a question about a call."""


class EditorConnection(Protocol):
    """The requests to the editor that a prompt needs."""

    async def session_update(self, session_id: str, update: Any) -> None: ...

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> schema.RequestPermissionResponse: ...


class PromptRun:
    """Answers one prompt."""

    def __init__(self, editor: EditorConnection, session_id: str, directory: str) -> None:
        self._editor = editor
        self._session_id = session_id
        self._directory = directory
        self._prefix = f"{time.time_ns():x}"
        self._call_count = 0
        self._call_id = ""
        """The ID of the call that waits or runs; "" for none."""
        self._output = ""
        self._output_time = 0.0
        self._output_task: asyncio.Task[None] | None = None
        """Shows the output that is not shown yet."""
        self._errors: list[str] = []
        """The lines that the process has printed for people."""

    async def run(self, options: RunOptions, content: PromptContent) -> schema.PromptResponse:
        """Run the prompt; if it is canceled, the process is interrupted and saves what it has.

        Raises:
            RequestError: the prompt failed.
            PromptCanceledError: the user canceled it.
        """
        message = json.dumps({"type": "message", "text": content.text, "files": content.files}, ensure_ascii=False)
        try:
            process, mark = await start_process([str(find_launcher()), EVENT_SESSION_ARGUMENT], self._directory)
        except OSError as error:
            raise RequestError(-32603, f"cannot start in {self._directory} ({error.strerror})") from None
        errors = asyncio.create_task(self._read_errors(process))
        result: Mapping[str, Any] | None = None
        try:
            await send_lines(process, options.to_json(), message)
            with suppress(AskError):  # it was killed while it wrote
                result = await self._read_events(process)
        finally:
            await _wait_for(asyncio.create_task(end_process(process, mark, None if result else lambda _: None)))
            self._stop_showing_output()
            if result is None and self._call_id:
                await self._send(update_tool_call(self._call_id, status="failed"))
        if result is None:
            await errors
            reason = self._errors[-1] if self._errors else "the process that answers the prompt ended"
            raise RequestError(-32603, reason.removeprefix("ask: "))
        response = _to_response(result)
        if result["error"]:  # a limit
            await self._send(update_agent_thought_text(f"ask: {result['error']}\n"))
        return response

    async def _read_events(self, process: asyncio.subprocess.Process) -> Mapping[str, Any] | None:
        """Pass on the events of the process; return the one with the result."""
        async for event in read_objects(process):
            match event["type"]:
                case "result":
                    return event
                case "start":
                    for notice in self._errors:  # those of the preparation
                        await self._send(update_agent_thought_text(f"{notice}\n"))
                case "approval":
                    decision = await self._request_permission(event)
                    await send_lines(process, json.dumps({"type": "approval", "id": event["id"], **decision}))
                case "input_error":
                    raise RequestError(RequestError.invalid_params().code, event["error"])
                case "tool_call" | "tool_output" | "tool_result":
                    await self._show_call(event)
                case _:
                    if update := _to_update(event, self._directory):
                        await self._send(update)
        return None

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        async for line in get_pipe(process.stderr):
            if text := line.decode("utf-8", "replace").strip():
                self._errors.append(text)

    async def _show_call(self, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "tool_call":
                await self._start_call(event, "in_progress")
            case "tool_output":
                self._add_output(event["text"])
            case "tool_result":
                await self._finish_call(event)

    async def _start_call(self, event: Mapping[str, Any], status: schema.ToolCallStatus) -> None:
        if self._call_id:  # it was shown when the user was asked about it
            await self._send(update_tool_call(self._call_id, status=status))
            return
        self._call_count += 1
        self._call_id, self._output = f"{self._prefix}-{self._call_count}", ""
        description = describe_call(event["name"], event["arguments"], self._directory)
        await self._send(start_tool_call(self._call_id, status=status, **description))

    def _add_output(self, text: str) -> None:
        self._output = (self._output + text)[-MAX_OUTPUT_CHARACTERS:]
        if self._call_id and self._output_task is None:
            self._output_task = asyncio.create_task(self._show_output(self._call_id))

    async def _show_output(self, call_id: str) -> None:
        """Show the output of a running command, at the earliest an interval after the last time."""
        await asyncio.sleep(self._output_time + OUTPUT_INTERVAL_SECONDS - time.monotonic())
        self._output_task, self._output_time = None, time.monotonic()
        await self._send(update_tool_call(call_id, content=build_text(render_lines(self._output))))

    def _stop_showing_output(self) -> None:
        if self._output_task:
            self._output_task.cancel()
        self._output_task = None

    async def _finish_call(self, event: Mapping[str, Any]) -> None:
        self._stop_showing_output()
        content = build_text(event["result"])
        locations = None
        if event["diff"]:
            content = build_diffs(event["arguments"], self._directory, event["diff"])
            description = describe_call(event["name"], event["arguments"], self._directory, event["diff"])
            locations = description["locations"]
        status: schema.ToolCallStatus = "failed" if event["failed"] else "completed"
        call_id, self._call_id = self._call_id, ""
        await self._send(update_tool_call(call_id, status=status, content=content, locations=locations))

    async def _request_permission(self, event: Mapping[str, Any]) -> dict[str, str]:
        """Have the editor ask its user about a call; return the decision."""
        await self._start_call(event, "pending")
        description = describe_call(event["name"], event["arguments"], self._directory, event["diff"])
        content = build_text(event["description"])
        if event["diff"]:
            content = build_diffs(event["arguments"], self._directory, event["diff"])
        call = schema.ToolCallUpdate(tool_call_id=self._call_id, status="pending", content=content, **description)
        options = [schema.PermissionOption(option_id="allow", name="Allow", kind="allow_once")]
        scope, values = next(iter(event["scopes"].items()), ("", []))
        if scope:
            extent = f"{values[0]} for files in this folder" if scope == "files" else f"the {scope} {', '.join(values)}"
            allowed = f"Always allow {extent} when ask runs in this folder"
            name = format_one_line(allowed, MAX_TITLE_CHARACTERS)
            options.append(schema.PermissionOption(option_id="always", name=name, kind="allow_always"))
        options.append(schema.PermissionOption(option_id="reject", name="Reject", kind="reject_once"))
        try:
            response = await self._editor.request_permission(self._session_id, call, options)
        except (RequestError, ValueError) as error:  # the SDK's ValidationError is a ValueError
            reason = str(error) if isinstance(error, RequestError) else "its answer is not valid"
            return {"decision": "deny", "reason": f"the editor cannot ask its user for approval: {reason}"}
        except ConnectionError:
            raise PromptCanceledError from None
        if response.outcome.outcome == "cancelled":
            raise PromptCanceledError
        choice = getattr(response.outcome, "option_id", "")
        if choice == "always" and scope:
            return {"decision": "allow", "scope": scope, "duration": "folder"}
        return {"decision": "allow" if choice == "allow" else "deny"}

    async def _send(self, update: Any) -> None:
        with suppress(ConnectionError):  # the editor has ended, which cancels the prompt
            await self._editor.session_update(self._session_id, update)


async def _wait_for(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task, also if this is canceled: by a second cancellation, or as the editor ends."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)


def _to_update(event: Mapping[str, Any], directory: str) -> Any:
    """Convert an event to an update; None if it is not shown."""
    match event["type"]:
        case "text":
            return update_agent_message_text(event["text"])
        case "reasoning":
            return update_agent_thought_text(event["text"])
        case "notice":
            return update_agent_thought_text(f"ask: {event['text']}\n")
        case "file":
            path = Path(directory, event["path"])
            return update_agent_message(resource_link_block(path.name, path.as_uri(), mime_type=event["media_type"]))
        case "citations":
            citations = [Citation(**citation) for citation in event["citations"]]
            return update_agent_message_text(f"\n{list_in_markdown(citations, '', 'Sources:')}\n")
        case _:
            return None


def _to_response(result: Mapping[str, Any]) -> schema.PromptResponse:
    """Convert the result of a run.

    Raises:
        RequestError: the run failed.
    """
    usage = result["usage"]
    tokens = usage["input_tokens"] or 0, usage["output_tokens"] or 0
    response_usage = schema.Usage(
        total_tokens=sum(tokens),
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        thought_tokens=usage["reasoning_tokens"],
        cached_read_tokens=usage["cached_tokens"],
        cached_write_tokens=usage["cache_write_tokens"],
    )
    reason: schema.StopReason = "end_turn"
    if result["finish"] == FinishReason.CONTENT_FILTER:
        reason = "refusal"
    elif result["finish"] == FinishReason.LENGTH and result["exit_code"] in (0, IncompleteResponseError.exit_code):
        reason = "max_tokens"
    elif result["exit_code"] == LimitReachedError.exit_code:
        reason = "max_turn_requests"
    elif result["exit_code"]:
        error = result["error"] or f"exit code {result['exit_code']}"
        if any(hint in error for hint in _KEY_HINTS):
            raise RequestError(RequestError.auth_required().code, error)
        raise RequestError(-32603, error)
    return schema.PromptResponse(stop_reason=reason, usage=response_usage)
