"""Search engines with an interface for programs: Brave and Tavily. What is asked, what is found, what goes wrong.

https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
https://docs.tavily.com/documentation/api-reference/endpoint/search
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ask.api_keys import stem
from ask.parsing import as_dict, as_list, as_text
from ask.redaction import Redactor
from ask.tools.base import ToolError
from ask.tools.http_get import Page, get
from ask.tools.search_engine import Engine, Found

PAUSE = 1.1
"""Seconds before the one further try of an engine that is asked too often: Brave's free plan allows one a second."""
REFUSED, USED_UP, TOO_OFTEN = (401, 403), (402, 432, 433), (429,)
_SAID = 200
"""Characters that are told of what an engine says of an error."""


class _Request(NamedTuple):
    """A request: where to, and what with. Where `body` is there, it is posted."""

    url: str
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None = None


def search(engine: Engine, words: str, count: int, seconds: float) -> list[Found]:
    """What the engine finds. Keys are tried in turn where one is refused or used up.

    Args:
        engine: whom to ask.
        words: what to look for.
        count: how many results to ask for.
        seconds: how long it may take.

    Raises:
        ToolError: it cannot be asked, or answers with an error.
    """
    deadline = time.monotonic() + seconds
    keys = [key.strip() for key in engine.key.split("|") if key.strip()]
    paused = False
    while True:
        page = _ask(engine, keys[0], words, count, deadline)
        if page.status.startswith("200"):
            return _read(engine, page)
        error = _error(page)
        if len(keys) > 1 and (error.refused or error.status in (*USED_UP, *TOO_OFTEN)):
            del keys[0]
        elif error.status in TOO_OFTEN and not paused and time.monotonic() + PAUSE < deadline:
            paused = True
            time.sleep(PAUSE)
        else:
            raise ToolError(Redactor(keys).redact(_explain(engine.name, error)))


def _ask(engine: Engine, key: str, words: str, count: int, deadline: float) -> Page:
    if not (key.isascii() and key.isprintable()):
        raise ToolError(f"the key for {engine.name} holds a character that no key has: {_set_key(engine.name)}")
    base_url = engine.base_url.rstrip("/")
    if engine.name == "brave":
        asked = {"q": words, "count": count, "text_decorations": "false", "result_filter": "web"}
        request = _Request(f"{base_url}/web/search?{urlencode(asked)}", {"X-Subscription-Token": key})
    else:
        wish = {"query": words, "max_results": count}
        request = _Request(f"{base_url}/search", {"Authorization": f"Bearer {key}"}, wish)
    headers = {**request.headers, "Accept": "application/json"}
    data = None
    if request.body is not None:
        headers["Content-Type"] = "application/json"
        data = json.dumps(request.body).encode()
    try:
        # Without redirects: the key would travel along.
        return get(request.url, max(deadline - time.monotonic(), 0.1), None, headers=headers, data=data, redirects=0)
    except ToolError as error:
        raise ToolError(f"{engine.name} could not be asked: {error}") from None


def _read(engine: Engine, page: Page) -> list[Found]:
    body = _parsed(page)
    results = as_dict(body.get("web")).get("results") if engine.name == "brave" else body.get("results")
    text = "description" if engine.name == "brave" else "content"
    nothing = results is None and "query" in body  # how Brave says it, which leaves the section out
    if page.note or not (nothing or isinstance(results, list)):
        raise ToolError(f"what {engine.name} answered cannot be read: {_elsewhere(engine.name)}")
    return [
        Found(as_text(entry.get("title")), as_text(entry.get("url")), as_text(entry.get(text)))
        for entry in map(as_dict, as_list(results))
    ]


class _Error(NamedTuple):
    """What an engine says in place of results; `refused` tells of a key that it does not take."""

    status: int
    said: str
    refused: bool


def _error(page: Page) -> _Error:
    status = int(page.status.partition(" ")[0])
    body = _parsed(page)
    problem = body.get("error") or body.get("errors") or body.get("detail") or body
    if isinstance(problem, list):
        problem = problem[0] if problem else ""
    told = as_dict(problem)
    code = as_text(told.get("code"))
    words = next((as_text(told[name]) for name in ("detail", "error", "message", "msg") if told.get(name)), "")
    said = " ".join(f"{code} {words or as_text(problem)}".split())
    refused = status in REFUSED or code.startswith("SUBSCRIPTION_TOKEN")  # Brave's 422
    return _Error(status, said[:_SAID] or page.status.partition(" ")[2], refused)


def _parsed(page: Page) -> dict[str, Any]:
    try:
        return as_dict(json.loads(page.body))
    except (ValueError, RecursionError):
        return {}


def _explain(name: str, error: _Error) -> str:
    """What happened, and what to do."""
    status, said, refused = error
    if refused:
        return f"{name} refused the key ({status}: {said}): {_set_key(name)}"
    if status in USED_UP:
        return f"the plan of the key for {name} is used up ({status}: {said}): {_set_key(name)}"
    if status in TOO_OFTEN:
        return f"{name} takes no more requests for now ({status}: {said}): search again later, or do without"
    if status in (400, 422):
        return f"{name} cannot search for that ({status}: {said}): ask for less, in fewer words"
    if status >= 500:
        return f"{name} failed ({status}: {said}): search again later, or do without"
    return f"{name} answered {status} ({said}): {_elsewhere(name)}"


def _set_key(name: str) -> str:
    return f"the user can set another with `ask keys set {name}`"


def _elsewhere(name: str) -> str:
    return f"the user may have set {stem(name)}_BASE_URL to something else"
