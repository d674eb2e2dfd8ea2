"""What to call a fault of a server, or on the way to it: one line that says what happened."""

from __future__ import annotations

from ask.errors import AskError
from ask.mcp.server_requests import find_required_pages
from ask.text import one_line

LONGEST = 300
URL_ELICITATION_REQUIRED = -32042


class Unreachable(Exception):
    """A server that cannot be used; the text says why."""


def reason_of(fault: BaseException) -> str:
    """What happened, in a few words."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    module = type(fault).__module__.split(".")[0]
    if isinstance(fault, AskError):
        reason = fault.brief
    elif isinstance(fault, Unreachable):
        reason = str(fault)
    elif module == "mcp" and hasattr(fault, "message"):
        is_url_required = getattr(fault, "code", None) == URL_ELICITATION_REQUIRED
        pages = find_required_pages(getattr(fault, "data", None)) if is_url_required else ""
        reason = f"the user must open a page first: {pages}" if pages else str(fault.message)
    elif module.startswith("pydantic"):
        reason = "what it answered does not fit the protocol"
    elif module.startswith("httpx"):
        reason = f"it cannot be reached ({fault or type(fault).__name__})"
    elif isinstance(fault, OSError) and fault.strerror:
        reason = fault.strerror
    else:
        reason = str(fault) or type(fault).__name__
    return one_line(reason, LONGEST)
