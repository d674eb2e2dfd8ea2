"""The sources of answers: made safe, numbered, and marked in the text. Services take them from the web.

Nothing in a citation is trusted: addresses other than those of web pages are dropped, and so are characters that could
end a link or control a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote, urlsplit

from ask.messages import Citation, ModelResponse, ServerToolCall
from ask.records import NamedTuple
from ask.text import format_one_line, repair_surrogates

MAX_URL_CHARACTERS = 4_000
MAX_TITLE_CHARACTERS = 200
MAX_CITED_CHARACTERS = 1_000
"""Engines return whole pages as the cited passage; what is longer is cut."""
MAX_CITATIONS = 1_000
MAX_SERVER_CALLS = 1_000
MAX_CALL_CHARACTERS = 100_000
"""The limit for the arguments, and for the result, of a service's own call."""
URL_CHARACTERS = ":/?#[]@!$&'()*+,;=-._~%"
"""Characters that stay as they are in an address; the others, such as "<" and spaces, are percent-encoded."""
MARKUP = re.compile(r"[\\`*_\[\]<>&~|$#!]")
"""Characters that may mean something in Markdown or HTML."""
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Source(NamedTuple):
    """A source under its number.

    Attributes:
        number: its number, from 1.
        url: its address, which is safe in Markdown, HTML and on a terminal; "" for a source that is no web page.
        title: its title on one line, or else the address.
    """

    number: int
    url: str
    title: str


def clean_citations(citations: Iterable[Citation], text: str, removed: int = 0) -> tuple[Citation, ...]:
    """Return the citations of an answer with safe addresses, short texts, and positions that are in the text.

    `removed` characters were removed from the beginning of the text. What names neither a web page nor a title, and
    what a service repeats, is left out.
    """
    cleaned: dict[Citation, None] = {}
    for citation in citations:
        start, end = (None if place is None else place - removed for place in (citation.start, citation.end))
        if start is None or end is None or not 0 <= start <= end <= len(text) or end == 0:
            start = end = None
        title, cited_text = (" ".join(repair_surrogates(each).split()) for each in citation[1:3])
        url = _to_web_url(repair_surrogates(citation.url))
        if title.isdecimal():  # xAI's titles are the numbers of its markers
            title = ""
        if (url or title) and len(cleaned) < MAX_CITATIONS:
            limits = (title, MAX_TITLE_CHARACTERS), (cited_text, MAX_CITED_CHARACTERS)
            title, cited_text = (each if len(each) <= limit else f"{each[: limit - 1]}…" for each, limit in limits)
            cleaned[Citation(url, title, cited_text, start, end)] = None
    return tuple(cleaned)


def clean_server_calls(calls: Sequence[ServerToolCall]) -> tuple[ServerToolCall, ...]:
    """Return calls with valid text of limited length."""
    return tuple(
        call._replace(
            name=repair_surrogates(call.name) or "unnamed",
            arguments=repair_surrogates(call.arguments[:MAX_CALL_CHARACTERS]),
            result=repair_surrogates(call.result[:MAX_CALL_CHARACTERS]),
        )
        for call in calls[:MAX_SERVER_CALLS]
    )


def _to_web_url(url: str) -> str:
    """Return the address of a web page in a form that is safe everywhere; "" for any other text."""
    try:
        parts = urlsplit(url.strip())
        host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode("ascii")
    except (ValueError, UnicodeError):
        return ""
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or len(url) > MAX_URL_CHARACTERS:
        return ""
    return quote(parts._replace(netloc=host).geturl(), safe=URL_CHARACTERS)


def shift_citations(citations: Iterable[Citation], offset: int) -> tuple[Citation, ...]:
    """Return citations whose text now begins later by `offset` characters."""
    return tuple(
        citation
        if citation.start is None or citation.end is None
        else citation._replace(start=citation.start + offset, end=citation.end + offset)
        for citation in citations
    )


def select_final_citations(answer: ModelResponse) -> tuple[Citation, ...]:
    """Return the citations of an answer without those in its commentary, with positions in its final text."""
    offset = len(answer.text) - len(answer.final_text)
    citations = (each for each in answer.citations if each.start is None or each.start >= offset)
    return shift_citations(citations, -offset)


def remove_positions(citations: Iterable[Citation]) -> tuple[Citation, ...]:
    """Return citations of a text that was changed, or of which only a part is used."""
    return tuple(citation._replace(start=None, end=None) for citation in citations)


