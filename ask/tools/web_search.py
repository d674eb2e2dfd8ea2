"""The tool `search_web`, with the APIs of Brave and Tavily, and DuckDuckGo. It is created for one search engine.

https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
https://docs.tavily.com/documentation/api-reference/endpoint/search
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ask.config.key_store import format_variable_prefix
from ask.config.redaction import Redactor
from ask.parsing import read_dict, read_list, read_str
from ask.records import NamedTuple
from ask.tools.base import RunToolContext, ToolError, ToolResult
from ask.tools.definitions import DEFAULT_RESULT_COUNT, MAX_RESULT_COUNT
from ask.tools.search_engine import DUCKDUCKGO, SearchEngine

if TYPE_CHECKING:
    from ask.tools.http_get import FetchResponse

_MAX_TITLE_CHARACTERS, _MAX_SNIPPET_CHARACTERS = 200, 1_000
"""Maximum number of characters shown of a title and of a snippet."""
_RATE_LIMIT_PAUSE_SECONDS = 1.1
"""Seconds before the only retry after a rate limit: Brave's free plan allows one request a second."""
_INVALID_KEY_STATUSES, _QUOTA_STATUSES, _RATE_LIMIT_STATUS = (401, 403), (402, 432, 433), 429
"""Tavily sends 432 and 433 when the limit of a plan, or of spending beyond it, is reached."""
_TRY_LATER_HINT = "try again later, or continue without searching"
_MAX_ERROR_CHARACTERS = 200
"""Maximum number of characters shown of an engine's error message."""


class WebSearchResult(NamedTuple):
    """One search result, with the texts as the engine sent them."""

    title: str
    url: str
    snippet: str


