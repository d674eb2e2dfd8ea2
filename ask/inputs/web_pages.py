"""`-f https://...`: fetching a page as the tool `fetch_url` does, but to any host, since the user named it."""

from __future__ import annotations

import time

from ask.attachments import detect_media_type
from ask.errors import FileError, NetworkError
from ask.inputs.content_types import SUPPORTED_CONTENT, parse_content
from ask.inputs.prompt_inputs import InputReaders, PromptInputs
from ask.text import format_one_line, format_size
from ask.tools.base import ToolError
from ask.tools.fetch_url import BINARY_CONTENT_NOTE, PDF_NOTE, extract_text, find_file_name
from ask.tools.http_get import MAX_BODY_BYTES, Fetcher
from ask.tools.network_policy import parse_url

NETWORK_HINT = "check the address and the network"


def read_url(url: str, readers: InputReaders) -> PromptInputs:
    """Fetch a URL: the readable text of a page, or an attachment.

    Raises:
        FileError: the URL is invalid, the server returned an error, or the content is too long or not supported.
        NetworkError: it cannot be fetched, or only in part.
    """
    try:
        parse_url(url)
    except (ToolError, ValueError) as error:
        raise FileError(f"cannot read {format_one_line(url)} ({format_one_line(str(error))})") from None
    deadline = time.monotonic() + readers.timeout
    try:
        response = Fetcher(readers.timeout, None).fetch(url)
        name = format_one_line(response.url)
        if response.is_error:
            status = format_one_line(response.status_line)
            raise FileError(f"cannot read {name} ({status})", _find_status_hint(status))
        if response.truncation_reason and len(response.body) >= MAX_BODY_BYTES:
            raise FileError(
                f"{name} is larger than {format_size(MAX_BODY_BYTES)}", "save it, and attach the file or a part of it"
            )
        if response.truncation_reason:
            raise NetworkError(f"{name} is incomplete ({response.truncation_reason})", NETWORK_HINT)
        if detect_media_type(response.body):
            return parse_content(
                find_file_name(response.url),
                response.body,
                keep_location=readers.keep_location,
                accepts=readers.accepts,
            )
        text = extract_text(response, deadline, readers.environment)
    except ToolError as error:
        raise NetworkError(format_one_line(str(error)), NETWORK_HINT) from None
    if text in (BINARY_CONTENT_NOTE, PDF_NOTE):
        raise FileError(f"{name} is binary, not {SUPPORTED_CONTENT}", "convert it to text first")
    return PromptInputs(texts=((name, text),))


def _find_status_hint(status: str) -> str:
    if status.startswith(("401", "403")):
        return "open it in a browser, save it, and attach the file"
    return "try again later" if status.startswith(("429", "5")) else "check the address"
