"""Answers in the Chat Completions wire, as the bytes that a service sends, and judges of our own side.

A chunk is one event of a stream, as a dict; an answer is a whole, non-streamed response.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ask import ServerEvent
from tests.model_server import Ending, Reply, Step

MODEL = "test/model"
Json = dict[str, Any]
Call = tuple[str, Any]
"""A tool's name and its arguments: JSON values, or the very text."""


# Chunks


def chunk(delta: Json | None = None, *, finish: str | None = None, **choice: Any) -> Json:
    """A chunk with one choice; `choice` adds to it, or replaces its parts."""
    one = {"index": 0, "delta": delta or {}, "finish_reason": finish} | choice
    return {"id": "gen-1", "object": "chat.completion.chunk", "model": MODEL, "choices": [one]}


def text(piece: str) -> Json:
    return chunk({"role": "assistant", "content": piece})


def reasoning(piece: str, field: str = "reasoning") -> Json:
    return chunk({field: piece})


def detail(**fragment: Any) -> Json:
    """A chunk with one fragment of `reasoning_details`."""
    return chunk({"reasoning_details": [fragment]})


def call(
    index: int | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the wire's own name
    name: str | None = None,
    arguments: str | None = None,
) -> Json:
    """A chunk with one fragment of a tool call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fragment = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return chunk({"tool_calls": [fragment | {"type": "function", "function": function}]})


def finish(reason: str = "stop") -> Json:
    return chunk(finish=reason)


def usage(prompt: int = 10, completion: int = 5, **more: Any) -> Json:
    """The chunk without choices that tells the usage."""
    numbers = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"id": "gen-1", "object": "chat.completion.chunk", "model": MODEL, "choices": [], "usage": numbers | more}


def error(message: str = "it failed", code: int = 502, **more: Any) -> Json:
    return {"error": {"code": code, "message": message, **more}}


# Streams and whole answers as bytes


def sse(*chunks: Json | str | bytes, done: bool = True) -> bytes:
    """Events: dicts as JSON, strings as they are behind `data: `, bytes as they are; `[DONE]` at the end."""
    return b"".join(event(one) for one in chunks) + (b"data: [DONE]\n\n" if done else b"")


def event(one: Json | str | bytes) -> bytes:
    if isinstance(one, bytes):
        return one
    data = one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
    return f"data: {data}\n\n".encode()


def events(stream: bytes) -> Iterator[ServerEvent]:
    """The events of a whole stream, split in the simplest way."""
    for block in stream.decode().replace("\r\n", "\n").split("\n\n"):
        fields = [line.partition(":") for line in block.split("\n")]
        data = [value.removeprefix(" ") for name, _, value in fields if name == "data"]
        kind = next((value.strip() for name, _, value in fields if name == "event"), None)
        if data:
            yield ServerEvent(kind, "\n".join(data))


def answer(content: str | None = None, calls: Sequence[Call] = (), *, finish: str | None = None, **more: Any) -> Json:
    """A whole answer; `more` adds to its message."""
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
    """The chunks of an answer: the text word by word, each call's arguments in two fragments, the usage."""
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


def streams(*chunks: Json | str | bytes | float | Ending, done: bool = True) -> Reply:
    """A streamed reply, each event sent by itself; numbers are pauses, and an ending cuts it."""
    steps: list[Step] = [one if isinstance(one, float | Ending) else event(one) for one in chunks]
    if done and not isinstance(chunks[-1], Ending):
        steps.append(sse())
    return Reply(steps, content_type="text/event-stream")


def says(content: str, *, finish: str | None = None, whole: bool = False) -> Reply:
    """A reply of text, streamed unless it is to be `whole`."""
    return whole_reply(answer(content, finish=finish)) if whole else streams(*stream(content, finish=finish))


def calls(*wanted: Call, content: str | None = None, whole: bool = False) -> Reply:
    """A reply that calls tools, behind some text where there is any."""
    return whole_reply(answer(content, wanted)) if whole else streams(*stream(content, wanted))


def whole_reply(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A body that is not streamed."""
    return Reply((json.dumps(body, ensure_ascii=False).encode(),), status=status, headers=headers or {})


def fails(status: int, message: str = "it failed", headers: Mapping[str, str] | None = None) -> Reply:
    """An HTTP error in the shape that OpenRouter gives it."""
    return whole_reply(error(message, status), status, headers)


def chop(data: bytes, size: int = 1) -> list[bytes]:
    """Pieces of `size` bytes, the last one shorter: with 1, every character of UTF-8 is split inside."""
    return [data[start : start + size] for start in range(0, len(data), size)]


# Judges


def asked(body: Mapping[str, Any], message: int = -1) -> str:
    """The text of a message in a request body, in content parts or not; of the user's where it is the last."""
    content = body["messages"][message]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def read_by_openai(body: Mapping[str, Any]) -> Any:
    """A request body as the types of the `openai` SDK read it: equal to the body where it fits them, key by key."""
    return written_out(openai_request_type().validate_python(body))


def without_fields(value: Any, names: set[str]) -> Any:
    """A JSON value without these fields, wherever they are: what a service takes beyond OpenAI's types."""
    if isinstance(value, dict):
        return {name: without_fields(part, names) for name, part in value.items() if name not in names}
    return [without_fields(part, names) for part in value] if isinstance(value, list) else value


@cache
def openai_request_type() -> Any:
    """The type of a request body; it takes a while to build."""
    from openai.types.chat.completion_create_params import CompletionCreateParams
    from pydantic import TypeAdapter

    return TypeAdapter(CompletionCreateParams)


def written_out(value: Any) -> Any:
    """The value with its lazy parts, which are checked when they are read, read."""
    if isinstance(value, dict):
        return {key: written_out(part) for key, part in value.items()}
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return value
    return [written_out(part) for part in value]
