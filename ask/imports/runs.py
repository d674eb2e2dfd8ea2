"""The runs of a conversation of another program, from its turns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ask.history.entries import Conversation, HistoryEntry, Run, ToolCallRecord
from ask.history.export_format import ConversationExport
from ask.history.titles import make_title
from ask.messages import Attachment, FinishReason, Message, ServerToolCall, ToolCall, Usage
from ask.records import NamedTuple

NO_RESULT = "[no result was saved]"


class ToolResult(NamedTuple):
    """The result of a tool call in another program."""

    call_id: str
    name: str
    output: str
    failed: bool = False
    attachments: tuple[Attachment, ...] = ()


class AssistantMessage(NamedTuple):
    """A model's answer in another program."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    server_calls: tuple[ServerToolCall, ...] = ()
    attachments: tuple[Attachment, ...] = ()


class UserMessage(NamedTuple):
    """A user's message in another program."""

    text: str
    attachments: tuple[Attachment, ...] = ()


SourceMessage = UserMessage | AssistantMessage | ToolResult


class Turn(NamedTuple):
    """The messages that one request to a model added: what was asked, and the answer."""

    messages: Sequence[SourceMessage]
    time: float
    """Seconds since 1970."""
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0


def make_export(
    conversation_id: str, program: str, turns: Iterable[Turn], *, system: str = "", name: str = ""
) -> ConversationExport | None:
    """Return a conversation with its runs; None if it has no messages. `program` is the version of the runs.

    The name of the conversation, if the user has given it one, is the beginning of its title.
    """
    groups: list[list[tuple[Turn, SourceMessage]]] = []
    for turn in turns:
        for message in turn.messages:
            begins_run = isinstance(message, UserMessage) and any(
                not isinstance(earlier, UserMessage) for _, earlier in (groups[-1] if groups else ())
            )
            if begins_run or not groups:
                groups.append([])
            groups[-1].append((turn, message))
    runs = [_make_run(group, program, system) for group in groups]
    if not runs:
        return None
    question = next((entry.message.content for run in runs for entry in run.entries if entry.message.content), "")
    title = make_title(question, name, question)
    last_time = max(run.ended or run.started for run in runs)
    return ConversationExport(Conversation(0, conversation_id, title, runs[0].started, last_time), runs)


def _make_run(group: Sequence[tuple[Turn, SourceMessage]], program: str, system: str) -> Run:
    turns = list({id(turn): turn for turn, _ in group}.values())
    first = turns[0]
    entries = _make_entries(group)
    usage = Usage()
    for turn in turns:
        usage += turn.usage
    return Run(
        number=0,
        first_kept_run=None,
        started=first.time,
        ended=max(turn.time + turn.seconds for turn in turns),
        version=program,
        provider=first.provider,
        model=first.model,
        system=system,
        directory="",
        terminal="",
        exit_code=0,
        error="",
        rounds=sum(bool(entry.calls) for entry in entries),
        usage=usage,
        entries=tuple(entries),
    )


def _make_entries(group: Sequence[tuple[Turn, SourceMessage]]) -> list[HistoryEntry]:
    """Return the messages of a run. Each call has its result, in the order of the calls, as providers require."""
    entries: list[HistoryEntry] = []
    results: dict[str, ToolResult] = {}
    for turn, message in reversed(group):
        match message:
            case ToolResult():
                results[message.call_id] = message
            case AssistantMessage():
                calls = {call.id: call for call in message.calls}
                has_followers = bool(entries or results)
                found = [
                    results.get(call.id) or ToolResult(call.id, call.name, NO_RESULT) if has_followers else None
                    for call in calls.values()
                ]
                entries[:0] = [_make_result_entry(turn.time, result) for result in found if result]
                records = tuple(
                    ToolCallRecord(call, started=turn.time, failed=result.failed if result else None)
                    for call, result in zip(calls.values(), found, strict=True)
                )
                entries.insert(0, _make_answer_entry(turn, message, records))
                results = {}
            case UserMessage():
                content = Message("user", message.text, attachments=message.attachments)
                entries.insert(0, HistoryEntry(turn.time, content))
                results = {}
    return entries


def _make_result_entry(time: float, result: ToolResult) -> HistoryEntry:
    message = Message(
        "tool", result.output, tool_call_id=result.call_id, tool_name=result.name, attachments=result.attachments
    )
    return HistoryEntry(time, message)


def _make_answer_entry(turn: Turn, message: AssistantMessage, records: tuple[ToolCallRecord, ...]) -> HistoryEntry:
    calls = tuple(record.call for record in records)
    return HistoryEntry(
        turn.time + turn.seconds,
        Message("assistant", message.text, calls, attachments=message.attachments),
        reasoning=message.reasoning,
        finish_reason=FinishReason.TOOL_CALLS if records else FinishReason.STOP,
        usage=turn.usage,
        calls=records,
        server_calls=message.server_calls,
    )


def make_tool_call(call_id: str, name: str, arguments: Any) -> ToolCall:
    """Return a tool call; `arguments` may be text, of which anything but an object is put into one."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"arguments": arguments}
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"arguments": arguments}
    return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False))
