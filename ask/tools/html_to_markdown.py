"""Convert HTML to Markdown, with tables and links, and without what surrounds the main content.

This runs in a subprocess, because a malicious page can keep a parser busy for hours.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from lxml import etree
from lxml import html as lxml_html
from markdownify import MarkdownConverter

from ask.process.isolated_process import limit_memory
from ask.text import fence_code

MAX_MARKDOWN_HTML_CHARACTERS = 2_000_000
"""Characters of HTML above which the conversion takes too long, and only the text is extracted."""
_SKIPPED_ELEMENTS = (
    *("aside", "button", "canvas", "footer", "iframe", "nav", "noscript", "object", "script", "select", "style"),
    *("svg", "template"),
)
"""Elements whose content is dropped: scripts, hidden elements and page navigation."""
FENCE = "```"
_FENCE_PATTERN = re.compile("`{3,}")
_REFRESH_PATTERN = re.compile(r"\s*[\d.]*\s*[;,]\s*(?:url\s*=)?\s*[\"']?([^\"']+)", re.IGNORECASE)
_MIN_MAIN_SHARE = 0.3
"""Share of a page's text that its main element must contain to be used instead of the full page."""
_MIN_TEXT_CHARACTERS = 200
"""Characters of text below which the text for browsers without JavaScript is added."""
SCRIPT_NOTE = "[this page needs JavaScript; it says without it:]"
_HEADING_ANCHOR_TEXTS = ("", "#", "§", "¶", "\N{LINK SYMBOL}")
"""Texts of the permalinks inside headings."""
_LINK_SCHEMES = ("http://", "https://", "mailto:")
_LANGUAGE_CLASS_PATTERN = re.compile(r"(?:language|lang|highlight-source)-([\w+#.-]{1,30})")


def main() -> None:
    """Read HTML from stdin and write its text to stdout; the first argument is the page's URL."""
    limit_memory()
    sys.stdout.buffer.write(convert_html(sys.stdin.buffer.read().decode(), sys.argv[1]).encode())


def convert_html(html: str, url: str) -> str:
    """Convert a page to Markdown, with links resolved against its URL or `base` element.

    Of a page that is very long or has elements that are nested too deeply, only the text is returned.
    """
    if len(html) > MAX_MARKDOWN_HTML_CHARACTERS:
        page = lxml_html.document_fromstring(html)
        etree.strip_elements(page, *_SKIPPED_ELEMENTS, etree.Comment, with_tail=False)
        return _collapse_blank_lines("\n".join(page.itertext()))
    soup = BeautifulSoup(html, "lxml")
    base = soup.find("base", href=True)
    with suppress(ValueError):
        url = urljoin(url, str(base["href"])) if isinstance(base, Tag) else url
    try:
        return _convert_soup(soup, partial(_resolve_link, url))
    except RecursionError:
        return soup.get_text("\n", strip=True)


def _resolve_link(base_url: str, href: str) -> str:
    """Return the absolute URL of a link; "" for fragments and schemes like javascript:."""
    with suppress(ValueError):
        absolute = urljoin(base_url, href.strip())
        if href.strip() and not href.startswith("#") and absolute.startswith(_LINK_SCHEMES):
            return absolute.replace("|", "%7C")  # which would begin another cell in a table
    return ""


def _convert_soup(soup: BeautifulSoup, resolve_link: Callable[[str], str]) -> str:
    title = " ".join(soup.title.get_text(" ").split()) if soup.title else ""
    refresh_links = "\n\n".join(filter(None, (_format_refresh_link(meta, resolve_link) for meta in soup("meta"))))
    fallback_text = ""
    if soup("script"):
        fallback_text = "\n\n".join(dict.fromkeys(" ".join(each.get_text(" ").split()) for each in soup("noscript")))
    for element in (*soup([*_SKIPPED_ELEMENTS, "title"]), *soup(_is_hidden)):
        element.decompose()
    _replace_media_elements(soup, resolve_link)
    _escape_pipes(soup)
    for anchor in soup("a"):
        href = str(anchor.get("href") or "")
        if href.startswith("#") and anchor.get_text(strip=True) in _HEADING_ANCHOR_TEXTS:
            anchor.decompose()
        elif url := resolve_link(href):
            anchor.attrs = {"href": url}
        else:
            anchor.unwrap()
    converter = _Converter(
        heading_style="ATX",
        bullets="-",
        code_language_callback=_find_language,
        escape_asterisks=False,
        escape_underscores=False,
    )
    text = _collapse_blank_lines(converter.convert_soup(_find_main_content(soup)))
    if fallback_text.strip() and len(text) < _MIN_TEXT_CHARACTERS:
        text = "\n\n".join(filter(None, (text, SCRIPT_NOTE, fallback_text.strip())))
    # Most pages begin with their title, after a logo or some links.
    heading = "" if title in text[: len(title) + 200] else title
    return "\n\n".join(filter(None, (heading, refresh_links, text)))


