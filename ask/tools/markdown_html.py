"""HTML to Markdown with the packages of the extra `web`: tables and nested lists too, and the main part alone.

Importing it without them raises ImportError.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bs4 import BeautifulSoup, Tag
from bs4.builder import builder_registry
from markdownify import MarkdownConverter

from ask.tools.plain_html import SKIPPED_ELEMENTS, collapse_blank_lines, format_refresh_link

if builder_registry.lookup("lxml") is None:
    raise ImportError("lxml is not installed", name="lxml")

_MIN_MAIN_SHARE = 0.3
"""The share of a page's text that what it calls its main part must have, to stand for the whole."""
_HEADING_ANCHOR_TEXTS = ("", "#", "§", "¶", "\N{LINK SYMBOL}")
"""What links to the very heading in which they stand show."""
_LANGUAGE_CLASS_PATTERN = re.compile(r"(?:language|lang|highlight-source)-([\w+#.-]{1,30})")


def to_markdown(html: str, resolve_link: Callable[[str], str]) -> str:
    """The text of a page.

    Args:
        html: the page.
        resolve_link: gives a link's whole URL, "" where it leads nowhere.

    Raises:
        RecursionError: its elements are nested more deeply than calls may be.
    """
    soup = BeautifulSoup(html, "lxml")
    title = " ".join(soup.title.get_text(" ").split()) if soup.title else ""
    onward = "\n\n".join(
        filter(
            None,
            (
                format_refresh_link({name: str(value) for name, value in meta.attrs.items()}, resolve_link)
                for meta in soup("meta")
            ),
        )
    )
    for unwanted in (*soup([*SKIPPED_ELEMENTS, "title"]), *soup(_is_hidden)):
        unwanted.decompose()
    _replace_media_elements(soup, resolve_link)
    for anchor in soup("a"):
        href = str(anchor.get("href") or "")
        if href.startswith("#") and anchor.get_text(strip=True) in _HEADING_ANCHOR_TEXTS:
            anchor.decompose()
        elif whole := resolve_link(href):
            anchor.attrs = {"href": whole}
        else:
            anchor.unwrap()
    converter = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        code_language_callback=_find_language,
        escape_asterisks=False,
        escape_underscores=False,
    )
    text = collapse_blank_lines(converter.convert_soup(_find_main_content(soup)))
    heading = "" if title in text[: len(title) + 200] else title
    return "\n\n".join(filter(None, (heading, onward, text)))


def _is_hidden(tag: Tag) -> bool:
    """Whether a page shows nothing of an element: what nobody can see there, nobody means to be read."""
    if tag.name in ("html", "body"):  # shown by a script, once it is loaded
        return False
    style = "".join(str(tag.get("style") or "").lower().split())
    return tag.has_attr("hidden") or "display:none" in style or "visibility:hidden" in style


def _replace_media_elements(soup: BeautifulSoup, resolve_link: Callable[[str], str]) -> None:
    """Puts what stands for an element in its place, where it has no text of its own: an image, or a frame."""
    for image in soup("img"):
        image.replace_with(" ".join(str(image.get("alt") or "").split()))
    for frame in soup("frame"):
        place = resolve_link(str(frame.get("src") or ""))
        paragraph, anchor = soup.new_tag("p"), soup.new_tag("a", href=place)
        anchor.string = "frame"
        paragraph.append(anchor)
        frame.replace_with(paragraph if place else "")
    for summary in soup("summary"):
        summary.name = "p"


def _find_language(element: Tag) -> str:
    """The language of a block of code, where its classes name it as highlighters have them."""
    for part in (element, *element("code")):
        for name in part.get_attribute_list("class"):
            if name and (match := _LANGUAGE_CLASS_PATTERN.fullmatch(name)):
                return match[1]
    return ""


def _find_main_content(soup: BeautifulSoup) -> Tag:
    """What the page itself calls its main part, if most of the page is there; else all of it."""
    found = soup.find_all("main") or soup.find_all(None, {"role": "main"}) or soup.find_all("article")
    if len(found) == 1 and isinstance(found[0], Tag):
        main = found[0]
        if len(main.get_text()) >= _MIN_MAIN_SHARE * len(soup.get_text()):
            return main
    return soup
