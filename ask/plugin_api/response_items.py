"""The items in the output of OpenAI's Responses API: reading them, and choosing those to send back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from itertools import zip_longest
from typing import Any

from ask.parsing import read_dict, read_list, read_str

IMAGE_ITEM = "image_generation_call"
PART_SEPARATOR = "\n\n"
"""Separates messages, and the parts of reasoning; each part of a summary begins with a heading."""
CLIENT_CALLS = ("custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call")
"""Types of the calls that a service leaves to its client, unless there is an output for them. No tool of ask has them.

https://github.com/diegosouzapw/OmniRoute/issues/8946
"""


class PartialItem:
    """An item of the output as received so far: its fields and its text."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.text = StringIO()
        self.annotations: list[Any] = []
        self.part_index: int | None = None
        self.is_added = False
        self.is_done = False
        self.is_announced = False

    def to_dict(self) -> dict[str, Any]:
        """Return the item in the format of the non-streaming API."""
        text = self.text.getvalue()
        if not text or (self.is_done and _has_text(self.fields)):
            return self.fields
        match self.fields.get("type"):
            case "function_call":
                return self.fields | {"arguments": text}
            case "reasoning":
                return self.fields | {"summary": [{"type": "summary_text", "text": text}]}
        return self.fields | {"content": [{"type": "output_text", "text": text, "annotations": self.annotations}]}


