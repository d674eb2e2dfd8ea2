# ruff: noqa: S101 - the contract is checked by assertions
"""The conversations used in contract tests, and functions that search for their parts in a request body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ask import Attachment, Message, ToolCall, ToolSpec

# Each text is unique, so that tests can count its occurrences in a body.

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

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "audio/wav", "audio/mpeg")
ATTACHMENTS = tuple(
    Attachment(f"file-{i}", name, f"content of file {i}".encode()) for i, name in enumerate(MEDIA_TYPES)
)
"""Files of common types. Their content is not valid, because providers do not read it."""

OBJECT_SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}

NAMES = {
    SYSTEM_MESSAGE.content: "the system prompt",
    USER_MESSAGE.content: "the user's message",
    "I shall look both up.": "the assistant's text",
    "lundi": "the argument of the first tool call",
    "rostungur": "the argument of the second tool call",
    **{text: f"the {ordinal} tool result" for ordinal, text in zip(("first", "second"), TOOL_RESULTS, strict=True)},
    **{attachment.base64: f"the {attachment.media_type} attachment" for attachment in ATTACHMENTS},
}
"""Descriptions of the texts, for the messages of failed tests."""

FOREIGN_TEXT = "native-part-of-another-model"
FOREIGN_STATE = {
    FOREIGN_TEXT: FOREIGN_TEXT,
    "reasoning_content": FOREIGN_TEXT,
    "reasoning_details": [{"type": "reasoning.text", "text": FOREIGN_TEXT}],
    "content": [{"type": "thinking", "thinking": FOREIGN_TEXT, "signature": FOREIGN_TEXT}],
    "parts": [{"text": FOREIGN_TEXT, "thoughtSignature": FOREIGN_TEXT}],
}


def change_arguments(arguments: str) -> list[Message]:
    """Return `TOOL_CONVERSATION` with other arguments of the first call."""
    calls = (TOOL_CALLS[0]._replace(arguments=arguments), TOOL_CALLS[1])
    return [message._replace(tool_calls=calls) if message.tool_calls else message for message in TOOL_CONVERSATION]


def iterate_leaves(value: Any) -> Iterator[Any]:
    """Yield all scalar values inside a JSON value, in order."""
    return (leaf for _, leaf in iterate_fields(value))


def iterate_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all scalar values inside a JSON value, each with the name of the innermost field that contains it."""
    return ((key, part) for key, part in iterate_parts(value) if not isinstance(part, Mapping | list | tuple))


def iterate_parts(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a JSON value and all values inside it, each with the name of the innermost field that contains it."""
    yield key, value
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from iterate_parts(part, name)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from iterate_parts(part, key)


def find_occurrences(text: str, body: Any) -> list[int]:
    """Return the index of the leaf for each occurrence of a text in a JSON value."""
    return [i for i, leaf in enumerate(iterate_leaves(body)) if isinstance(leaf, str) for _ in range(leaf.count(text))]


def check_once(body: Any, *texts: str) -> None:
    """Check that a JSON value contains each text once, in this order."""
    __tracebackhide__ = True
    positions = [find_occurrences(text, body) for text in texts]
    for text, occurrences in zip(texts, positions, strict=True):
        name = NAMES.get(text, "the text")
        assert len(occurrences) == 1, (
            f"provider_build_request sent {name} {shorten(text)} {len(occurrences)} times instead of once. "
            "Send everything in request.messages, each part in one place of the body."
        )
    order = sorted(texts, key=lambda text: positions[texts.index(text)])
    assert order == list(texts), (
        f"provider_build_request sent the parts in the order {', '.join(map(shorten, order))} instead of "
        f"{', '.join(map(shorten, texts))}. Keep the order of the messages."
    )


def shorten(text: str) -> str:
    """Return a text quoted, and shortened for messages."""
    return repr(text) if len(text) <= 60 else repr(text[:57] + "...")


def remove_cache_markers(value: Any) -> Any:
    """Remove the cache markers from a JSON value.

    They move from one tool round to the next.
    """
    if isinstance(value, Mapping):
        return {key: remove_cache_markers(part) for key, part in value.items() if key != "cache_control"}
    return [remove_cache_markers(part) for part in value] if isinstance(value, list | tuple) else value


def is_prefix(shorter: Any, longer: Any) -> bool:
    """Check whether a request body is a prefix of another.

    Every field must be the same, and every array a prefix of the other's.
    """
    if isinstance(shorter, dict) and isinstance(longer, dict):
        return all(key in longer and is_prefix(part, longer[key]) for key, part in shorter.items())
    if isinstance(shorter, list) and isinstance(longer, list):
        return longer[: len(shorter)] == shorter
    return shorter == longer or isinstance(shorter, int | float)  # a number may depend on the conversation's size
