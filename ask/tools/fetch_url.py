"""The tool `fetch_url`. Imports that it needs only to run happen in its functions, to keep start-up fast."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Mapping
from subprocess import CalledProcessError, TimeoutExpired
from typing import TYPE_CHECKING, Any

from ask.attachments import find_attachment
from ask.client.document_text import convert_document, identify_document
from ask.process.isolated_process import run_in_subprocess
from ask.tools.base import RunToolContext, ToolError, ToolResult

if TYPE_CHECKING:
    from ask.tools.http_get import FetchResponse

_HTML_TYPES = ("text/html", "application/xhtml+xml")
_BINARY_TYPE_PATTERN = re.compile(
    r"(?!.*\+(?:xml|json))(?:image|audio|video|font)/|application/(?:pdf|zip|gzip|wasm|x-tar)"
)
_UNREAD_TYPE_PATTERN = re.compile(r"(?:video|font)/|application/(?:gzip|wasm|x-tar)")
"""Content types whose body is not read."""
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CHARSET_PATTERN = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_CHARSET_PATTERN = re.compile(rb"<meta[^>]{0,200}?charset\s*=[\s\"']*([\w.:-]+)", re.IGNORECASE)
_XML_ENCODING_PATTERN = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)")
_TEXT_ENCODING_PATTERN = re.compile(
    r"(?!utf_?7)(utf|iso|latin|l1|ascii|us|cp|windows|koi|mac|gb|big5|euc|shift|sjis|tis|ks_c)"
)
"""Allowed text encodings. Python has more, and a few of them take very long for a long text."""
_BINARY_SIGNATURES = (b"%PDF-", b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"PK\x03\x04", b"\x1f\x8b", b"\x7fELF")
"""Signatures of binary files, recognized whatever content type the server sends."""
_HTML_TAGS = "!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p"
_HTML_START_PATTERN = re.compile(rf"\s*(?:<\?xml[^>]*>\s*)?(?:<!--|<(?:{_HTML_TAGS})[\s>])", re.IGNORECASE)
"""Recognizes HTML without a content type, as browsers do: https://mimesniff.spec.whatwg.org"""
_BODY_TIME_SHARE = 0.8
"""Share of the timeout for receiving the body; the rest is for parsing it."""
_PDF_TYPE = "application/pdf"
PDF_NOTE = "[a PDF, not shown; the user can save it and attach it with -f FILE, or convert it with pdftotext]"
BINARY_CONTENT_NOTE = "[binary content, not shown]"
_SNIFF_BYTES = 4_096
"""Bytes at the start of a body that are searched for its encoding."""


