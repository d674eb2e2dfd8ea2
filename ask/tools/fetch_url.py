"""The tool `run_fetch_url`. It is loaded with the others, so what it works with is loaded by a call."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ask.messages import ToolSpec
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult

if TYPE_CHECKING:
    from ask.tools.http_get import FetchResponse

_HTML_TYPES = ("text/html", "application/xhtml+xml")
_BINARY_TYPE_PATTERN = re.compile(
    r"(?!.*\+(?:xml|json))(?:image|audio|video|font)/|application/(?:pdf|zip|gzip|wasm|x-tar)"
)
"""Content types of what is not read at all."""
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CHARSET_PATTERN = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_CHARSET_PATTERN = re.compile(rb"<meta[^>]{0,200}?charset\s*=[\s\"']*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING_PATTERN = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)")
_TEXT_ENCODING_PATTERN = re.compile(
    r"(?!utf_?7)(utf|iso|latin|l1|ascii|us|cp|windows|koi|mac|gb|big5|euc|shift|sjis|tis|ks_c)"
)
"""Python has more text encodings, of which a few take for ever to read a long text."""
_BINARY_SIGNATURES = (b"%PDF-", b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"PK\x03\x04", b"\x1f\x8b", b"\x7fELF")
"""What begins like this is binary, whatever it is called."""
_HTML_TAGS = "!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p"
_HTML_START_PATTERN = re.compile(rf"\s*(?:<\?xml[^>]*>\s*)?(?:<!--|<(?:{_HTML_TAGS})[\s>])", re.IGNORECASE)
"""As browsers know it where no content type says so: https://mimesniff.spec.whatwg.org"""
_BODY_TIME_SHARE = 0.8
"""The share of the time in which a body must have come; the rest is for reading it."""
BINARY_CONTENT_NOTE = "[binary content is not shown]"
_SNIFF_LENGTH = 4_096
"""Bytes in which a page says what it is."""


def get_fetch_host(arguments: Mapping[str, Any]) -> str:
    """The host that a call reaches.

    Raises:
        ToolError: the URL is none, or an odd one.
    """
    from ask.tools.network_policy import parse_host

    return parse_host(arguments["url"])


def run_fetch_url(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """What a URL gives, as text, below a line that says where it came from.

    With `context.restrict_hosts` only public addresses are reached, and no proxies are used.

    Raises:
        ToolError: nothing came, it may not be fetched, or the server answered with an error, whose text is told.
    """
    from ask.tools.http_get import fetch_response
    from ask.tools.network_policy import NetworkPolicy

    deadline = time.monotonic() + context.command_timeout
    restricted = None if context.restrict_hosts is None else NetworkPolicy(context.restrict_hosts)
    page = fetch_response(
        arguments["url"],
        context.command_timeout,
        restricted,
        lambda kind: not _BINARY_TYPE_PATTERN.match(_parse_media_type(kind)),
        body_timeout=context.command_timeout * _BODY_TIME_SHARE,
    )
    text = f"{_format_status_line(page)}\n\n{extract_text(page, deadline, context.environment)}"
    if page.is_error:
        raise ToolError(text)
    return ToolResult(text)


def _parse_media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _format_status_line(response: FetchResponse) -> str:
    size = len(response.body) or response.content_length
    told = [response.status_line, _parse_media_type(response.content_type) or "no content type"]
    told.append("size unknown" if size is None else f"{size:,} bytes")
    return f"{response.url}: {', '.join([*told, response.truncation_reason] if response.truncation_reason else told)}"


def extract_text(response: FetchResponse, deadline: float, environment: Mapping[str, str]) -> str:
    """What came, as text: a page's readable text, or what stands for it where there is none.

    Args:
        response: what came.
        deadline: on the monotonic clock, when the text is to be there.
        environment: of the process that reads it.

    Raises:
        ToolError: it takes too long, or too much memory.
    """
    media = _parse_media_type(response.content_type)
    if _BINARY_TYPE_PATTERN.match(media) or response.body.startswith(_BINARY_SIGNATURES):
        return BINARY_CONTENT_NOTE
    if not response.body:
        return "[the answer is empty]"
    encoding = _detect_encoding(response)
    if not encoding:
        return BINARY_CONTENT_NOTE
    text = response.body.decode(encoding, "replace").removeprefix("\ufeff")
    if (media in _HTML_TYPES and not _is_json(text)) or (not media and _HTML_START_PATTERN.match(text)):
        from ask.tools.page_text import extract_page_text

        read = extract_page_text(text, response.url, deadline - time.monotonic(), environment)
        return read or "[the page has no text without JavaScript]"
    return text


def _is_json(text: str) -> bool:
    """Whether what is called a page is JSON, as programs answer that set no content type."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    import json

    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _detect_encoding(response: FetchResponse) -> str:
    """How the body is written, by its own mark, the header, or what the page says; "" for what is no text."""
    head = response.body[:_SNIFF_LENGTH]
    for mark, name in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return name
    named = _CHARSET_PATTERN.search(response.content_type)
    if named and (known := _normalize_encoding(named[1])):
        return known
    if b"\0" in head:
        return ""
    told = _XML_ENCODING_PATTERN.match(head) or _META_CHARSET_PATTERN.search(head)
    if told and (known := _normalize_encoding(told[1].decode("ascii", "replace"))):
        # A page whose bytes could be read to find this is not in UTF-16, as browsers know.
        return "utf-8" if known.startswith(("utf-16", "utf-32")) else known
    try:
        codecs.getincrementaldecoder("utf-8")().decode(response.body)
    except UnicodeDecodeError:
        return "cp1252" if response.content_type.strip().lower().startswith("text/") else ""
    return "utf-8"


def _normalize_encoding(name: str) -> str:
    """The encoding of that name; "" where there is none. Latin-1 stands for its superset, as in browsers."""
    name = name.lower().replace("-", "_")
    if not _TEXT_ENCODING_PATTERN.match(name):
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
        {
            "type": "object",
            "properties": {"url": {"type": "string"}},
            "required": ["url"],
            "additionalProperties": False,
        },
    ),
    run_fetch_url,
    changes=False,
    host_of=get_fetch_host,
)
