"""The attributes of spans that contain messages, in the form of the conventions for generative AI."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ask.messages import Message, ToolCall
from ask.parsing import parse_json


def format_instructions(messages: Sequence[Message]) -> str:
    """Return the system messages as JSON; "" for none."""
    parts = [{"type": "text", "content": message.content} for message in messages if message.role == "system"]
    return _to_json(parts) if parts else ""


def format_messages(messages: Sequence[Message]) -> str:
    """Return messages as JSON, without the system messages and the data of files."""
    return _to_json([_describe(message) for message in messages if message.role != "system"])


def format_answer(text: str, reasoning: str, calls: Sequence[ToolCall], finish_reason: str) -> str:
    """Return a model's answer as JSON."""
    described = _describe(Message("assistant", text, tuple(calls)))
    if reasoning:
        described["parts"].insert(0, {"type": "reasoning", "content": reasoning})
    # The JSON Schema of messages has another word for it than the examples of the attribute with finish reasons.
    return _to_json([{**described, "finish_reason": "tool_call" if finish_reason == "tool_calls" else finish_reason}])


def _describe(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        part = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": message.content}] if message.content else []
    parts += [{"type": "file", "name": file.name, "mime_type": file.media_type} for file in message.attachments]
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _parse_arguments(call.arguments)}
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": parts}


def _parse_arguments(arguments: str) -> Any:
    value = parse_json(arguments)
    return arguments if value is None else value


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
