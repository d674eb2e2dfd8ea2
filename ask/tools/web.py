"""The tool `fetch_url`. It is loaded with the others, so what it works with is loaded by a call."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ask.messages import ToolSpec
from ask.tools import Tool, ToolContext, ToolError, ToolResult

if TYPE_CHECKING:
    from ask.tools.http_get import Page

_HTML = ("text/html", "application/xhtml+xml")
_BINARY = re.compile(r"(?!.*\+(?:xml|json))(?:image|audio|video|font)/|application/(?:pdf|zip|gzip|wasm|x-tar)")
"""Content types of what is not read at all."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_ENCODINGS = re.compile(r"(?!utf_?7)(utf|iso|latin|l1|ascii|us|cp|windows|koi|mac|gb|big5|euc|shift|sjis|tis|ks_c)")
"""Python has more text encodings, of which a few take for ever to read a long text."""
_LOOKED_AT = 4_096
"""Bytes in which a page says what it is."""


def reached_host(arguments: Mapping[str, Any]) -> str:
    """The host that a call reaches.

    Raises:
        ToolError: the URL is none, or an odd one.
    """
    from ask.tools.addresses import host_of

    return host_of(arguments["url"])


def fetch_url(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """What a URL gives, as text, below a line that says where it came from.

    With `context.restrict_hosts` only public addresses are reached, and no proxies are used.

    Raises:
        ToolError: nothing came, it may not be fetched, or the server answered with an error, whose text is told.
    """
    from ask.tools.http_get import get
    from ask.tools.reach import Restricted

    deadline = time.monotonic() + context.command_timeout
    restricted = None if context.restrict_hosts is None else Restricted(context.restrict_hosts)
    page = get(arguments["url"], context.command_timeout, restricted, lambda kind: not _BINARY.match(_media(kind)))
    text = f"{_first_line(page)}\n\n{_text(page, deadline, context)}"
    if page.failed:
        raise ToolError(text)
    return ToolResult(text)


def _media(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _first_line(page: Page) -> str:
    size = len(page.body) or page.length
    told = [page.status, _media(page.content_type) or "no content type"]
    told.append("size unknown" if size is None else f"{size:,} bytes")
    return f"{page.url}: {', '.join([*told, page.note] if page.note else told)}"


def _text(page: Page, deadline: float, context: ToolContext) -> str:
    media = _media(page.content_type)
    if _BINARY.match(media):
        return "[binary content is not shown]"
    if not page.body:
        return "[the answer is empty]"
    encoding = _encoding(page)
    if not encoding:
        return "[binary content is not shown]"
    text = page.body.decode(encoding, "replace").removeprefix("\ufeff")
    begins = text[:_LOOKED_AT].lstrip().lower()
    if media in _HTML or (not media and begins.startswith(("<!doctype html", "<html"))):
        from ask.tools.page_text import page_text

        read = page_text(text, page.url, deadline - time.monotonic(), context.environment)
        return read or "[the page has no text without JavaScript]"
    return text


def _encoding(page: Page) -> str:
    """How the body is written, by its own mark, the header, or what the page says; "" for what is no text."""
    head = page.body[:_LOOKED_AT]
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    named = _CHARSET.search(page.content_type)
    if named and (known := _known(named[1])):
        return known
    if b"\0" in head:
        return ""
    meta = _META.search(head)
    if meta and (known := _known(meta[1].decode("ascii", "replace"))):
        return known
    try:
        codecs.getincrementaldecoder("utf-8")().decode(page.body)
    except UnicodeDecodeError:
        return "cp1252" if page.content_type.strip().lower().startswith("text/") else ""
    return "utf-8"


def _known(name: str) -> str:
    """The encoding of that name; "" where there is none. Latin-1 stands for its superset, as in browsers."""
    name = name.lower().replace("-", "_")
    if not _ENCODINGS.match(name):
        return ""
    try:
        known = codecs.lookup(name).name
    except LookupError:
        return ""
    return "cp1252" if known in ("iso8859-1", "ascii") else known


FETCH_URL = Tool(
    ToolSpec(
        "fetch_url",
        "Get a web page: its readable text with links; JSON and plain text as they are.",
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    ),
    fetch_url,
    host_of=reached_host,
)
