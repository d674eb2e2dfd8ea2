"""`-f https://...`: gets a page as the tool `fetch_url` does, on the user's word and so without rules for hosts."""

from __future__ import annotations

import time
from urllib.parse import unquote, urlsplit

from ask.attachments import media_type_of
from ask.errors import FileError, NetworkError
from ask.inputs.prompt_inputs import WANTED, Given, Means, content_of
from ask.text import one_line
from ask.tools.base import ToolError
from ask.tools.fetch_url import NOT_SHOWN, text_of
from ask.tools.http_get import BODY_LIMIT, get
from ask.tools.network_policy import parse_url

ADVICE = "check the address and the network"


def fetch(url: str, means: Means) -> Given:
    """What a URL gives: the readable text of a page, or an image and the like as it is.

    Raises:
        FileError: it is no URL, the server says no, it is too long, or nothing that a model can take.
        NetworkError: it did not come, or not whole.
    """
    try:
        parse_url(url)
    except (ToolError, ValueError) as fault:
        raise FileError(f"cannot read {one_line(url)} ({one_line(str(fault))})") from None
    deadline = time.monotonic() + means.seconds
    try:
        page = get(url, means.seconds, None)
        name = one_line(page.url)
        if page.failed:
            raise FileError(f"cannot read {name} ({one_line(page.status)})", "check the address")
        if page.note and len(page.body) >= BODY_LIMIT:
            raise FileError(f"{name} is longer than {BODY_LIMIT} bytes", "save it, and give a part of it")
        if page.note:
            raise NetworkError(f"{name} is not whole ({page.note})", ADVICE)
        if media_type_of(page.body):
            place = urlsplit(page.url)
            return content_of(unquote(place.path).rstrip("/").rpartition("/")[2] or place.netloc, page.body)
        text = text_of(page, deadline, means.environment)
    except ToolError as fault:
        raise NetworkError(one_line(str(fault)), ADVICE) from None
    if text == NOT_SHOWN:
        raise FileError(f"{name} is binary, not {WANTED}", "turn it into text first")
    return Given(texts=((name, text),))
