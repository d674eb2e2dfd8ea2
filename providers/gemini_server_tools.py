"""The tools that Google runs itself, and the sources of Gemini's answers ("grounding").

https://ai.google.dev/gemini-api/docs/google-search
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ask import Citation, ServerToolCall
from ask.parsing import read_dict, read_int, read_list, read_str

Part = Mapping[str, Any]

SERVER_TOOLS: dict[str, dict[str, Any]] = {
    "web_search": {"googleSearch": {}},
    "web_fetch": {"urlContext": {}},
    "code_execution": {"codeExecution": {}},
}
SERVER_PARTS = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""Parts of calls that the service ran, which it wants back: https://ai.google.dev/gemini-api/docs/tool-combination"""
TOOL_NAMES = {
    "GOOGLE_SEARCH_WEB": "web_search",
    "GOOGLE_SEARCH_IMAGE": "image_search",
    "URL_CONTEXT": "web_fetch",
}
"""The names of the tools by the type in a `toolCall`."""
SUCCESSES = ("OUTCOME_OK", "URL_RETRIEVAL_STATUS_SUCCESS", "")
SOURCE_FIELDS = ("web", "retrievedContext", "maps", "image")
QUOTATION_FIELDS = ("citations", "citationSources")
MAX_SOURCES = 1_000
"""The limit for the sources that are merged from the events of a stream."""


def is_server_part(part: Part) -> bool:
    return any(name in part for name in SERVER_PARTS)


# Calls


def read_part_call(part: Part, earlier_parts: Iterable[Part]) -> ServerToolCall | None:
    """Return the call whose result a part contains; None for any other part."""
    name = next((name for name in ("codeExecutionResult", "toolResponse") if name in part), "")
    if not name:
        return None
    result = read_dict(part[name])
    call_name = "executableCode" if name == "codeExecutionResult" else "toolCall"
    calls = [read_dict(each[call_name]) for each in earlier_parts if call_name in each]
    # Without ids, a result follows its call.
    call = next((each for each in calls if each.get("id") == result.get("id") is not None), calls[-1] if calls else {})
    if name == "codeExecutionResult":
        code = read_str(call.get("code"))
        failed = read_str(result.get("outcome")) not in SUCCESSES
        return ServerToolCall("code_execution", _to_json({"code": code}), read_str(result.get("output")), failed)
    tool_type = read_str(result.get("toolType")) or read_str(call.get("toolType"))
    arguments = {
        {"queries": "query", "urls": "url"}.get(key, key): ", ".join(map(str, value))
        if isinstance(value, list)
        else value
        for key, value in read_dict(call.get("args")).items()
    }
    response = read_dict(result.get("response"))
    text = _to_json(response) if response else ""
    return ServerToolCall(TOOL_NAMES.get(tool_type, tool_type.lower()), _to_json(arguments), text)


def read_server_calls(parts: Sequence[Part], candidate: Mapping[str, Any]) -> tuple[ServerToolCall, ...]:
    """Return the calls that the service ran: those among the parts, and those that only the candidate reports."""
    calls = [call for i, part in enumerate(parts) if (call := read_part_call(part, parts[:i]))]
    return (*calls, *read_reported_calls(candidate, calls))


def read_reported_calls(candidate: Mapping[str, Any], calls: Iterable[ServerToolCall]) -> list[ServerToolCall]:
    """Return the searches and fetched pages that a candidate reports, unless they are among the calls of its parts."""
    known = {call.name for call in calls}
    queries = read_list(read_dict(candidate.get("groundingMetadata")).get("webSearchQueries"))
    pages = map(read_dict, read_list(read_dict(candidate.get("urlContextMetadata")).get("urlMetadata")))
    searches = [ServerToolCall("web_search", _to_json({"query": read_str(query)})) for query in queries]
    fetches = [
        ServerToolCall(
            "web_fetch",
            _to_json({"url": read_str(page.get("retrievedUrl"))}),
            "" if (status := read_str(page.get("urlRetrievalStatus"))) in SUCCESSES else f"Error: {status}",
            status not in SUCCESSES,
        )
        for page in pages
    ]
    return [call for call in (*searches, *fetches) if call.name not in known]


def _to_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


# Sources


