"""Builds Chat Completions answers as the bytes that a service sends, and parses request bodies.

A chunk is one event of a stream, as a dict; an answer is a complete, non-streamed response.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ask import RawEvent
from ask.parsing import DONE_DATA
from tests.model_server import Ending, Reply, Step

MODEL = "test/model"
Json = dict[str, Any]
Call = tuple[str, Any]
"""A tool's name and its arguments: a JSON value, or literal text."""


# Chunks


def chunk(delta: Json | None = None, *, finish: str | None = None, **choice: Any) -> Json:
    """Return a chunk with one choice; `choice` adds or replaces fields of the chunk's choice."""
    one = {"index": 0, "delta": delta or {}, "finish_reason": finish} | choice
    return {"id": "gen-1", "object": "chat.completion.chunk", "model": MODEL, "choices": [one]}


def text(piece: str) -> Json:
    return chunk({"role": "assistant", "content": piece})


def reasoning(piece: str, field: str = "reasoning") -> Json:
    return chunk({field: piece})


def detail(**fragment: Any) -> Json:
    return chunk({"reasoning_details": [fragment]})


def call(
    index: int | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the wire's own name
    name: str | None = None,
    arguments: str | None = None,
) -> Json:
    """Return a chunk with one fragment of a tool call; fields that are None are omitted."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fragment = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return chunk({"tool_calls": [fragment | {"type": "function", "function": function}]})


def finish(reason: str = "stop") -> Json:
    return chunk(finish=reason)


def usage(prompt: int = 10, completion: int = 5, **more: Any) -> Json:
    """Return the chunk without choices that reports the usage."""
    numbers = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"id": "gen-1", "object": "chat.completion.chunk", "model": MODEL, "choices": [], "usage": numbers | more}


def error(message: str = "it failed", code: int = 502, **more: Any) -> Json:
    return {"error": {"code": code, "message": message, **more}}


# Streams and complete answers as bytes


def sse(*chunks: Json | str | bytes, done: bool = True) -> bytes:
    """Encode server-sent events: dicts as JSON, strings as data, bytes unchanged; ends with `[DONE]` if `done`."""
    return b"".join(event(one) for one in chunks) + (b"data: [DONE]\n\n" if done else b"")


def event(one: Json | str | bytes) -> bytes:
    if isinstance(one, bytes):
        return one
    data = one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
    return f"data: {data}\n\n".encode()


def events(stream: bytes) -> Iterator[RawEvent]:
    """Return the events of a complete stream that readers get, split in the simplest way."""
    for block in stream.decode().replace("\r\n", "\n").split("\n\n"):
        fields = [line.partition(":") for line in block.split("\n")]
        data = [value.removeprefix(" ") for name, _, value in fields if name == "data"]
        kind = next((value.strip() for name, _, value in fields if name == "event"), None)
        if data and data != [DONE_DATA]:
            yield RawEvent(kind, "\n".join(data))


def answer(
    content: str | list[Json] | None = None, calls: Sequence[Call] = (), *, finish: str | None = None, **more: Any
) -> Json:
    """Return a complete answer; `more` adds fields to its message."""
    message = {"role": "assistant", "content": content} | more
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments_text(arguments)}}
            for i, (name, arguments) in enumerate(calls)
        ]
    reason = finish or ("tool_calls" if calls else "stop")
    return {
        "id": "gen-1",
        "object": "chat.completion",
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def arguments_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def stream(content: str | None = None, calls: Sequence[Call] = (), *, finish: str | None = None) -> list[Json]:
    """Return the chunks of an answer: text word by word, the arguments of each call in two fragments, the usage."""
    words = content.split(" ") if content else []
    chunks = [text(word if i == 0 else f" {word}") for i, word in enumerate(words)]
    for i, (name, arguments) in enumerate(calls):
        written = arguments_text(arguments)
        chunks += [
            call(i, id=f"call_{i}", name=name, arguments=""),
            call(i, arguments=written[: len(written) // 2]),
            call(i, arguments=written[len(written) // 2 :]),
        ]
    return [*chunks, chunk(finish=finish or ("tool_calls" if calls else "stop")), usage()]


# Replies


def streams(*chunks: Json | str | bytes | float | threading.Event | Ending, done: bool = True) -> Reply:
    """Return a streamed reply that sends each event separately.

    Numbers are pauses in seconds, it waits for each `threading.Event`, and an ending truncates it.
    """
    steps: list[Step] = [one if isinstance(one, float | threading.Event | Ending) else event(one) for one in chunks]
    if done and not isinstance(chunks[-1], Ending):
        steps.append(sse())
    return Reply(steps, content_type="text/event-stream")


def says(content: str, *, finish: str | None = None, whole: bool = False) -> Reply:
    """Return a text reply, streamed unless `whole`."""
    return whole_reply(answer(content, finish=finish)) if whole else streams(*stream(content, finish=finish))


def calls(*wanted: Call, content: str | None = None, whole: bool = False) -> Reply:
    """Return a reply that calls tools, after text if there is any."""
    return whole_reply(answer(content, wanted)) if whole else streams(*stream(content, wanted))


def whole_reply(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a reply with a body that is not streamed."""
    return Reply((json.dumps(body, ensure_ascii=False).encode(),), status=status, headers=headers or {})


def fails(status: int, message: str = "it failed", headers: Mapping[str, str] | None = None) -> Reply:
    """Return an HTTP error in OpenRouter's format."""
    return whole_reply(error(message, status), status, headers)


def chop(data: bytes, size: int = 1) -> list[bytes]:
    """Split data into pieces of `size` bytes; 1 splits inside every multibyte character."""
    return [data[start : start + size] for start in range(0, len(data), size)]


# Request bodies


def asked(body: Mapping[str, Any], message: int = -1) -> str:
    """Return the text of a message in a request body, by default of the last one."""
    content = body["messages"][message]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def read_by_openai(body: Mapping[str, Any]) -> Any:
    """Parse a request body with the types of the `openai` SDK; the result equals the body if it matches them.

    OpenRouter's `session_id` is a string in any request.
    """
    session = {"session_id": str(body["session_id"])} if "session_id" in body else {}
    return written_out(openai_request_type().validate_python(body)) | session


def without_fields(value: Any, names: set[str]) -> Any:
    """Remove fields from a JSON value at any depth: those that a service has beyond OpenAI's types."""
    if isinstance(value, dict):
        return {name: without_fields(part, names) for name, part in value.items() if name not in names}
    return [without_fields(part, names) for part in value] if isinstance(value, list) else value


@cache
def openai_request_type() -> Any:
    """Build the type of a request body, which takes a while."""
    from openai.types.chat.completion_create_params import CompletionCreateParams
    from pydantic import TypeAdapter

    return TypeAdapter(CompletionCreateParams)


def written_out(value: Any) -> Any:
    """Evaluate the lazy parts of a value, which are validated only when read."""
    if isinstance(value, dict):
        return {key: written_out(part) for key, part in value.items()}
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return value
    return [written_out(part) for part in value]


def list_strings(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON value, but not its keys."""
    match value:
        case str():
            yield value
        case dict() | list():
            for part in value.values() if isinstance(value, dict) else value:
                yield from list_strings(part)