def read_items(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items of a response's output."""
    return (read_dict(item) for item in read_list(response.get("output")))


def read_text(item: Mapping[str, Any]) -> str:
    """Return the text of a message item, including refusals; "" for any other item."""
    if item.get("type") != "message":
        return ""
    return "".join(read_str(part.get("text")) + read_str(part.get("refusal")) for part in _read_parts(item, "content"))


def precedes_final_answer(item: Mapping[str, Any]) -> bool:
    """Check whether an item has no text, or text that OpenAI marks as commentary before the final answer.

    https://github.com/openai/openai-python/pull/3861
    """
    return item.get("phase") == "commentary" or not read_text(item)


def read_image_data(item: Mapping[str, Any]) -> Any:
    """Return the data of a generated image; None for any other item."""
    return item.get("result") if item.get("type") == IMAGE_ITEM else None


def read_image_refusal(item: Mapping[str, Any]) -> str:
    """Return why moderation blocked a generated image; "" for any other item.

    https://developers.openai.com/api/reference/resources/responses
    """
    return read_str(read_dict(item.get("error")).get("message")) if item.get("type") == IMAGE_ITEM else ""


def remove_images(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return items without generated images, which the next user message contains.

    The reasoning before each is left out, too, because OpenAI rejects it without the item that it led to.
    """
    following_types = [item.get("type") for item in items[1:]]
    return [
        item
        for item, following_type in zip_longest(items, following_types)
        if item.get("type") != IMAGE_ITEM and not (item.get("type") == "reasoning" and following_type == IMAGE_ITEM)
    ]


def read_refusal(item: Mapping[str, Any]) -> str:
    """Return the refusals of a message item."""
    return "".join(read_str(part.get("refusal")) for part in _read_parts(item, "content"))


def read_reasoning(item: Mapping[str, Any]) -> str:
    """Return the summary of a reasoning item, or else its text; "" for any other item."""
    if item.get("type") != "reasoning":
        return ""
    texts = [[read_str(part.get("text")) for part in _read_parts(item, name)] for name in ("summary", "content")]
    return next(filter(None, map(join_parts, texts)), "")


def _has_text(item: Mapping[str, Any]) -> bool:
    """Check whether an item has the text that the events before it contained."""
    is_call = item.get("type") == "function_call"
    return bool(item.get("arguments") if is_call else read_text(item) + read_reasoning(item))


def is_same_call_in(call: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> bool:
    """Check whether one of the items is the same call."""
    name = "call_id" if call.get("call_id") else "id"
    return any(item.get("type") == "function_call" and item.get(name) == call.get(name) for item in items)


def restore_reasoning(items: Sequence[dict[str, Any]], streamed: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return items with the reasoning that was streamed before each; OpenAI refuses it before another item."""
    indexes: dict[tuple[str, str], list[int]] = {}
    for index in reversed(range(len(items))):
        indexes.setdefault(_get_type_and_call_id(items[index]), []).append(index)
    restored, used = list[dict[str, Any]](), set[int]()
    for item in streamed:
        if item.get("type") == "reasoning":
            restored.append(item)
        elif same := indexes.get(_get_type_and_call_id(item)):
            index = same.pop()
            restored.append(items[index])
            used.add(index)
    return restored + [item for index, item in enumerate(items) if index not in used]


def _get_type_and_call_id(item: Mapping[str, Any]) -> tuple[str, str]:
    return read_str(item.get("type")), read_str(item.get("call_id"))


def join_parts(texts: Sequence[str]) -> str:
    """Join messages, or the parts of reasoning, to paragraphs."""
    return PART_SEPARATOR.join(filter(None, texts))


def _read_parts(item: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    return (read_dict(part) for part in read_list(item.get(name)))


def list_call_ids(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the call ids of items, as in the tool calls that were parsed from them."""
    calls = (item for item in items if item.get("type") == "function_call")
    return [read_str(call.get("call_id")) or read_str(call.get("id")) for call in calls]


def list_answered_call_ids(items: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the calls that have an output among the items."""
    return {read_str(item.get("call_id")) for item in items if read_str(item.get("type")).endswith("_output")}


def is_open_call(item: Mapping[str, Any], answered_call_ids: set[str]) -> bool:
    """Check whether an item is a call of a tool that ask does not offer, and which the service itself did not answer.

    OpenAI's shell runs in its container or at the client's: https://developers.openai.com/api/docs/guides/tools-shell
    """
    return item.get("type") in CLIENT_CALLS and read_str(item.get("call_id")) not in answered_call_ids


def select_sendable_items(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items that a service can use again; a call without an output would be refused.

    https://github.com/diegosouzapw/OmniRoute/issues/8946
    """
    answered = list_answered_call_ids(items)
    return [item for item in items if is_sendable_item(item) and not is_open_call(item, answered)]


def is_sendable_item(item: Mapping[str, Any]) -> bool:
    """Check whether a service can use an item again, apart from calls that need an output.

    It cannot look up stored items by their ids, so reasoning without its content is lost. In an imported conversation,
    there may be items that no model wrote. Perplexity accepts its items with search results and the like nowhere.
    """
    if read_str(item.get("type")).endswith("_results"):
        return False
    has_other_role = item.get("role") not in (None, "assistant")
    if not item.get("type") or has_other_role:
        return False
    if item.get("type") != "reasoning":
        return True
    return bool(read_str(item.get("encrypted_content")) or any(_read_parts(item, "content")))


def clean_item(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as it can be sent back: without what OpenAI refuses, and with the fields that services require.

    OpenAI refuses null, which it and gateways send for what is missing, and the sources of a search:
    https://github.com/openai/openai-python/issues/3008, https://github.com/pydantic/pydantic-ai/issues/3653,
    https://github.com/microsoft/agent-framework/issues/4576
    Gateways leave out a message's role (LM Studio) or annotations, and the summary of reasoning:
    https://github.com/lidge-jun/opencodex/pull/4673
    Items of requests have no `created_by`:
    https://github.com/openai/openai-python/blob/main/src/openai/types/responses/response_tool_search_call.py
    """
    item = {name: value for name, value in item.items() if name not in ("created_by", "role")}
    match item.get("type"):
        case "message":
            content = list(map(_clean_part, _read_parts(item, "content")))
            return _select_fields(item) | {"role": "assistant", "content": content}
        case "reasoning":
            return _select_fields(item) | {"summary": read_list(item.get("summary"))}
        case "code_interpreter_call":  # must have its fields, even if they are null
            return item
        case "web_search_call" if action := read_dict(item.get("action")):
            return _select_fields(item) | {"action": _select_fields(action, "sources")}
        case "shell_call_output":
            return _select_fields(item) | {
                "output": [_select_fields(part, "created_by") for part in _read_parts(item, "output")]
            }
    return _select_fields(item)


def _clean_part(part: Mapping[str, Any]) -> dict[str, Any]:
    annotations = {"annotations": read_list(part.get("annotations"))} if part.get("type") == "output_text" else {}
    return _select_fields(part, "logprobs") | annotations


def _select_fields(fields: Mapping[str, Any], *excluded_names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and name not in excluded_names}
