"""The citations, and the calls of the service's own tools, in answers of OpenAI's two APIs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ask.messages import Citation, ServerToolCall
from ask.parsing import parse_json, read_dict, read_int, read_list, read_str, to_object_list
from ask.plugin_api.response_items import PART_SEPARATOR, is_open_call, list_answered_call_ids, read_text
from ask.plugin_api.types import EXECUTED_TOOLS, SERVER_CALL_DETAIL

CALL_NAMES = {
    "web_search_call": "web_search",
    "x_search_call": "x_search",
    "code_interpreter_call": "code_execution",
    "code_execution_call": "code_execution",
    "file_search_call": "file_search",
    "tool_search_output": "tool_search",
    "shell_call_output": "code_execution",
    "mcp_call": "mcp",
    "openrouter:bash": "code_execution",
}
"""Types of the items that a service's own tools add to a response, with the names of the tools.

https://developers.openai.com/api/docs/guides/tools and https://docs.x.ai/developers/tools/overview
"""
OPENROUTER_PREFIX = "openrouter:"
X_SEARCH_PREFIX, X_CALL_ID_PREFIX = "x_", "xs_call_"
"""xAI's search on X is reported as a `custom_tool_call` of x_keyword_search and the like, or view_x_video."""
EXECUTED_TOOL_NAMES = {"search": "web_search", "visit": "web_fetch", "python": "code_execution"}
"""The types of Groq's own tools. https://console.groq.com/docs/compound/built-in-tools"""
APPROVAL_ITEM = "mcp_approval_request"
CALLS_OF_OUTPUTS = {"tool_search_output": "tool_search_call", "shell_call_output": "shell_call"}
"""Types of the items with only the result of a call, with those of the items that have its arguments."""
FAILED_STATUSES = ("failed", "incomplete")


def _read_annotations(entries: Any, offset: int = 0) -> list[Citation]:
    """Parse the annotations of a text that begins at `offset`, which the services spell in two ways."""
    citations = []
    for entry in map(read_dict, read_list(entries)):
        fields = read_dict(entry.get("url_citation")) or entry
        url, file_name = read_str(fields.get("url")), read_str(fields.get("filename"))
        if not (url or file_name):
            continue
        start, end = read_int(fields.get("start_index")), read_int(fields.get("end_index"))
        is_placed = start is not None and end is not None and 0 <= start < end
        citations.append(
            Citation(
                url,
                read_str(fields.get("title")) or file_name,
                read_str(fields.get("content")),
                offset + start if is_placed and start is not None else None,
                offset + end if is_placed and end is not None else None,
            )
        )
    return citations


def _read_listed_sources(response: Mapping[str, Any]) -> list[Citation]:
    """Parse a list of sources to which the text refers by number.

    https://docs.perplexity.ai/api-reference/sonar-post and https://docs.x.ai/developers/tools/citations
    """
    results = map(read_dict, read_list(response.get("search_results")))
    citations = [
        Citation(
            read_str(result.get("url")),
            read_str(result.get("title")),
            read_str(result.get("snippet")) or read_str(result.get("content")),
        )
        for result in results
    ]
    listed = [Citation(url) for url in read_list(response.get("citations")) if isinstance(url, str)]
    urls = [citation.url for citation in citations]
    # The text counts in the order of the older list.
    is_same_order = urls[: len(listed)] == [citation.url for citation in listed]
    known = dict(zip(urls, citations, strict=True))
    return citations if is_same_order else [known.get(citation.url, citation) for citation in listed]


# Responses API


def read_item_citations(items: Iterable[Mapping[str, Any]], response: Mapping[str, Any]) -> tuple[Citation, ...]:
    """Return the citations of a response's items, or else the sources that it lists."""
    citations: list[Citation] = []
    listed = _read_listed_sources(response)
    offset = 0
    for item in items:
        if item.get("type") == "search_results":  # Perplexity's Agent API
            listed += _read_listed_sources({"search_results": item.get("results")})
        if offset and read_text(item):
            offset += len(PART_SEPARATOR)
        for part in map(read_dict, read_list(item.get("content"))) if item.get("type") == "message" else ():
            citations += _read_annotations(part.get("annotations"), offset)
            offset += len(read_str(part.get("text")) + read_str(part.get("refusal")))
    return tuple(citations or listed)


def read_item_calls(items: Sequence[Mapping[str, Any]]) -> tuple[ServerToolCall, ...]:
    """Return the calls of the service's own tools among a response's items."""
    return tuple(call for item in items if (call := make_item_call(item, items)))


