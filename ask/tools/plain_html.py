"""Convert HTML to readable text with only the standard library, if the extra `web` is not installed.

Headings, links, lists and code become Markdown; other elements become plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser

SKIPPED_ELEMENTS = frozenset(
    (
        *("aside", "button", "canvas", "footer", "iframe", "nav", "noscript", "object", "script", "select", "style"),
        *("svg", "template"),
    )
)
"""Elements whose content is dropped: scripts, hidden elements and page navigation."""
_BLOCK_ELEMENTS = {
    *("address", "article", "blockquote", "body", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption"),
    *("figure", "form", "header", "hr", "main", "ol", "p", "section", "summary", "table", "title", "tr", "ul"),
}
_HEADING_PREFIXES = {f"h{level}": "#" * level for level in range(1, 7)}
_BLANK_LINES_PATTERN = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")
_CODE_BLOCK_PATTERN = re.compile(r"(^[ \t]*```.*?^[ \t]*```[ \t]*$)", re.MULTILINE | re.DOTALL)
_REFRESH_PATTERN = re.compile(r"\s*[\d.]*\s*[;,]\s*(?:url\s*=)?\s*[\"']?([^\"']+)", re.IGNORECASE)


def to_plain_text(html: str, resolve_link: Callable[[str], str]) -> str:
    """Convert a page to text. `resolve_link` returns the absolute URL of a link, "" to drop it."""
    extractor = _TextExtractor(resolve_link)
    extractor.feed(html)
    extractor.close()
    return collapse_blank_lines("".join(extractor.parts))


def collapse_blank_lines(text: str) -> str:
    """Collapse runs of blank lines outside code blocks."""
    parts = _CODE_BLOCK_PATTERN.split(text)
    parts[::2] = [_BLANK_LINES_PATTERN.sub("\n\n", part) for part in parts[::2]]
    return "".join(parts).strip()


def format_refresh_link(attributes: Mapping[str, str | None], resolve_link: Callable[[str], str]) -> str:
    """Return a link to the target of a `meta` refresh element; "" for other `meta` elements."""
    if (attributes.get("http-equiv") or "").strip().lower() != "refresh":
        return ""
    target = _REFRESH_PATTERN.match(attributes.get("content") or "")
    url = resolve_link(target[1]) if target else ""
    return f"[this page leads on to]({url})" if url else ""


class _TextExtractor(HTMLParser):
    """Collects the text of a page. Unclosed elements end with their parent, as in browsers."""

    def __init__(self, resolve_link: Callable[[str], str]) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._resolve_link = resolve_link
        self._skipped_elements: list[str] = []
        self._list_counters: list[int] = []
        self._link_url = ""
        self._pre_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SKIPPED_ELEMENTS:
            self._skipped_elements.append(tag)
        elif self._skipped_elements:
            return
        elif tag in _HEADING_PREFIXES:
            self.parts.append(f"\n\n{_HEADING_PREFIXES[tag]} ")
        elif tag == "a":
            self._close_link()
            self._link_url = self._resolve_link(dict(attrs).get("href") or "")
            self._add_text("[" if self._link_url else "")
        elif tag in ("frame", "img", "meta"):
            self._add_media_text(tag, dict(attrs))
        else:
            self._start_block(tag)

    def _add_media_text(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        """Add the text for an element without text of its own."""
        if tag == "img":
            self._add_text(re.sub(r"\s+", " ", attributes.get("alt") or ""))
        elif tag == "meta":
            link = format_refresh_link(attributes, self._resolve_link)
            self.parts.append(f"\n\n{link}\n\n" if link else "")
        elif url := self._resolve_link(attributes.get("src") or ""):
            self.parts.append(f"\n\n[frame]({url})\n\n")

    def _start_block(self, tag: str) -> None:
        if tag == "li":
            marker = "-"
            if self._list_counters and self._list_counters[-1] >= 0:
                self._list_counters[-1] += 1
                marker = f"{self._list_counters[-1]}."
            self.parts.append(f"\n{'  ' * (len(self._list_counters) - 1)}{marker} ")
        elif tag == "br":
            self.parts.append("\n")
        elif tag == "pre":
            self._pre_depth += 1
            self.parts.append("\n\n```\n")
        elif tag == "code":
            self._add_text("" if self._pre_depth else "`")
        elif tag in ("td", "th"):
            self._add_text(" | ")
        elif tag in _BLOCK_ELEMENTS:
            self.parts.append("\n" if self._list_counters else "\n\n")
        if tag in ("ol", "ul"):
            self._list_counters.append(0 if tag == "ol" else -1)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped_elements:
            if tag in self._skipped_elements:
                del self._skipped_elements[self._skipped_elements.index(tag) :]
            return
        if tag == "a":
            self._close_link()
        elif tag == "pre" and self._pre_depth:
            self._pre_depth -= 1
            self.parts.append("\n```\n\n")
        elif tag == "code":
            self._add_text("" if self._pre_depth else "`")
        elif tag in ("ol", "ul") and self._list_counters:
            self._list_counters.pop()
            self.parts.append("\n" if self._list_counters else "\n\n")
        elif tag in _BLOCK_ELEMENTS or tag in _HEADING_PREFIXES:
            self.parts.append("\n" if self._list_counters else "\n\n")

    def handle_data(self, data: str) -> None:
        if not self._skipped_elements:
            self._add_text(data if self._pre_depth else re.sub(r"\s+", " ", data))

    def _add_text(self, text: str) -> None:
        """Add text, without leading spaces at the start of a line."""
        if not self._pre_depth and (not self.parts or self.parts[-1].endswith(("\n", " "))):
            text = text.lstrip(" ")
        if text:
            self.parts.append(text)

    def _close_link(self) -> None:
        if self._link_url:
            self.parts.append(f"]({self._link_url})")
        self._link_url = ""