class _Converter(MarkdownConverter):
    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Convert a code block; its fence is longer than any in the code, which may be Markdown itself."""
        block: str = super().convert_pre(el, text, parent_tags)  # type: ignore[misc] # its stubs lack it
        fence = fence_code(text).partition("\n")[0]
        return block if fence == FENCE else f"\n\n{fence}{block.strip()[len(FENCE) : -len(FENCE)]}{fence}\n\n"


def _escape_pipes(soup: BeautifulSoup) -> None:
    """Escape pipes in table cells, where they would begin another one (python-markdownify#267); not in code blocks."""
    for cell in soup(["td", "th"]):
        if not cell.find(["table", "pre"]):
            for text in [text for text in cell.strings if "|" in text]:
                text.replace_with(text.replace("|", "\\|"))


def _collapse_blank_lines(text: str) -> str:
    """Collapse runs of blank lines outside code blocks."""
    lines = text.split("\n")
    contents = [line.strip(" \t") for line in lines]
    last_numbers = {content: number for number, content in enumerate(contents)}
    fence, kept = "", [""]
    for number, (line, content) in enumerate(zip(lines, contents, strict=True)):
        if fence:
            fence = "" if content == fence else fence
        elif (opening := _FENCE_PATTERN.match(content)) and last_numbers.get(opening[0], 0) > number:
            fence = opening[0]
        elif not content and not kept[-1]:
            continue
        kept.append(line if content or fence else "")
    return "\n".join(kept).strip()


def _format_refresh_link(meta: Tag, resolve_link: Callable[[str], str]) -> str:
    """Return a link to the target of a `meta` refresh element; "" for other `meta` elements."""
    target = _REFRESH_PATTERN.match(str(meta.get("content") or ""))
    is_refresh = str(meta.get("http-equiv") or "").strip().lower() == "refresh"
    url = resolve_link(target[1]) if is_refresh and target else ""
    return f"[this page redirects to]({url})" if url else ""


def _is_hidden(tag: Tag) -> bool:
    """Check whether an element is hidden: text that nobody sees may be meant only for the model."""
    if tag.name in ("html", "body"):  # often hidden until a script has run
        return False
    style = "".join(str(tag.get("style") or "").lower().split())
    return tag.has_attr("hidden") or "display:none" in style or "visibility:hidden" in style


def _replace_media_elements(soup: BeautifulSoup, resolve_link: Callable[[str], str]) -> None:
    """Replace images by their alternative text, and frames by links."""
    for image in soup("img"):
        image.replace_with(" ".join(str(image.get("alt") or "").split()))
    for frame in soup("frame"):
        url = resolve_link(str(frame.get("src") or ""))
        paragraph, anchor = soup.new_tag("p"), soup.new_tag("a", href=url)
        anchor.string = "frame"
        paragraph.append(anchor)
        frame.replace_with(paragraph if url else "")
    for summary in soup("summary"):
        summary.name = "p"  # or it would be joined with the text after it


def _find_language(element: Tag) -> str:
    """Return the language of a code block from the CSS classes that highlighters use."""
    for candidate in (element, *element("code")):
        for name in candidate.get_attribute_list("class"):
            if name and (match := _LANGUAGE_CLASS_PATTERN.fullmatch(name)):
                return match[1]
    return ""


def _find_main_content(soup: BeautifulSoup) -> Tag:
    """Return the main element if it contains enough of the text, otherwise the full page."""
    candidates = soup.find_all("main") or soup.find_all(None, {"role": "main"}) or soup.find_all("article")
    if len(candidates) == 1 and isinstance(candidates[0], Tag):
        main = candidates[0]
        if len(main.get_text()) >= _MIN_MAIN_SHARE * len(soup.get_text()):
            return main
    return soup
