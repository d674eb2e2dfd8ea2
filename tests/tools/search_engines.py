"""Responses of search engines, in the documented formats of Brave and Tavily."""

from __future__ import annotations

import json
from typing import Any

from tests.model_server import ModelServer, Reply

Json = dict[str, Any]
Result = tuple[str, str, str]
"""Title, URL and snippet."""
NUTS: list[Result] = [
    ("Nuts", "https://nuts.test/", "All about nuts."),
    ("Almonds", "https://nuts.test/almonds?a=b&c=d", "They are seeds."),
]


def place(server: ModelServer) -> str:
    """Return the base URL of a fake engine on the server."""
    return server.base_url.removesuffix("/api/v1")


def answer(body: object, status: int = 200) -> Reply:
    return Reply((json.dumps(body).encode(),), status=status)


def by_brave(results: list[Result]) -> Json:
    entries = [
        {"type": "search_result", "title": title, "url": url, "description": text, "language": "en"}
        for title, url, text in results
    ]
    web = {"web": {"type": "search", "results": entries, "family_friendly": True}} if entries else {}
    return {"type": "search", "query": {"original": "nuts", "more_results_available": False}, "mixed": {}} | web


def by_tavily(results: list[Result]) -> Json:
    entries = [
        {"title": title, "url": url, "content": text, "score": 0.9, "raw_content": None} for title, url, text in results
    ]
    return {"query": "nuts", "answer": None, "images": [], "results": entries, "response_time": "1.1"}


FOUND = {"brave": by_brave, "tavily": by_tavily}


def brave_error(status: int, code: str, detail: str) -> Reply:
    error = {"id": "5d832250", "status": status, "code": code, "detail": detail, "meta": {"component": "subscriptions"}}
    return answer({"type": "ErrorResponse", "error": error, "time": 1663072993}, status)


def tavily_error(status: int, words: str) -> Reply:
    return answer({"detail": {"error": words}}, status)
