"""The conversation that the contract builds requests from, and the search for its parts in a request's body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ask import Attachment, Message, ToolCall, ToolSpec

# Each text occurs once, so that it can be counted in a body.

KEY = "contract-key-0123456789"
SYSTEM = Message("system", "You explain words.")
QUESTION = Message("user", "What is a puffin, and what is a walrus?")
TALK = (SYSTEM, QUESTION)
CALLS = (ToolCall("call_1", "look_up", '{"word": "lundi"}'), ToolCall("call_2", "look_up", '{"word": "rostungur"}'))
RESULTS = ("a small seabird", "a large\nmöttled sea mammal")
ROUND = (
    *TALK,
    Message("assistant", "I shall look both up.", CALLS),
    *(Message("tool", text, (), call.id, call.name) for call, text in zip(CALLS, RESULTS, strict=True)),
)
LONGER = (*ROUND, Message("assistant", "One flies, one swims."), Message("user", "Thank you."))

LOOK_UP_PARAMETERS = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
LOOK_UP = ToolSpec("look_up", "Explains a word.", LOOK_UP_PARAMETERS)
CLOCK = ToolSpec("clock", "Tells the time.", {"type": "object", "properties": {}})
TOOLS = (LOOK_UP, CLOCK)

ATTACHMENTS = tuple(
    Attachment(name, media_type, f"content of {name}".encode())
    for name, media_type in (
        ("a.png", "image/png"),
        ("b.jpg", "image/jpeg"),
        ("c.gif", "image/gif"),
        ("d.webp", "image/webp"),
        ("e.pdf", "application/pdf"),
        ("f.wav", "audio/wav"),
        ("g.mp3", "audio/mpeg"),
    )
)
"""Files of the usual kinds; no provider looks into them."""

OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}

OTHERS_PART = "native-part-of-another-model"
FOREIGN_PARTS = {
    OTHERS_PART: OTHERS_PART,
    "reasoning_content": OTHERS_PART,
    "reasoning_details": [{"type": "reasoning.text", "text": OTHERS_PART}],
    "content": [{"type": "thinking", "thinking": OTHERS_PART, "signature": OTHERS_PART}],
    "parts": [{"text": OTHERS_PART, "thoughtSignature": OTHERS_PART}],
}


def leaves(value: Any) -> Iterator[Any]:
    """All values inside a JSON value that hold no others, in order."""
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, str) or not isinstance(value, Iterable):
        yield value
        return
    for part in value:
        yield from leaves(part)


def places(text: str, body: Any) -> list[int]:
    """Where a text stands in a JSON value, by the number of the leaf that holds it."""
    return [i for i, leaf in enumerate(leaves(body)) if isinstance(leaf, str) for _ in range(leaf.count(text))]


def without_cache_markers(value: Any) -> Any:
    """The JSON value without the marks that tell a provider how far to cache, which move from round to round."""
    if isinstance(value, Mapping):
        return {key: without_cache_markers(part) for key, part in value.items() if key != "cache_control"}
    return [without_cache_markers(part) for part in value] if isinstance(value, list | tuple) else value


def is_beginning(short: Any, long: Any) -> bool:
    """Whether a body is the beginning of another: objects by field, arrays by their first entries."""
    if isinstance(short, dict) and isinstance(long, dict):
        return all(key in long and is_beginning(part, long[key]) for key, part in short.items())
    if isinstance(short, list) and isinstance(long, list):
        return long[: len(short)] == short
    return short == long or isinstance(short, int | float)  # a size may grow with the conversation
