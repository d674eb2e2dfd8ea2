"""One-line descriptions of errors of a server or of the connection to it."""

from __future__ import annotations

from ask.errors import AskError
from ask.mcp.server_requests import find_required_pages
from ask.text import format_one_line

MAX_REASON_LENGTH = 300
URL_ELICITATION_REQUIRED = -32042


class ServerUnavailableError(Exception):
    """A server cannot be used; the message is a one-line reason."""


def describe_error(error: BaseException) -> str:
    """Describe an error in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    module = type(error).__module__.split(".")[0]
    if isinstance(error, AskError):
        reason = error.brief
    elif isinstance(error, ServerUnavailableError):
        reason = str(error)
    elif module == "mcp" and hasattr(error, "message"):
        is_url_required = getattr(error, "code", None) == URL_ELICITATION_REQUIRED
        pages = find_required_pages(getattr(error, "data", None)) if is_url_required else ""
        reason = f"the user must open a page first: {pages}" if pages else str(error.message)
    elif module.startswith("pydantic"):
        reason = "what it answered does not fit the protocol"
    elif module.startswith("httpx"):
        reason = f"it cannot be reached ({error or type(error).__name__})"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    else:
        reason = str(error) or type(error).__name__
    return format_one_line(reason, MAX_REASON_LENGTH)
