"""Search with the APIs of Brave and Tavily.

https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
https://docs.tavily.com/documentation/api-reference/endpoint/search
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ask.api_keys import format_variable_prefix
from ask.parsing import as_dict, as_list, as_text
from ask.redaction import Redactor
from ask.tools.base import ToolError
from ask.tools.http_get import FetchResponse, fetch_response
from ask.tools.search_engine import SearchEngine, WebSearchResult

RATE_LIMIT_PAUSE = 1.1
"""Seconds before the only retry after a rate limit: Brave's free plan allows one request a second."""
INVALID_KEY_STATUSES, QUOTA_STATUSES, RATE_LIMIT_STATUSES = (401, 403), (402, 432, 433), (429,)
_MAX_ERROR_LENGTH = 200
"""Maximum number of characters shown of an engine's error message."""


class _SearchRequest(NamedTuple):
    """A search request; it is a POST request if it has a `body`."""

    url: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None = None


def run_search(engine: SearchEngine, query: str, max_results: int, timeout: float) -> list[WebSearchResult]:
    """Search with an engine. If a key is refused or its quota used up, the next key is tried.

    Raises:
        ToolError: The engine cannot be reached, or returns an error.
    """
    deadline = time.monotonic() + timeout
    keys = [key.strip() for key in engine.key.split("|") if key.strip()]
    paused = False
    while True:
        response = _send_search(engine, keys[0], query, max_results, deadline)
        if response.status_line.startswith("200"):
            return _parse_results(engine, response)
        error = _parse_error(response)
        if len(keys) > 1 and (error.is_key_refused or error.status in (*QUOTA_STATUSES, *RATE_LIMIT_STATUSES)):
            del keys[0]
        elif error.status in RATE_LIMIT_STATUSES and not paused and time.monotonic() + RATE_LIMIT_PAUSE < deadline:
            paused = True
            time.sleep(RATE_LIMIT_PAUSE)
        else:
            raise ToolError(Redactor(keys).redact(_format_error(engine.name, error)))


def _send_search(engine: SearchEngine, key: str, query: str, max_results: int, deadline: float) -> FetchResponse:
    if not (key.isascii() and key.isprintable()):
        raise ToolError(f"the key for {engine.name} holds a character that no key has: {_format_key_hint(engine.name)}")
    base_url = engine.base_url.rstrip("/")
    if engine.name == "brave":
        parameters = {"q": query, "count": max_results, "text_decorations": "false", "result_filter": "web"}
        request = _SearchRequest(f"{base_url}/web/search?{urlencode(parameters)}", {"X-Subscription-Token": key})
    else:
        body = {"query": query, "max_results": max_results}
        request = _SearchRequest(f"{base_url}/search", {"Authorization": f"Bearer {key}"}, body)
    headers = {**request.headers, "Accept": "application/json"}
    data = None
    if request.body is not None:
        headers["Content-Type"] = "application/json"
        data = json.dumps(request.body).encode()
    try:
        # No redirects: the key would be sent to the new host.
        return fetch_response(
            request.url, max(deadline - time.monotonic(), 0.1), None, headers=headers, data=data, max_redirects=0
        )
    except ToolError as error:
        raise ToolError(f"{engine.name} could not be asked: {error}") from None


def _parse_results(engine: SearchEngine, response: FetchResponse) -> list[WebSearchResult]:
    body = _parse_body(response)
    results = as_dict(body.get("web")).get("results") if engine.name == "brave" else body.get("results")
    text_field = "description" if engine.name == "brave" else "content"
    is_empty = results is None and "query" in body  # Brave omits the section if there are no results
    if response.truncation_reason or not (is_empty or isinstance(results, list)):
        raise ToolError(f"what {engine.name} answered cannot be read: {_format_base_url_hint(engine.name)}")
    return [
        WebSearchResult(as_text(entry.get("title")), as_text(entry.get("url")), as_text(entry.get(text_field)))
        for entry in map(as_dict, as_list(results))
    ]


class _ErrorDetails(NamedTuple):
    """An error response; `is_key_refused` means that the engine did not accept the API key."""

    status: int
    message: str
    is_key_refused: bool


def _parse_error(response: FetchResponse) -> _ErrorDetails:
    status = int(response.status_line.partition(" ")[0])
    body = _parse_body(response)
    error = body.get("error") or body.get("errors") or body.get("detail") or body
    if isinstance(error, list):
        error = error[0] if error else ""
    fields = as_dict(error)
    code = as_text(fields.get("code"))
    message = next((as_text(fields[name]) for name in ("detail", "error", "message", "msg") if fields.get(name)), "")
    text = " ".join(f"{code} {message or as_text(error)}".split())
    is_key_refused = status in INVALID_KEY_STATUSES or code.startswith("SUBSCRIPTION_TOKEN")  # Brave's 422
    return _ErrorDetails(status, text[:_MAX_ERROR_LENGTH] or response.status_line.partition(" ")[2], is_key_refused)


def _parse_body(response: FetchResponse) -> dict[str, Any]:
    try:
        return as_dict(json.loads(response.body))
    except (ValueError, RecursionError):
        return {}


def _format_error(engine_name: str, error: _ErrorDetails) -> str:
    """Describe the error, and what the model or the user can do."""
    status, message, is_key_refused = error
    if is_key_refused:
        return f"{engine_name} refused the key ({status}: {message}): {_format_key_hint(engine_name)}"
    if status in QUOTA_STATUSES:
        return (
            f"the plan of the key for {engine_name} is used up ({status}: {message}): {_format_key_hint(engine_name)}"
        )
    if status in RATE_LIMIT_STATUSES:
        return f"{engine_name} takes no more requests for now ({status}: {message}): search again later, or do without"
    if status in (400, 422):
        return f"{engine_name} cannot search for that ({status}: {message}): ask for less, in fewer words"
    if status >= 500:
        return f"{engine_name} failed ({status}: {message}): search again later, or do without"
    return f"{engine_name} answered {status} ({message}): {_format_base_url_hint(engine_name)}"


def _format_key_hint(engine_name: str) -> str:
    return f"the user can set another with `ask keys set {engine_name}`"


def _format_base_url_hint(engine_name: str) -> str:
    return f"the user may have set {format_variable_prefix(engine_name)}_BASE_URL to something else"
