"""HTML to readable text with the standard library alone, for where the extra `web` is not installed.

It keeps headings, links, lists and code as Markdown has them, and the text of everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser

LEFT_OUT = frozenset(
    (
        *("aside", "button", "canvas", "footer", "iframe", "nav", "noscript", "object", "script", "select", "style"),
        *("svg", "template"),
    )
)
"""Elements of which nothing is kept: what runs, what is not seen, and what is the same on every page."""
_BLOCKS = {
    *("address", "article", "blockquote", "body", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption"),
    *("figure", "form", "header", "hr", "main", "ol", "p", "section", "summary", "table", "title", "tr", "ul"),
}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_GAPS = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")
_CODE = re.compile(r"(^[ \t]*```.*?^[ \t]*```[ \t]*$)", re.MULTILINE | re.DOTALL)
_REFRESH = re.compile(r"\s*[\d.]*\s*[;,]\s*(?:url\s*=)?\s*[\"']?([^\"']+)", re.IGNORECASE)


def to_text(html: str, link: Callable[[str], str]) -> str:
    """The text of a page.

    Args:
        html: the page.
        link: gives a link's whole URL, "" where it leads nowhere.
    """
    reader = _Reader(link)
    reader.feed(html)
    reader.close()
    return tidy("".join(reader.parts))


def tidy(text: str) -> str:
    """The text without wide gaps, but in code."""
    parts = _CODE.split(text)
    parts[::2] = [_GAPS.sub("\n\n", part) for part in parts[::2]]
    return "".join(parts).strip()


def leads_on(attributes: Mapping[str, str | None], link: Callable[[str], str]) -> str:
    """Where a page says that it leads on to, in an element `meta` with these attributes; "" where it does not."""
    if (attributes.get("http-equiv") or "").strip().lower() != "refresh":
        return ""
    place = _REFRESH.match(attributes.get("content") or "")
    whole = link(place[1]) if place else ""
    return f"[this page leads on to]({whole})" if whole else ""


class _Reader(HTMLParser):
    """Gathers the text; what is never closed, as browsers allow, ends with what is around it."""

    def __init__(self, link: Callable[[str], str]) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._link = link
        self._skipping: list[str] = []
        self._lists: list[int] = []
        self._href = ""
        self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in LEFT_OUT:
            self._skipping.append(tag)
        elif self._skipping:
            return
        elif tag in _HEADINGS:
            self.parts.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "a":
            self._close_link()
            self._href = self._link(dict(attrs).get("href") or "")
            self._say("[" if self._href else "")
        elif tag in ("frame", "img", "meta"):
            self._stand_in(tag, dict(attrs))
        else:
            self._start_block(tag)

    def _stand_in(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        """Says what stands for an element that has no text of its own."""
        if tag == "img":
            self._say(re.sub(r"\s+", " ", attributes.get("alt") or ""))
        elif tag == "meta":
            told = leads_on(attributes, self._link)
            self.parts.append(f"\n\n{told}\n\n" if told else "")
        elif place := self._link(attributes.get("src") or ""):
            self.parts.append(f"\n\n[frame]({place})\n\n")

    def _start_block(self, tag: str) -> None:
        if tag == "li":
            mark = "-"
            if self._lists and self._lists[-1] >= 0:
                self._lists[-1] += 1
                mark = f"{self._lists[-1]}."
            self.parts.append(f"\n{'  ' * (len(self._lists) - 1)}{mark} ")
        elif tag == "br":
            self.parts.append("\n")
        elif tag == "pre":
            self._preformatted += 1
            self.parts.append("\n\n```\n")
        elif tag == "code":
            self._say("" if self._preformatted else "`")
        elif tag in ("td", "th"):
            self._say(" | ")
        elif tag in _BLOCKS:
            self.parts.append("\n" if self._lists else "\n\n")
        if tag in ("ol", "ul"):
            self._lists.append(0 if tag == "ol" else -1)

    def handle_endtag(self, tag: str) -> None:
        if self._skipping:
            if tag in self._skipping:
                del self._skipping[self._skipping.index(tag) :]
            return
        if tag == "a":
            self._close_link()
        elif tag == "pre" and self._preformatted:
            self._preformatted -= 1
            self.parts.append("\n```\n\n")
        elif tag == "code":
            self._say("" if self._preformatted else "`")
        elif tag in ("ol", "ul") and self._lists:
            self._lists.pop()
            self.parts.append("\n" if self._lists else "\n\n")
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.parts.append("\n" if self._lists else "\n\n")

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._say(data if self._preformatted else re.sub(r"\s+", " ", data))

    def _say(self, text: str) -> None:
        """Adds text; a space at the beginning of a line means nothing."""
        if not self._preformatted and (not self.parts or self.parts[-1].endswith(("\n", " "))):
            text = text.lstrip(" ")
        if text:
            self.parts.append(text)

    def _close_link(self) -> None:
        if self._href:
            self.parts.append(f"]({self._href})")
        self._href = ""