def merge_grounding(earlier: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the grounding of two events of a stream, of which the second continues the first or repeats it."""
    chunks, new_chunks = (read_list(each.get("groundingChunks")) for each in (earlier, update))
    supports, new_supports = (read_list(each.get("groundingSupports")) for each in (earlier, update))
    if len(chunks) >= MAX_SOURCES:
        return dict(earlier)
    if new_chunks[: len(chunks)] == chunks:
        chunks = []
    elif new_chunks:
        new_supports = [_shift_support(read_dict(support), len(chunks)) for support in new_supports]
    if new_supports[: len(supports)] == supports:
        supports = []
    queries = [*read_list(earlier.get("webSearchQueries")), *read_list(update.get("webSearchQueries"))]
    return {
        **earlier,
        **update,
        "groundingChunks": [*chunks, *new_chunks],
        "groundingSupports": [*supports, *new_supports],
        "webSearchQueries": list(dict.fromkeys(filter(None, map(read_str, queries)))),
    }


def join_metadata(earlier: Mapping[str, Any], later: Mapping[str, Any], part_count: int) -> dict[str, Any]:
    """Join what two candidates, of which the second continues `part_count` parts of the first, say about sources."""
    joined: dict[str, Any] = {}
    first, second = (read_dict(each.get("groundingMetadata")) for each in (earlier, later))
    if first and second:
        supports = [
            _shift_part(read_dict(support), part_count) for support in read_list(second.get("groundingSupports"))
        ]
        joined["groundingMetadata"] = merge_grounding(first, {**second, "groundingSupports": supports})
    for field, names in (("urlContextMetadata", ("urlMetadata",)), ("citationMetadata", QUOTATION_FIELDS)):
        first, second = (read_dict(each.get(field)) for each in (earlier, later))
        lists = {name: [*read_list(first.get(name)), *read_list(second.get(name))] for name in names}
        if first and second:
            joined[field] = {**first, **second, **{name: entries for name, entries in lists.items() if entries}}
    return joined


def _shift_part(support: Mapping[str, Any], offset: int) -> dict[str, Any]:
    segment = read_dict(support.get("segment"))
    return {**support, "segment": {**segment, "partIndex": (read_int(segment.get("partIndex")) or 0) + offset}}


def _shift_support(support: Mapping[str, Any], offset: int) -> dict[str, Any]:
    indices = [
        index for each in read_list(support.get("groundingChunkIndices")) if (index := read_int(each)) is not None
    ]
    return {**support, "groundingChunkIndices": [index + offset for index in indices]}


def read_citations(parts: Sequence[Part], candidate: Mapping[str, Any]) -> tuple[Citation, ...]:
    """Return the sources of an answer: for each of its segments those that support it, or else all sources."""
    metadata = read_dict(candidate.get("groundingMetadata"))
    sources = [_read_source(read_dict(chunk)) for chunk in read_list(metadata.get("groundingChunks"))]
    places = TextPlaces(parts)
    citations: list[Citation] = []
    for support in map(read_dict, read_list(metadata.get("groundingSupports"))):
        start, end = places.find(read_dict(support.get("segment")))
        indices = map(read_int, read_list(support.get("groundingChunkIndices")))
        citations += (
            sources[index]._replace(start=start, end=end)
            for index in indices
            if index is not None and 0 <= index < len(sources)
        )
    quotations = read_dict(candidate.get("citationMetadata"))
    quoted = next(filter(None, (read_list(quotations.get(name)) for name in QUOTATION_FIELDS)), [])
    for entry in map(read_dict, quoted):
        start, end = places.find(entry)
        url, title = read_str(entry.get("uri")), read_str(entry.get("title"))
        citations.append(Citation(url, title, start=start, end=end))
    return tuple(citations or sources)


def _read_source(chunk: Mapping[str, Any]) -> Citation:
    fields = next(filter(None, (read_dict(chunk.get(name)) for name in SOURCE_FIELDS)), {})
    url = read_str(fields.get("uri")) or read_str(fields.get("sourceUri"))
    return Citation(url, read_str(fields.get("title")), read_str(fields.get("text")))


class TextPlaces:
    """Finds segments in the text of an answer. Their positions are in bytes of one part's text.

    https://github.com/google-gemini/gemini-cli/issues/29039
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._text = ""
        self._offsets: dict[int, int] = {}
        self._data: dict[int, bytes] = {}
        for index, part in enumerate(parts):
            if not part.get("thought") and isinstance(part.get("text"), str):
                self._offsets[index] = len(self._text)
                self._data[index] = part["text"].encode("utf-8", "replace")
                self._text += part["text"]

    def find(self, segment: Mapping[str, Any]) -> tuple[int | None, int | None]:
        """Return where a segment begins and ends in the text of the answer, in characters."""
        first, last = read_int(segment.get("startIndex")) or 0, read_int(segment.get("endIndex")) or 0
        expected = read_str(segment.get("text"))
        part_index = read_int(segment.get("partIndex")) or 0
        # In a stream, the index counts the parts of one event, which are merged here.
        for index in dict.fromkeys([part_index, *self._data]):
            data = self._data.get(index, b"")
            if not 0 <= first < last <= len(data):
                continue
            text = data[first:last].decode("utf-8", "replace")
            if not expected or text == expected:
                start = self._offsets[index] + len(data[:first].decode("utf-8", "replace"))
                return start, start + len(text)
        start = self._text.find(expected) if expected else -1
        return (start, start + len(expected)) if start >= 0 else (None, None)
