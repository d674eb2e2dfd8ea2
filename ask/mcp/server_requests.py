"""Responses to requests from a server: its roots, and questions to the user."""

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
"""Maximum number of questions of one call that are passed on to the model."""
MAX_QUESTION_LENGTH = 500


class ServerRequestHandler:
    """Answers the requests of one server.

    Questions to the user (elicitation) are declined: a run may have no terminal, and accepting by default would agree
    to something that the user has not read. The question is added to the result of the call, so that the model can ask
    the user in its answer.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = roots
        """The folders that the server may work in, sent only if it asks for them."""
        self.declined_questions: list[str] = []
        """The questions since `pop_declined_questions` was last called."""

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
        """Return a line for each declined question and clear the list; "" if there are none."""
        lines = [f"[the server asked the user, and got no answer: {question}]" for question in self.declined_questions]
        self.declined_questions.clear()
        return "\n".join(lines)


def find_roots(server: ServerConfig, directory: Path) -> list[Path]:
    """Return the roots of a server: the working directory if it runs on this machine, otherwise none.

    A remote server could not use the path, which often contains the user's name.
    """
    host = urlsplit(server.url).hostname or ""
    return [directory] if not server.url or is_loopback(host) else []


def is_loopback(host: str) -> bool:
    """Check whether a host name or address refers to this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def format_question(message: str, url: str) -> str:
    """Format a question of a server, with the page that the user should open."""
    return format_one_line(" ".join(filter(None, (message, url))), MAX_QUESTION_LENGTH)


def find_required_pages(error_data: Any) -> str:
    """Return the pages that the user must open before a call can succeed, from the data of an error -32042."""
    elicitations = [as_dict(item) for item in as_list(as_dict(error_data).get("elicitations"))]
    return "; ".join(
        format_question(str(elicitation.get("message", "")), str(elicitation.get("url", "")))
        for elicitation in elicitations
    )
