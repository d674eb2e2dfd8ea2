"""The tools that Anthropic runs itself, and the citations of its answers.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from ask import ChatRequest, Citation, ServerToolCall
from ask.parsing import decode_arguments, read_dict, read_int, read_list, read_str

Block = Mapping[str, Any]
PartialBlock = tuple[dict[str, Any], dict[str, StringIO]]
"""A block as it started, and what was added to its fields."""

SERVER_TOOLS: dict[str, dict[str, Any]] = {
    "web_search": {"type": "web_search_20260318", "name": "web_search"},
    "web_fetch": {"type": "web_fetch_20260318", "name": "web_fetch", "citations": {"enabled": True}},
    "code_execution": {"type": "code_execution_20260521", "name": "code_execution"},
    "tool_search": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
}
OLD_SERVER_TOOLS = SERVER_TOOLS | {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "web_fetch": {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}},
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
}
"""For models that cannot filter what they find with code."""
FILTERING_VERSION = (4, 6)
RESULT_SUFFIX = "_tool_result"
FETCH_RESULT = "web_fetch_tool_result"
CALL_TYPES = ("server_tool_use", "mcp_tool_use")
KNOWN_TYPES = ("text", "thinking", "redacted_thinking", "tool_use")
"""The types of the blocks that the model itself writes."""
INPUT_FIELD = "partial_json"
PAUSED = "pause_turn"
"""The stop reason of an answer that the next request continues after calls of the server's tools."""
FALLBACK = "fallback"
"""The type of the block between the output of a model that declined and that of the model that took over."""
CODE_TOOLS = ("code_execution", "bash_code_execution", "text_editor_code_execution")


def select_server_tools(version: tuple[int, int]) -> dict[str, dict[str, Any]]:
    """Return the tools for a model of a version; (0, 0) for a model whose version is unknown."""
    return SERVER_TOOLS if version >= FILTERING_VERSION or version == (0, 0) else OLD_SERVER_TOOLS


def format_server_tools(request: ChatRequest) -> list[dict[str, Any]]:
    """Return the server's tools for the body. The API refuses citations together with a schema."""
    tools = [dict(tool) for tool in request.server_tools.values()]
    for tool in tools if request.schema is not None else ():
        tool.pop("citations", None)
    return tools


def is_server_block(block: Block) -> bool:
    """Check whether a block is a call of a server's tool, or its result."""
    return block.get("type") in CALL_TYPES or is_server_result(block)


def is_server_result(block: Block) -> bool:
    """Check whether a block is the result of a server's tool."""
    return read_str(block.get("type")).endswith(RESULT_SUFFIX)


def assemble_block(block: dict[str, Any], buffers: Mapping[str, StringIO]) -> dict[str, Any]:
    """Return a block so far; its input is an object, or the raw text if that is not complete JSON."""
    texts = {name: buffer.getvalue() for name, buffer in buffers.items()}
    input_json = texts.pop(INPUT_FIELD, "")
    block = block | {name: read_str(block.get(name)) + text for name, text in texts.items()}
    if input_json.strip():
        arguments = decode_arguments(input_json)
        block["input"] = input_json if arguments is None else arguments
    return block


def extend_block(block: dict[str, Any], delta: Block) -> None:
    """Add a delta of an unknown type to its block.

    It extends the fields that the block began with; those of a compaction are known. A block of an unknown type with
    other deltas is emptied, because it cannot be sent back incomplete.
    """
    values = {name: value for name, value in delta.items() if name != "type"}
    if values.keys() <= block.keys() or delta.get("type") == "compaction_delta":
        block |= {name: read_str(block.get(name)) + value for name, value in values.items() if isinstance(value, str)}
    elif block.get("type") not in KNOWN_TYPES and not is_server_block(block):
        block.clear()