def number_sources(citations: Iterable[Citation]) -> list[Source]:
    """Return the sources of citations, numbered in the order in which they are first named."""
    sources: dict[str, Source] = {}
    for citation in citations:
        url, title = _to_web_url(citation.url), format_one_line(citation.title, MAX_TITLE_CHARACTERS)
        key = url or title
        if key and (key not in sources or sources[key].title == url != title != ""):
            number = sources[key].number if key in sources else len(sources) + 1
            sources[key] = Source(number, url, title or url)
    return list(sources.values())


def mark_sources(text: str, citations: Sequence[Citation], format_mark: Callable[[Source], str]) -> str:
    """Insert a mark after each part of a text that a source supports.

    There is none in code, and none where the text itself already names the source: OpenAI's answers contain links.
    """
    numbered = number_sources(citations)
    by_key = {source.url or source.title: source for source in numbered}
    places: dict[int, dict[int, Source]] = {}
    for citation in citations:
        url = _to_web_url(citation.url)
        source = by_key.get(url or format_one_line(citation.title, MAX_TITLE_CHARACTERS))
        start, end = citation.start, citation.end
        if source is None or start is None or end is None or not 0 <= start <= end <= len(text):
            continue
        end = start + len(text[start:end].rstrip())
        if not (citation.url and citation.url in text[start:end]) and not _is_in_code_or_link(text, end):
            places.setdefault(end, {})[source.number] = source
    for place in sorted(places, reverse=True):
        marks = "".join(map(format_mark, places[place].values()))
        text = text[:place] + marks + text[place:]
    return text


def _is_in_code_or_link(text: str, place: int) -> bool:
    """Check whether a place in Markdown is in code, in a link or inside a word, where a mark would change the text."""
    lines = text[:place].split("\n")
    fence, line = _find_open_fence(lines), lines[-1]
    rest = text[place:].partition("\n")[0]
    is_in_code = bool(fence) or line.startswith(("    ", "\t")) or line.count("`") % 2 == 1
    is_in_link = (line.rfind("](") > line.rfind(")")) or (line.count("[") > line.count("]") and "](" in rest)
    return is_in_code or is_in_link or (line[-1:].isalnum() and rest[:1].isalnum())


def _find_open_fence(lines: Iterable[str]) -> str:
    """Return the fence of the code block in which lines of Markdown end; "" if they do not end in one."""
    fence = ""
    for line in lines:
        match = FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and match[1].startswith(fence):
            fence = ""
    return fence


def citations_to_json(citations: Sequence[Citation]) -> str:
    """Return citations as JSON text; "" for none."""
    return json.dumps([citation._asdict() for citation in citations], ensure_ascii=False) if citations else ""


def to_markdown(text: str, citations: Sequence[Citation]) -> str:
    """Return an answer in Markdown with its sources: a link after each part that one supports, and a list at the end.

    Titles are text from the web: only their letters, digits and plain punctuation are kept.
    """
    marked = mark_sources(text, citations, _format_link)
    sources = list_in_markdown(citations, marked, "Sources:")
    return f"{marked.rstrip(chr(10))}\n{sources}\n" if sources else text


def list_in_markdown(citations: Iterable[Citation], text: str, title: str = "") -> str:
    """Return the sources as a list in Markdown, which is not a part of the code with which a text may end."""
    sources = number_sources(citations)
    if not sources:
        return ""
    fence = _find_open_fence(text.split("\n"))
    lines = [f"{source.number}. {_format_named_link(source)}" for source in sources]
    return "\n".join([*([fence] if fence else []), "", *([title, ""] if title else []), *lines])


def _format_link(source: Source) -> str:
    return f" [\\[{source.number}\\]](<{source.url}>)" if source.url else f" \\[{source.number}\\]"


def _format_named_link(source: Source) -> str:
    title = " ".join(MARKUP.sub(" ", source.title).split()) if source.title != source.url else ""
    if not source.url:
        return title
    return f"[{title}](<{source.url}>)" if title else f"<{source.url}>"


def format_notes(citations: Iterable[Citation]) -> str:
    """Return the sources as numbered notes for a terminal, each with its title and its address; "" for none."""
    return "".join(
        f"[{source.number}] {source.title}\n" + (f"    {source.url}\n" if source.url not in ("", source.title) else "")
        for source in number_sources(citations)
    )