def make_item_call(item: Mapping[str, Any], items: Iterable[Mapping[str, Any]]) -> ServerToolCall | None:
    """Return the call of the service's own tool that an item describes; None for any other item."""
    item_type, item_name = read_str(item.get("type")), read_str(item.get("name"))
    name = CALL_NAMES.get(item_type, "")
    is_x_call = item_name.startswith(X_SEARCH_PREFIX) or read_str(item.get("call_id")).startswith(X_CALL_ID_PREFIX)
    if item_type == "custom_tool_call" and is_x_call:
        name = "x_search"
    elif item_type == "mcp_call":
        name = item_name or name
    elif not name and item_type.startswith(OPENROUTER_PREFIX):
        name = item_type.removeprefix(OPENROUTER_PREFIX)
    if not name:
        return None
    action = read_dict(item.get("action"))
    if action.get("type") in ("open_page", "find_in_page"):
        name = "web_fetch"
    arguments = _read_item_arguments(item, action)
    if item_type in CALLS_OF_OUTPUTS and item.get("call_id"):
        arguments = next(
            (
                _read_item_arguments(other, read_dict(other.get("action")))
                for other in items
                if other.get("type") == CALLS_OF_OUTPUTS[item_type] and other.get("call_id") == item["call_id"]
            ),
            {},
        )
    error = read_dict(item.get("error"))
    result = _format_item_result(item, action) or read_str(error.get("message")) or read_str(item.get("error"))
    outcomes = [read_dict(read_dict(entry).get("outcome")) for entry in read_list(item.get("output"))]
    failed = item.get("status") in FAILED_STATUSES or bool(item.get("error"))
    failed |= any(outcome.get("type") == "timeout" or read_int(outcome.get("exit_code")) for outcome in outcomes)
    return ServerToolCall(name, json.dumps(arguments, ensure_ascii=False), result, failed)


def describe_open_call(items: Sequence[Mapping[str, Any]]) -> str:
    """Return a `finish_message` for an answer that waits for what ask cannot send; "" for any other."""
    answered = list_answered_call_ids(items)
    for item in items:
        item_type = item.get("type")
        name = read_str(item.get("name")) or item_type
        if item_type == APPROVAL_ITEM:
            return f'the service waits for the approval of {name}; with require_approval "never", it does not ask'
        if is_open_call(item, answered) and make_item_call(item, items) is None:
            return f"the model called {name}, which ask cannot run"
    return ""


def _read_item_arguments(item: Mapping[str, Any], action: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, which each type of item has in other fields."""
    if commands := list(map(read_str, read_list(action.get("commands")))):
        return {"code": "\n".join(commands)}
    if action:
        queries = ", ".join(filter(None, map(read_str, read_list(action.get("queries")))))
        values = {"query": read_str(action.get("query")) or queries, "url": action.get("url")}
        values["pattern"] = action.get("pattern")
        return {name: value for name, value in values.items() if isinstance(value, str) and value}
    if code := read_str(item.get("code")) or read_str(item.get("command")):
        return {"code": code}
    arguments = item.get("arguments") or item.get("input")
    return read_dict(parse_json(arguments) if isinstance(arguments, str) else arguments)


def _format_item_result(item: Mapping[str, Any], action: Mapping[str, Any]) -> str:
    """Return what a call found or printed, as text."""
    lines = [read_str(read_dict(source).get("url")) for source in read_list(action.get("sources"))]
    outputs = map(read_dict, read_list(item.get("outputs")))
    lines += [read_str(each.get("logs")).rstrip("\n") or ("[image]" if "url" in each else "") for each in outputs]
    printed = map(read_dict, read_list(item.get("output")))
    lines += [read_str(each.get(name)).rstrip("\n") for each in printed for name in ("stdout", "stderr")]
    lines += [read_str(read_dict(tool).get("name")) for tool in read_list(item.get("tools"))]
    lines += [read_str(read_dict(result).get("filename")) for result in read_list(item.get("results"))]
    lines += [read_str(item.get(name)).rstrip("\n") for name in ("output", "stdout", "stderr", "content")]
    return "".join(f"{line}\n" for line in lines if line)


# Chat Completions


def read_message_citations(message: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[Citation, ...]:
    """Return the citations of a message, or else the sources that the response lists, or that Groq's tools found."""
    citations = _read_annotations(message.get("annotations")) or _read_listed_sources(response)
    if not citations:
        tools = map(read_dict, read_list(message.get(EXECUTED_TOOLS)))
        results = [
            result for tool in tools for result in read_list(read_dict(tool.get("search_results")).get("results"))
        ]
        citations = _read_listed_sources({"search_results": results})
    return tuple(citations)


def read_message_calls(message: Mapping[str, Any]) -> tuple[ServerToolCall, ...]:
    """Return the calls of OpenRouter's own tools, which are among the details of the reasoning, and of Groq's."""
    details = map(read_dict, to_object_list(message.get("reasoning_details")))
    calls = [detail for detail in details if detail.get("type") == SERVER_CALL_DETAIL]
    executed = filter(None, map(read_dict, read_list(message.get(EXECUTED_TOOLS))))
    return tuple(map(make_message_call, [*calls, *executed]))


def make_message_call(call: Mapping[str, Any]) -> ServerToolCall:
    """Return a call of OpenRouter's or Groq's own tool."""
    call_type, arguments = read_str(call.get("type")), read_str(call.get("arguments")) or "{}"
    if call_type != SERVER_CALL_DETAIL:
        name = EXECUTED_TOOL_NAMES.get(call_type, call_type)
        return ServerToolCall(name, arguments, read_str(call.get("output")))
    name = read_str(call.get("tool_name")).removeprefix(OPENROUTER_PREFIX)
    if name == "bash":
        command = read_str(read_dict(parse_json(arguments)).get("command"))
        name, arguments = "code_execution", json.dumps({"code": command}) if command else arguments
    return ServerToolCall(name, arguments, read_str(call.get("result")))
