"""Formats text with some Markdown (`code`, **bold**, links) as man(7) for mandoc and groff."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^]]+)\]\([^)]+\)")


def escape(text: str) -> str:
    """Escape text for roff: literal hyphens, no requests, only ASCII."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    text = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in text)
    return re.sub(r"^\.", r"\\&.", text, flags=re.MULTILINE)


def inline(text: str) -> str:
    """Format inline Markdown: code and bold as bold, links as their text."""
    pieces, end = [], 0
    for match in INLINE.finditer(text):
        pieces.append(escape(text[end : match.start()]))
        strong = match[1] or match[2]
        pieces.append(f"\\fB{escape(strong)}\\fR" if strong else escape(match[3]))
        end = match.end()
    return "".join([*pieces, escape(text[end:])])


def flowing(text: str) -> str:
    """Format a paragraph in short lines, none of which is a request."""
    marked = inline(" ".join(text.split()))
    wrapped = textwrap.fill(marked, 78, break_long_words=False, break_on_hyphens=False)
    return re.sub(r"^(?=\.)", r"\\&", wrapped, flags=re.MULTILINE)


def paragraphs(texts: Iterable[str], request: str = "PP") -> str:
    """Format paragraphs; one that begins with "\\b\
    " keeps its line breaks. The first follows a heading.
    """
    parts = [lines(text[2:]) if text.startswith("\b\n") else f"{flowing(text)}\n" for text in texts]
    return f".{request}\n".join(parts)


def lines(text: str) -> str:
    """Format lines unchanged and indented."""
    return f".RS 4\n.nf\n{escape(text)}\n.fi\n.RE\n"


def terms(pairs: Iterable[tuple[str, str]]) -> str:
    """Format terms, already in roff, each with its text below it."""
    return "".join(f".TP\n{term}\n{flowing(text)}\n" for term, text in pairs)


def option(names: str, value: str) -> str:
    """Format an option as a term: names in bold, the value in italics."""
    bold = re.sub(r"[\w-]+", lambda name: f"\\fB{escape(name[0])}\\fR", names)
    return f"{bold} \\fI{escape(value)}\\fR" if value else bold


def section(title: str, *parts: str) -> str:
    return f".SH {title}\n{''.join(parts)}"


def subsection(title: str, *parts: str) -> str:
    return f'.SS "{escape(title)}"\n{"".join(parts)}'


def page(name: str, date: str, source: str, sections: Sequence[str]) -> str:
    """Format a page of section 1."""
    return f'.TH {name.upper()} 1 {date} "{escape(source)}"\n{"".join(sections)}'
