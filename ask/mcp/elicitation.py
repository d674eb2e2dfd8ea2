"""Questions that a server asks the user (elicitation), which are declined.

A run may have no terminal, and accepting by default would agree to something that the user has not read. The question
is added to the result of the call, so that the model can ask the user in its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ask.parsing import read_dict, read_list
from ask.text import format_one_line

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

MAX_QUESTIONS = 5
"""Maximum number of questions of one call that are passed on to the model."""
MAX_QUESTION_CHARACTERS = 500
URL_ELICITATION_REQUIRED = -32042
"""The error code of a call that is refused until the user has opened a page."""
REFUSAL_WORDS = ("elicitation", "unrecognized field", "capabilities")
"""Words with which servers refuse capabilities that they do not know (matchbox#455, codex#45269)."""


async def decline_elicitation(declined: list[str], context: object, params: ElicitRequestParams) -> ElicitResult:
    """Decline a question, and add it to those of the same call, in words for the model."""
    from mcp_types import ElicitResult

    if len(declined) < MAX_QUESTIONS:
        question = _format_question(params.message, getattr(params, "url", ""))
        declined.append(f"[the server asked the user a question, which was not answered: {question}]")
    return ElicitResult(action="decline")


def describe_required_pages(data: Any) -> str:
    """Describe an error `URL_ELICITATION_REQUIRED`, with the pages that the user must open."""
    pages = [read_dict(item) for item in read_list(read_dict(data).get("elicitations"))]
    urls = "; ".join(_format_question(str(page.get("message", "")), str(page.get("url", ""))) for page in pages)
    return f"the user must first open a page: {urls}"


def is_elicitation_refusal(reason: str) -> bool:
    """Check whether a server refuses to connect because it does not know this capability of the client."""
    return any(word in reason.lower() for word in REFUSAL_WORDS)


def _format_question(message: str, url: str) -> str:
    """Format a question of a server, with the page that the user should open."""
    return format_one_line(f"{message} {url}", MAX_QUESTION_CHARACTERS)
