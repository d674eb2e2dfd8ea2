"""`-f https://...`: gets a page as the tool `fetch_url` does, on the user's word and so without rules for hosts."""

from __future__ import annotations

import time
from urllib.parse import unquote, urlsplit

from ask.attachments import detect_media_type
from ask.errors import FileError, NetworkError
from ask.inputs.prompt_inputs import SUPPORTED_CONTENT, InputReaders, PromptInputs, parse_content
from ask.text import format_one_line
from ask.tools.base import ToolError
from ask.tools.fetch_url import BINARY_CONTENT_NOTE, extract_text
from ask.tools.http_get import MAX_BODY_SIZE, fetch_response
from ask.tools.network_policy import parse_url

NETWORK_HINT = "check the address and the network"


def read_url(url: str, readers: InputReaders) -> PromptInputs:
    """What a URL gives: the readable text of a page, or an image and the like as it is.

    Raises:
        FileError: it is no URL, the server says no, it is too long, or nothing that a model can take.
        NetworkError: it did not come, or not whole.
    """
    try:
        parse_url(url)
    except (ToolError, ValueError) as fault:
        raise FileError(f"cannot read {format_one_line(url)} ({format_one_line(str(fault))})") from None
    deadline = time.monotonic() + readers.timeout
    try:
        page = fetch_response(url, readers.timeout, None)
        name = format_one_line(page.url)
        if page.is_error:
            raise FileError(f"cannot read {name} ({format_one_line(page.status_line)})", "check the address")
        if page.truncation_reason and len(page.body) >= MAX_BODY_SIZE:
            raise FileError(f"{name} is longer than {MAX_BODY_SIZE} bytes", "save it, and give a part of it")
        if page.truncation_reason:
            raise NetworkError(f"{name} is not whole ({page.truncation_reason})", NETWORK_HINT)
        if detect_media_type(page.body):
            place = urlsplit(page.url)
            return parse_content(unquote(place.path).rstrip("/").rpartition("/")[2] or place.netloc, page.body)
        text = extract_text(page, deadline, readers.environment)
    except ToolError as fault:
        raise NetworkError(format_one_line(str(fault)), NETWORK_HINT) from None
    if text == BINARY_CONTENT_NOTE:
        raise FileError(f"{name} is binary, not {SUPPORTED_CONTENT}", "turn it into text first")
    return PromptInputs(texts=((name, text),))
