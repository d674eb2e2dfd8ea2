"""The number of pages of a PDF, counted without a parser for PDF."""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from itertools import islice

_PDF_PAGE = re.compile(rb"/Type\s*/Page(?!\w)")
_PDF_PAGES = re.compile(rb"/Type\s*/Pages(?!\w)")
_PDF_PAGE_COUNT = re.compile(rb"/Count\s+(\d{1,9})")
_PDF_DICTIONARY_BYTES = 20_000
"""How far from the type of a node of the page tree its count is searched."""
_PDF_OBJECT_STREAM = re.compile(rb"/Type\s*/ObjStm(?!\w)")
_PDF_STREAM = re.compile(rb"\bstream\r?\n")
_PDF_STREAM_BYTES = 1_000
"""How far after the type of an object stream its content begins."""
_MAX_PDF_MATCHES = 10_000
"""The limit for object streams and nodes of the page tree: the time for each is limited, too."""
MAX_UNPACKED_PDF_BYTES = 50_000_000
"""The limit for the compressed objects of a PDF that are searched for pages."""


def count_pdf_pages(data: bytes) -> int | None:
    """Count the pages of a PDF; None if they cannot be counted, for example because it is encrypted.

    A PDF that was edited may contain former pages, too: the number is at most what the page tree says.
    """
    if b"/Encrypt" in data:
        return None
    objects, unpacked_size, end = [data], 0, 0
    streams = list(islice(_PDF_OBJECT_STREAM.finditer(data), _MAX_PDF_MATCHES + 1))
    for match in streams:
        stream = _PDF_STREAM.search(data, match.end(), match.end() + _PDF_STREAM_BYTES)
        if stream is None or match.start() < end:  # in the content of the one before
            continue
        end = data.find(b"endstream", stream.end())
        end = len(data) if end < 0 else end
        unpacker = zlib.decompressobj()
        with suppress(zlib.error):
            objects.append(unpacker.decompress(data[stream.end() : end], MAX_UNPACKED_PDF_BYTES - unpacked_size + 1))
            unpacked_size += len(objects[-1])
        if unpacked_size > MAX_UNPACKED_PDF_BYTES:
            return None
    pages = sum(1 for part in objects for _ in _PDF_PAGE.finditer(part))
    nodes = list(islice(((part, node) for part in objects for node in _PDF_PAGES.finditer(part)), _MAX_PDF_MATCHES + 1))
    if max(len(streams), len(nodes)) > _MAX_PDF_MATCHES:
        return None
    counts = [count for part, node in nodes if (count := _read_page_count(part, node)) is not None]
    return min(pages, max(counts)) if pages and counts else pages or None


def _read_page_count(data: bytes, node: re.Match[bytes]) -> int | None:
    """Return the number of pages below a node of the page tree, which is in the same dictionary as its type."""
    after = data[node.end() : node.end() + _PDF_DICTIONARY_BYTES].partition(b">")[0]
    start = max(node.start() - _PDF_DICTIONARY_BYTES, 0)
    start = max(start, data.rfind(b"<", start, node.start()), data.rfind(b">", start, node.start()))
    count = _PDF_PAGE_COUNT.search(after) or _PDF_PAGE_COUNT.search(data, start, node.start())
    return int(count[1]) if count else None
