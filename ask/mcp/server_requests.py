"""Answers to the requests that a server may send while it is used: its roots, and questions to the user."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ask.mcp.server_config import ServerConfig
from ask.parsing import as_dict, as_list
from ask.text import format_one_line

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp_types import ElicitRequestParams, ElicitResult, ListRootsResult

MAX_QUESTIONS = 5
"""Questions of one call that the model gets to see."""
MAX_QUESTION_LENGTH = 500


class ServerRequestHandler:
    """Answers the requests of one server.

    Questions to the user (elicitation) are declined: a run may have no terminal, and accepting what a server proposes
    would agree to something that nobody has read. The model gets the question with the result of the call, so that it
    can put it to the user in its answer.

    Attributes:
        roots: the folders that the server is told to work in; it does not learn of them unless it asks.
        declined_questions: the questions since `pop_declined_questions` was last called.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = roots
        self.declined_questions: list[str] = []

    async def list_roots(self, context: ClientRequestContext) -> ListRootsResult:
        """Answer `roots/list`."""
        from mcp_types import ListRootsResult, Root
        from pydantic import FileUrl

        return ListRootsResult(roots=[Root(uri=FileUrl(path.as_uri()), name=path.name or None) for path in self.roots])

    async def decline_elicitation(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Answer `elicitation/create`."""
        from mcp_types import ElicitResult

        if len(self.declined_questions) < MAX_QUESTIONS:
            self.declined_questions.append(format_question(params.message, getattr(params, "url", "")))
        return ElicitResult(action="decline")

    def pop_declined_questions(self) -> str:
        """Return a line for each question that was declined, and forget them; "" if there was none."""
        lines = [f"[the server asked the user, and got no answer: {question}]" for question in self.declined_questions]
        self.declined_questions.clear()
        return "\n".join(lines)


def find_roots(server: ServerConfig, directory: Path) -> list[Path]:
    """Return the folders that a server may be told to work in: the working directory, if it runs on this machine.

    A server elsewhere cannot read it, and its path contains the name of the user.
    """
    host = urlsplit(server.url).hostname or ""
    return [directory] if not server.url or is_loopback(host) else []


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def format_question(message: str, url: str) -> str:
    """Format what a server asks of the user, with the page that it wants opened."""
    return format_one_line(" ".join(filter(None, (message, url))), MAX_QUESTION_LENGTH)


def find_required_pages(error_data: Any) -> str:
    """Return the pages that the user must open before a call can succeed, as the error -32042 names them."""
    wanted = [as_dict(one) for one in as_list(as_dict(error_data).get("elicitations"))]
    return "; ".join(format_question(str(one.get("message", "")), str(one.get("url", ""))) for one in wanted)
