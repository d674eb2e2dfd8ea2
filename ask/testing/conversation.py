"""The conversation that the contract builds requests from, and the search for its parts in a request's body."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ask import Attachment, Message, ToolCall, ToolSpec

# Each text occurs once, so that it can be counted in a body.

KEY = "contract-key-0123456789"
SYSTEM_MESSAGE = Message("system", "You explain words.")
USER_MESSAGE = Message("user", "What is a puffin, and what is a walrus?")
SHORT_CONVERSATION = (SYSTEM_MESSAGE, USER_MESSAGE)
TOOL_CALLS = (
    ToolCall("call_1", "look_up", '{"word": "lundi"}'),
    ToolCall("call_2", "look_up", '{"word": "rostungur"}'),
)
TOOL_RESULTS = ("a small seabird", "a large\nmöttled sea mammal")
TOOL_CONVERSATION = (
    *SHORT_CONVERSATION,
    Message("assistant", "I shall look both up.", TOOL_CALLS),
    *(Message("tool", text, (), call.id, call.name) for call, text in zip(TOOL_CALLS, TOOL_RESULTS, strict=True)),
)
LONG_CONVERSATION = (*TOOL_CONVERSATION, Message("assistant", "One flies, one swims."), Message("user", "Thank you."))

LOOK_UP_PARAMETERS = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
LOOK_UP_TOOL = ToolSpec("look_up", "Explains a word.", LOOK_UP_PARAMETERS)
CLOCK_TOOL = ToolSpec("clock", "Tells the time.", {"type": "object", "properties": {}})
TOOLS = (LOOK_UP_TOOL, CLOCK_TOOL)

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

OBJECT_SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}

FOREIGN_TEXT = "native-part-of-another-model"
FOREIGN_STATE = {
    FOREIGN_TEXT: FOREIGN_TEXT,
    "reasoning_content": FOREIGN_TEXT,
    "reasoning_details": [{"type": "reasoning.text", "text": FOREIGN_TEXT}],
    "content": [{"type": "thinking", "thinking": FOREIGN_TEXT, "signature": FOREIGN_TEXT}],
    "parts": [{"text": FOREIGN_TEXT, "thoughtSignature": FOREIGN_TEXT}],
}


def iterate_leaves(value: Any) -> Iterator[Any]:
    """All values inside a JSON value that hold no others, in order."""
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, str) or not isinstance(value, Iterable):
        yield value
        return
    for part in value:
        yield from iterate_leaves(part)


def find_occurrences(text: str, body: Any) -> list[int]:
    """Where a text stands in a JSON value, by the number of the leaf that holds it."""
    return [i for i, leaf in enumerate(iterate_leaves(body)) if isinstance(leaf, str) for _ in range(leaf.count(text))]


def remove_cache_markers(value: Any) -> Any:
    """The JSON value without the marks that tell a provider how far to cache, which move from round to round."""
    if isinstance(value, Mapping):
        return {key: remove_cache_markers(part) for key, part in value.items() if key != "cache_control"}
    return [remove_cache_markers(part) for part in value] if isinstance(value, list | tuple) else value


def is_prefix(shorter: Any, longer: Any) -> bool:
    """Whether a body is the beginning of another: objects by field, arrays by their first entries."""
    if isinstance(shorter, dict) and isinstance(longer, dict):
        return all(key in longer and is_prefix(part, longer[key]) for key, part in shorter.items())
    if isinstance(shorter, list) and isinstance(longer, list):
        return longer[: len(shorter)] == shorter
    return shorter == longer or isinstance(shorter, int | float)  # a size may grow with the conversation