def select_calls(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks that call ask's tools, without those of a model that declined before another took over.

    https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback#continuing-the-conversation
    """
    start = max((index for index, block in enumerate(blocks) if block.get("type") == FALLBACK), default=0)
    return [block for block in blocks[start:] if block.get("type") == "tool_use"]


class ParagraphSeparator:
    """Finds the texts before which a paragraph begins: the model begins anew after a call of a server's tool.

    Without a call, blocks continue a sentence: each citation has its own, and a model can take over from another one.
    """

    def __init__(self) -> None:
        self._last_text, self._follows_server_tool = "", False

    def add_block(self, block: Block) -> None:
        """Add a block, except for its text."""
        self._follows_server_tool |= is_server_block(block)

    def add_text(self, text: str) -> str:
        """Add a text, empty if it is yet to come, and return the blank line that it needs before it, if any."""
        needs_one = self._follows_server_tool and self._last_text
        has_one = self._last_text.endswith("\n") or text.startswith("\n")
        self._last_text, self._follows_server_tool = text, False
        return "\n\n" if needs_one and not has_one else ""


def separate_texts(blocks: Sequence[Block], *, is_paused: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the separator before the text of each block, and the text, which is "" if the block has another type.

    A paused answer ends with the separator before the text that continues it.
    """
    separator = ParagraphSeparator()
    for block in blocks:
        separator.add_block(block)
        text = read_str(block.get("text")) if block.get("type") == "text" else ""
        yield separator.add_text(text) if text else "", text
    if is_paused:
        yield separator.add_text(""), ""


def join_text(blocks: Sequence[Block], *, is_paused: bool = False) -> str:
    return "".join(separator + text for separator, text in separate_texts(blocks, is_paused=is_paused))


def read_citations(blocks: Sequence[Block]) -> tuple[Citation, ...]:
    """Return the citations of an answer. Each supports the block that has it.

    Citations of a fetched page name only its title, if it has one.
    """
    results = [read_dict(block.get("content")) for block in blocks if block.get("type") == FETCH_RESULT]
    pages = {(read_str(read_dict(page.get("content")).get("title")), read_str(page.get("url"))) for page in results}
    citations, end = [], 0
    for block, (separator, text) in zip(blocks, separate_texts(blocks), strict=True):
        start = end + len(separator)
        end = start + len(text)
        for entry in map(read_dict, read_list(block.get("citations"))):
            title = read_str(entry.get("title")) or read_str(entry.get("document_title"))
            url = read_str(entry.get("url")) or read_str(entry.get("source"))
            urls = [page_url for page_title, page_url in pages if page_title == title and page_url]
            if not url and len(urls) == 1:
                url = urls[0]
            citations.append(Citation(url, title, read_str(entry.get("cited_text")), start, end))
    return tuple(citations)


def clean_block(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block without what the API sends but refuses: null, and the file ids in citations.

    https://github.com/langchain-ai/langchain/pull/34286, https://github.com/langchain-ai/langchain/pull/32592
    """
    block = {name: value for name, value in block.items() if value is not None}
    citations = [read_dict(entry) for entry in read_list(block.get("citations"))]
    cleaned = [{name: value for name, value in entry.items() if name != "file_id"} for entry in citations]
    return block | ({"citations": cleaned} if cleaned else {})


def read_server_calls(blocks: Sequence[Block]) -> tuple[ServerToolCall, ...]:
    """Return the calls of the server's tools that have a result."""
    calls = [block for block in blocks if block.get("type") in CALL_TYPES]
    return tuple(make_server_call(block, calls) for block in blocks if is_server_result(block))


def make_server_call(result: Block, calls: Sequence[Block]) -> ServerToolCall:
    """Return the call of a result. One that was made before the turn was paused is not among the calls."""
    call_id = result.get("tool_use_id")
    call: Block = next((each for each in calls if each.get("id") == call_id), {})
    name = read_str(call.get("name")) or read_str(result.get("type")).removesuffix(RESULT_SUFFIX)
    arguments = call.get("input") or {}
    if name in CODE_TOOLS and "path" not in read_dict(arguments):
        code = read_dict(arguments).get("code") or read_dict(arguments).get("command")
        arguments = {"code": code} if code else {}
    name = "code_execution" if name in CODE_TOOLS else "tool_search" if name.startswith("tool_search") else name
    text, failed = format_result(result.get("content"))
    arguments_json = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ServerToolCall(name, arguments_json, text, failed or result.get("is_error") is True)


def format_result(content: Any) -> tuple[str, bool]:
    """Return the result of a call as text, and whether the call failed."""
    entries = [read_dict(entry) for entry in (content if isinstance(content, list) else [content])]
    lines: list[str] = []
    for entry in entries:
        if code := read_str(entry.get("error_code")):
            return f"Error: {read_str(entry.get('error_message')) or code}", True
        document = read_dict(entry.get("content"))
        references = map(read_dict, read_list(entry.get("tool_references")))
        texts = [
            entry.get("title") or document.get("title"),
            entry.get("url"),
            entry.get("text"),
            entry.get("stdout"),
            entry.get("stderr"),
        ]
        lines += [read_str(text).rstrip("\n") for text in (*texts, *(each.get("tool_name") for each in references))]
    status = next((read_int(entry.get("return_code")) for entry in entries), None)
    return "".join(f"{line}\n" for line in lines if line), bool(status)


def remove_unpaired_blocks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove calls of the server's tools without a result, and results without a call, which the API refuses.

    A call has no result if the turn was paused and never continued. In the last turn, the API itself continues it:
    https://github.com/anthropics/anthropic-sdk-python/issues/1339
    """
    blocks = [block for message in messages for block in message["content"] if is_server_block(block)]
    called = {read_str(block.get("id")) for block in blocks if block["type"] in CALL_TYPES} - {""}
    answered = {read_str(block.get("tool_use_id")) for block in blocks if is_server_result(block)} - {""}
    answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    rest = messages[answers[-1] + 1 :] if answers else []
    is_open = all(block["type"] == "tool_result" for message in rest for block in message["content"])
    kept_messages = []
    for index, message in enumerate(messages):
        waits = is_open and answers and index == answers[-1]
        content = [
            block
            for block in message["content"]
            if not is_server_block(block)
            or (
                waits or read_str(block.get("id")) in answered
                if block["type"] in CALL_TYPES
                else read_str(block.get("tool_use_id")) in called
            )
        ]
        if content:
            kept_messages.append(message | {"content": content})
    return kept_messages