def run_fetch_url(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    """Fetch a URL and return its text below a status line; an image, a PDF or audio is an attachment.

    With `context.restrict_hosts` only public addresses are reached, and no proxies are used.

    Raises:
        ToolError: the request failed or is not allowed, or the server returned an error status; the message then
            includes the error page's text.
    """
    from ask.tools.http_get import Fetcher
    from ask.tools.network_policy import NetworkPolicy

    deadline = time.monotonic() + context.command_timeout
    policy = None if context.restrict_hosts is None else NetworkPolicy(context.restrict_hosts)
    fetcher = Fetcher(
        context.command_timeout,
        policy,
        lambda content_type: not _UNREAD_TYPE_PATTERN.match(_parse_media_type(content_type)),
        body_timeout=context.command_timeout * _BODY_TIME_SHARE,
    )
    response = fetcher.fetch(arguments["url"])
    is_whole = not (response.is_error or response.truncation_reason)
    if is_whole and (attachment := find_attachment(find_file_name(response.url), response.body)):
        return ToolResult(f"{_format_status_line(response)}\n", attachments=(attachment,))
    text = f"{_format_status_line(response)}\n\n{extract_text(response, deadline, context.environment)}"
    if response.is_error:
        raise ToolError(text)
    return ToolResult(text)


def find_file_name(url: str) -> str:
    """Return the name of the file that a URL leads to: the last part of its path, or else the host.

    An invalid URL, for example of an MCP server, is returned unchanged.
    """
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return unquote(parts.path).rstrip("/").rpartition("/")[2] or parts.netloc


def _parse_media_type(content_type: str) -> str:
    return re.split("[;,]", content_type, maxsplit=1)[0].strip().lower()  # some servers send the header twice


def _format_status_line(response: FetchResponse) -> str:
    size = len(response.body) or response.content_length
    parts = [response.status_line, _parse_media_type(response.content_type) or "no content type"]
    parts.append("size unknown" if size is None else f"{size:,} bytes")
    return f"{response.url}: {', '.join([*parts, response.truncation_reason] if response.truncation_reason else parts)}"


def extract_text(response: FetchResponse, deadline: float, environment: Mapping[str, str]) -> str:
    """Return the body as text: the readable text of a page, or a note if there is no text.

    `deadline` is on the monotonic clock; `environment` is for the process that parses the page.

    Raises:
        ToolError: parsing takes too long or too much memory.
    """
    media_type = _parse_media_type(response.content_type)
    is_page = _HTML_START_PATTERN.match(response.body[:_SNIFF_BYTES].decode("ascii", "replace"))
    if is_page and _BINARY_TYPE_PATTERN.match(media_type):  # a page to sign in, for example, in place of the file
        media_type = ""
    if media_type == _PDF_TYPE or response.body.startswith(b"%PDF-"):
        return PDF_NOTE
    if _BINARY_TYPE_PATTERN.match(media_type) or response.body.startswith(_BINARY_SIGNATURES):
        return _extract_document_text(response.body, deadline) or BINARY_CONTENT_NOTE
    if not response.body:
        return "[the response is empty]"
    encoding = _detect_encoding(response)
    if not encoding:
        return BINARY_CONTENT_NOTE
    text = response.body.decode(encoding, "replace").removeprefix("\ufeff")
    is_json = text.lstrip().startswith(("{", "["))  # labeled as HTML if a server does not set the content type
    if (media_type in _HTML_TYPES and not is_json) or (not media_type and _HTML_START_PATTERN.match(text)):
        page_text = extract_page_text(text, response.url, deadline - time.monotonic(), environment)
        return page_text or "[the page has no text without JavaScript]"
    return text


def _extract_document_text(data: bytes, deadline: float) -> str:
    """Return the text of an Office document, or a note about why there is none; "" for other data."""
    if not identify_document(data):
        return ""
    text, problem = convert_document(data, max(deadline - time.monotonic(), 1))
    return text or f"[a document, not shown: {problem}]"


def extract_page_text(html: str, url: str, timeout: float, environment: Mapping[str, str]) -> str:
    """Return the readable text of a page; relative links are resolved against `url`.

    Raises:
        ToolError: it takes too long, or too much memory.
    """
    try:
        page = run_in_subprocess("ask.tools.html_to_markdown", html.encode(), timeout, url, environment=environment)
        return page.decode()
    except TimeoutExpired:
        raise ToolError(f"fetched {url}, but parsing its HTML took too long") from None
    except CalledProcessError:
        raise ToolError(f"fetched {url}, but its HTML could not be parsed") from None


def _detect_encoding(response: FetchResponse) -> str:
    """Detect the encoding from a byte order mark, the header or the page itself.

    Return "" if the body is not text.
    """
    head = response.body[:_SNIFF_BYTES]
    for byte_order_mark, name in _BYTE_ORDER_MARKS:
        if head.startswith(byte_order_mark):
            return name
    header_match = _CHARSET_PATTERN.search(response.content_type)
    if header_match and (encoding := _normalize_encoding(header_match[1])):
        return encoding
    if b"\0" in head:
        return ""
    declaration = _XML_ENCODING_PATTERN.match(head) or _META_CHARSET_PATTERN.search(head)
    if declaration and (encoding := _normalize_encoding(declaration[1].decode("ascii", "replace"))):
        # The declaration was readable as ASCII, so the page is not UTF-16. Browsers do the same.
        return "utf-8" if encoding.startswith(("utf-16", "utf-32")) else encoding
    return _recognize_encoding(response)


def _recognize_encoding(response: FetchResponse) -> str:
    """Return the encoding of a body that does not declare any; "" if it is not text."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(response.body)
    except UnicodeDecodeError:
        if not response.content_type.strip().lower().startswith("text/"):
            return ""
        from ask.tools.text_encoding import decode_bytes

        decoded = decode_bytes(response.body)
        return decoded.encoding if decoded else "cp1252"
    return "utf-8"


def _normalize_encoding(name: str) -> str:
    """Return the Python name of an encoding; "" if it is unknown.

    Latin-1 means cp1252, as in browsers.
    """
    name = name.lower().replace("-", "_")
    if not _TEXT_ENCODING_PATTERN.match(name):
        return ""
    try:
        codec_name = codecs.lookup(name).name
    except LookupError:
        return ""
    return "cp1252" if codec_name in ("iso8859-1", "ascii") else codec_name