def search_web(engine: SearchEngine, arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    """Search the web and return numbered results.

    Raises:
        ToolError: there are no results, or the engine failed.
    """
    query = arguments["query"].strip()
    count = min(max(arguments.get("max_results", DEFAULT_RESULT_COUNT), 1), MAX_RESULT_COUNT)
    if not query:
        raise ToolError("the query is empty")
    if engine.name == DUCKDUCKGO:
        from ask.tools.duckduckgo import search_duckduckgo

        all_results = [WebSearchResult(*result) for result in search_duckduckgo(query, count, context)]
    else:
        all_results = _search_api(engine, query, count, context.command_timeout)
    results = [result for result in all_results if result.url.startswith(("http://", "https://"))][:count]
    if not results:
        raise ToolError(f"{engine.name} found nothing: try fewer or other words")
    text = "\n\n".join(f"{number}. {_format_result(result)}" for number, result in enumerate(results, 1))
    return ToolResult(f"Results from {engine.name}:\n\n{text}")


def _format_result(result: WebSearchResult) -> str:
    """Format a result in two or three lines; its texts cannot add lines."""
    lines = [
        _clean_text(result.title, _MAX_TITLE_CHARACTERS) or "(no title)",
        "".join(result.url.split()),
        _clean_text(result.snippet, _MAX_SNIPPET_CHARACTERS),
    ]
    return "\n   ".join(filter(None, lines))


def _clean_text(text: str, max_length: int) -> str:
    """Return a text on one line, without markup, and truncated to `max_length` characters."""
    import html

    text = re.sub(r"</?\w[^<>]{0,99}>", "", text)
    # No character has such a code, and Python refuses to parse integers with thousands of digits.
    text = re.sub(r"&#0*[1-9][0-9]{7,};?", "\ufffd", text)
    plain = " ".join(html.unescape(text).split())
    return plain if len(plain) <= max_length else plain[: max_length - 1].rstrip() + "…"


def _search_api(engine: SearchEngine, query: str, max_results: int, timeout: float) -> list[WebSearchResult]:
    """Search with Brave or Tavily. If a key is refused or its quota used up, the next key is tried.

    Raises:
        ToolError: the engine cannot be reached, or returns an error.
    """
    deadline = time.monotonic() + timeout
    keys = [key.strip() for key in engine.key.split("|") if key.strip()]
    paused = False
    while True:
        response = _send_search(engine, keys[0], query, max_results, deadline)
        status, _, reason = response.status_line.partition(" ")
        if status == "200":
            return _parse_results(engine, response)
        code, message = _parse_error(response.body)
        problem, hint, can_other_key_help = _explain_error(engine.name, int(status), code)
        is_rate_limit = int(status) == _RATE_LIMIT_STATUS
        if can_other_key_help and len(keys) > 1:
            del keys[0]
        elif is_rate_limit and not paused and time.monotonic() + _RATE_LIMIT_PAUSE_SECONDS < deadline:
            paused = True
            time.sleep(_RATE_LIMIT_PAUSE_SECONDS)
        else:
            text = f"{engine.name} {problem} ({status}: {message or reason}): {hint}"
            raise ToolError(Redactor(keys).redact(text))


def _send_search(engine: SearchEngine, key: str, query: str, max_results: int, deadline: float) -> FetchResponse:
    from urllib.parse import urlencode

    from ask.tools.http_get import Fetcher

    if not (key.isascii() and key.isprintable()):
        raise ToolError(f"the key for {engine.name} contains an invalid character: {_format_key_hint(engine.name)}")
    url, data = engine.base_url.rstrip("/"), None
    headers = {"Accept": "application/json"}
    if engine.name == "brave":
        parameters = {"q": query, "count": max_results, "text_decorations": "false", "result_filter": "web"}
        url = f"{url}/web/search?{urlencode(parameters)}"
        headers["X-Subscription-Token"] = key
    else:
        url = f"{url}/search"
        headers |= {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        data = json.dumps({"query": query, "max_results": max_results}).encode()
    time_left = max(deadline - time.monotonic(), 0.1)
    try:
        # No redirects: the key would be sent to the new host.
        return Fetcher(time_left, None, headers=headers, data=data, max_redirects=0).fetch(url)
    except ToolError as error:
        raise ToolError(f"cannot reach {engine.name}: {error}") from None


def _parse_results(engine: SearchEngine, response: FetchResponse) -> list[WebSearchResult]:
    body = _parse_body(response.body)
    results = read_dict(body.get("web")).get("results") if engine.name == "brave" else body.get("results")
    text_field = "description" if engine.name == "brave" else "content"
    is_empty = results is None and "query" in body  # Brave omits the section if there are no results
    if response.truncation_reason or not (is_empty or isinstance(results, list)):
        raise ToolError(f"the response of {engine.name} is invalid: {_format_base_url_hint(engine.name)}")
    return [
        WebSearchResult(read_str(entry.get("title")), read_str(entry.get("url")), read_str(entry.get(text_field)))
        for entry in map(read_dict, read_list(results))
    ]


def _parse_error(response_body: bytes) -> tuple[str, str]:
    """Return the code of an error response and its message, each "" if there is none."""
    body = _parse_body(response_body)
    error = body.get("error") or body.get("errors") or body.get("detail") or body
    if isinstance(error, list):
        error = error[0]
    fields = read_dict(error)
    code = read_str(fields.get("code"))
    message = next((read_str(fields[name]) for name in ("detail", "error", "message", "msg") if fields.get(name)), "")
    return code, " ".join(f"{code} {message or read_str(error)}".split())[:_MAX_ERROR_CHARACTERS]


def _parse_body(body: bytes) -> dict[str, Any]:
    try:
        return read_dict(json.loads(body))
    except (ValueError, RecursionError):
        return {}


def _explain_error(engine_name: str, status: int, code: str) -> tuple[str, str, bool]:
    """Return what went wrong, what the model or the user can do, and whether another key can help."""
    if status in _INVALID_KEY_STATUSES or code.startswith("SUBSCRIPTION_TOKEN"):  # Brave's 422
        return "rejected the key", _format_key_hint(engine_name), True
    if status in _QUOTA_STATUSES:
        return "reports that the key's plan is used up", _format_key_hint(engine_name), True
    if status in (400, 422):
        return "cannot search for that", "use a shorter query", False
    if status == _RATE_LIMIT_STATUS:
        return "currently refuses more requests", _TRY_LATER_HINT, True
    if status >= 500:
        return "failed", _TRY_LATER_HINT, False
    return "did not search", _format_base_url_hint(engine_name), False


def _format_key_hint(engine_name: str) -> str:
    return f"the user can set another with `ask keys set {engine_name}`"


def _format_base_url_hint(engine_name: str) -> str:
    return f"{format_variable_prefix(engine_name)}_BASE_URL may be wrong"
